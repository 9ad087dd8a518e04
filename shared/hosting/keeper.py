"""Others' snapshots, kept on this node: what a vertex is restored from when it starts here.

Of each vertex the newest whole snapshot is kept, by term and then by order of arrival. It counts as kept, and is
receipted, only once it is durable: the driver stores `KeepSnapshot` before it sends the step's replies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from shared.errors import DamagedData, PeerError
from shared.hosting.kept_snapshot import Assembly, KeptSnapshot
from shared.hosting.wiring import KeptSpec
from shared.identity import EdgeKey
from shared.spool.disk import Disk

PREFIX = "kept-"


@dataclass(frozen=True, slots=True)
class KeepSnapshot:
    """Store this under its name in place of what was there: all of it or nothing."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ForgetSnapshot:
    name: str


class Keeper:
    """The snapshots that are here, and those that are arriving."""

    def __init__(self, disk: Disk) -> None:
        self._kept: dict[tuple[str, int, str], KeptSnapshot] = {}
        self._arriving: dict[EdgeKey, Assembly] = {}
        self._specs: dict[EdgeKey, KeptSpec] = {}
        self._read_last: dict[tuple[str, int, str], EdgeKey] = {}  # the state edge of each vertex, read now or before
        self.taken: dict[EdgeKey, int] = {}
        self.through: dict[EdgeKey, int] = {}  # behind the last piece of the newest whole snapshot
        self.damaged = 0
        for name in disk.names():
            if name.startswith(PREFIX):
                self._read(disk, name)

    def _read(self, disk: Disk, name: str) -> None:
        file = disk.open(name)
        try:
            found = KeptSnapshot.decode(file.read(0, file.size()))
        except DamagedData:
            self.damaged += 1
            return
        finally:
            file.close()
        self._kept[found.identity] = found

    def keep_for(self, specs: Iterable[KeptSpec], known: Collection[tuple[str, int, str]]) -> list[ForgetSnapshot]:
        """Take the snapshots of these from now on. What is here of other vertices that are known stays: a node that was
        away may have the only copy that is new enough. Of vertices that are gone it goes.

        How far it has come with a state edge stays too. Who makes it may never hear that this node did not read it for
        a while, and would take an earlier position for an old receipt."""
        self._specs = {spec.edge.key: spec for spec in specs}
        self._read_last.update((spec.identity, key) for key, spec in self._specs.items())
        self._read_last = {identity: key for identity, key in self._read_last.items() if identity in known}
        stays = {*self._read_last.values()}
        self._arriving = {key: parts for key, parts in self._arriving.items() if key in stays}
        self.taken = {key: at for key, at in self.taken.items() if key in stays}
        self.through = {key: at for key, at in self.through.items() if key in stays}
        gone = [identity for identity in self._kept if identity not in known]
        return [ForgetSnapshot(_name(identity)) for identity in gone if self._kept.pop(identity)]

    def reads(self, key: EdgeKey) -> KeptSpec | None:
        return self._specs.get(key)

    def take(self, key: EdgeKey, hi: int, piece: bytes) -> KeepSnapshot | None:
        """The next piece on a state edge. What to store, when it was the last."""
        spec = self._specs[key]
        self.taken[key] = hi
        whole = self._arriving.setdefault(key, Assembly()).add(piece)
        if whole is None:
            return None
        item = self.keep(whole, spec)
        self.through[key] = hi
        return item

    def keep(self, data: bytes, spec: KeptSpec) -> KeepSnapshot:
        """A whole snapshot, of this vertex and term or refused."""
        try:
            snapshot = KeptSnapshot.decode(data)
        except DamagedData as error:
            raise PeerError(error.message, code="snapshot-piece") from None
        if snapshot.identity != spec.identity or snapshot.term != spec.term:
            raise PeerError("a snapshot of another vertex or term than its edge is for", code="snapshot-piece")
        self._kept[snapshot.identity] = snapshot
        return KeepSnapshot(_name(snapshot.identity), data)

    def newest(self, identity: tuple[str, int, str]) -> KeptSnapshot | None:
        return self._kept.get(identity)

    def held(self) -> list[KeptSnapshot]:
        """What is kept here."""
        return [self._kept[identity] for identity in sorted(self._kept)]


def _name(identity: tuple[str, int, str]) -> str:
    query, incarnation, vertex = identity
    digest = hashlib.blake2b(f"{query}/{incarnation}/{vertex}".encode(), digest_size=16).hexdigest()
    return PREFIX + digest
