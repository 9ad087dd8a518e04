"""Others' snapshots, kept on this node: what a vertex is restored from when it starts here.

Of each vertex the newest snapshot is kept, by term and then by order of arrival: a whole one in one file, and what
changed since then in one more for each snapshot that came as changes. It counts as kept, and is receipted, only once it
is durable: the driver stores `KeepSnapshot` before it sends the step's replies. Changes since anything but the newest
one that is here are refused. Who sent them learns it from the receipt, which has come to their end without being
through with it, and sends a whole one.

Of a vertex whose region goes back together the parts of several cuts are kept beside each other, until a later one is
complete: the newest part that is here may be of a cut that never will be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from shared.errors import DamagedData, PeerError
from shared.hosting.initiators import cut_initiator
from shared.hosting.kept_snapshot import SNAPSHOT_BYTES_MAX, STATES_MAX, Assembly, KeptSnapshot, digest_of
from shared.hosting.wiring import KeptSpec
from shared.identity import EdgeKey
from shared.spool.disk import Disk

PREFIX = "kept-"
CHANGES = "changes-"


@dataclass(frozen=True, slots=True)
class KeepSnapshot:
    """Store this under its name in place of what was there: all of it or nothing."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ForgetSnapshot:
    name: str


KeeperPersist: TypeAlias = KeepSnapshot | ForgetSnapshot


class Keeper:
    """The snapshots that are here, and those that are arriving."""

    def __init__(self, disk: Disk) -> None:
        self._kept: dict[tuple[str, int, str], KeptSnapshot] = {}
        self._cuts: dict[tuple[str, int, str], dict[int, KeptSnapshot]] = {}
        self._digests: dict[tuple[str, int, str], bytes] = {}  # of the newest, as it came
        self._changes: dict[str, list[str]] = {}  # files by what they begin with; those behind a gap count for none
        self._arriving: dict[EdgeKey, Assembly] = {}
        self._specs: dict[EdgeKey, KeptSpec] = {}
        self._read_last: dict[tuple[str, int, str], EdgeKey] = {}  # the state edge of each vertex, read now or before
        self.taken: dict[EdgeKey, int] = {}
        self.through: dict[EdgeKey, int] = {}  # behind the last piece of the newest whole snapshot
        self.damaged = 0
        for prefix in (PREFIX, CHANGES):  # changes by their numbers, once what they are changes of is here
            for name in sorted(disk.names()):
                if name.startswith(prefix):
                    if prefix == CHANGES:
                        self._changes.setdefault(name.rpartition("-")[0], []).append(name)
                    self._read(disk, name)

    def _read(self, disk: Disk, name: str) -> None:
        file = disk.open(name)
        try:
            data = file.read(0, file.size())
            found = KeptSnapshot.decode(data)
        except DamagedData:
            self.damaged += 1
            return
        finally:
            file.close()
        if found.after:
            if found.after != self._digests.get(found.identity):
                return  # of an earlier whole one: a kill came between this one's coming and their going
            found = found.joined(self._kept[found.identity])
        self._put(found, data)

    def _put(self, snapshot: KeptSnapshot, data: bytes) -> None:
        cut = cut_of(snapshot)
        if cut:
            self._cuts.setdefault(snapshot.identity, {})[cut] = snapshot
        else:
            self._kept[snapshot.identity] = snapshot
            self._digests[snapshot.identity] = digest_of(data)

    def keep_for(
        self,
        specs: Iterable[KeptSpec],
        known: Collection[tuple[str, int, str]],
        passed: Collection[tuple[str, int, str]] = (),
        regions: Collection[tuple[str, int]] = (),
    ) -> list[ForgetSnapshot]:
        """Take the snapshots of these from now on. What is here of other vertices that are known stays: a node that was
        away may have the only copy that is new enough. Of vertices that are gone it goes, and of those that are passed:
        no failure is recovered from with it. Parts of cuts go where this node is in the query's region no more.

        How far it has come with a state edge stays too. Who makes it may never hear that this node did not read it for
        a while, and would take an earlier position for an old receipt."""
        self._specs = {spec.edge.key: spec for spec in specs}
        self._read_last.update((spec.identity, key) for key, spec in self._specs.items())
        self._read_last = {identity: key for identity, key in self._read_last.items() if identity in known}
        stays = {*self._read_last.values()}
        self._arriving = {key: parts for key, parts in self._arriving.items() if key in stays}
        self.taken = {key: at for key, at in self.taken.items() if key in stays}
        self.through = {key: at for key, at in self.through.items() if key in stays}
        gone = [identity for identity in self._kept if identity not in known or identity in passed]
        left = [identity for identity in self._cuts if identity[:2] not in regions]
        found = [ForgetSnapshot(_name(identity, cut)) for identity in left for cut in self._cuts.pop(identity)]
        begins = {_changes_of(identity) for identity in known if identity not in passed}
        for others in self._changes.keys() - begins:  # first: without the whole one they are nobody's
            found += map(ForgetSnapshot, self._changes.pop(others))
        for identity in gone:
            del self._kept[identity], self._digests[identity]
            found.append(ForgetSnapshot(_name(identity)))
        return found

    def cut(self, identity: tuple[str, int, str], number: int) -> KeptSnapshot | None:
        """A vertex's part of this cut."""
        return self._cuts.get(identity, {}).get(number)

    def collect(self, query: str, incarnation: int, complete: int) -> list[ForgetSnapshot]:
        """This cut is complete: no region goes back before it."""
        found = []
        for identity, parts in self._cuts.items():
            if identity[:2] == (query, incarnation):
                for number in [number for number in parts if number < complete]:
                    del parts[number]
                    found.append(ForgetSnapshot(_name(identity, number)))
        return found

    def reads(self, key: EdgeKey) -> KeptSpec | None:
        return self._specs.get(key)

    def take(self, key: EdgeKey, hi: int, piece: bytes) -> list[KeeperPersist]:
        """The next piece on a state edge. What to store, when it was the last."""
        spec = self._specs[key]
        self.taken[key] = hi
        whole = self._arriving.setdefault(key, Assembly()).add(piece)
        if whole is None:
            return []
        items = self.keep(whole, spec)
        self.through[key] = hi
        return items

    def read_edges(self) -> Collection[EdgeKey]:
        return self._specs.keys()

    def take_whole(self, key: EdgeKey, hi: int, data: bytes) -> list[KeeperPersist]:
        """All pieces up to `hi` at once, as they were broadcast."""
        items = self.keep(data, self._specs[key])
        self._arriving.pop(key, None)
        self.taken[key] = max(hi, self.taken.get(key, 0))
        self.through[key] = hi
        return items

    def keep(self, data: bytes, spec: KeptSpec) -> list[KeeperPersist]:
        """A snapshot of this vertex and term, whole or as what changed since the newest; others are refused."""
        try:
            snapshot = KeptSnapshot.decode(data)
        except DamagedData as error:
            raise PeerError(error.message, code="snapshot-piece") from None
        if snapshot.identity != spec.identity or snapshot.term != spec.term:
            raise PeerError("a snapshot of another vertex or term than its edge is for", code="snapshot-piece")
        if snapshot.after:
            return self._keep_changes(snapshot, data)
        self._put(snapshot, data)
        cut = cut_of(snapshot)
        return [
            KeepSnapshot(_name(snapshot.identity, cut), data),
            *([] if cut else map(ForgetSnapshot, self._changes.pop(_changes_of(snapshot.identity), []))),
        ]

    def _keep_changes(self, snapshot: KeptSnapshot, data: bytes) -> list[KeeperPersist]:
        identity = snapshot.identity
        newest = self._digests.get(identity)
        if newest == digest_of(data):
            return []  # it came before, and the answer was lost
        if newest != snapshot.after:
            raise PeerError("changes since a snapshot that is not the newest one here", code="snapshot-base")
        joined = snapshot.joined(self._kept[identity])
        if len(joined.states) > STATES_MAX or joined.size > SNAPSHOT_BYTES_MAX:
            raise PeerError(f"a snapshot is at most {STATES_MAX} states, a whole one first", code="snapshot-chain")
        files = self._changes.setdefault(_changes_of(identity), [])
        name = f"{_changes_of(identity)}-{len(self._kept[identity].onto):04x}"
        if name not in files:
            files.append(name)
        self._put(joined, data)
        return [KeepSnapshot(name, data)]

    def digest(self, identity: tuple[str, int, str]) -> bytes:
        """Of the newest that is here, as it came; empty where nothing is."""
        return self._digests.get(identity, b"")

    def newest(self, identity: tuple[str, int, str]) -> KeptSnapshot | None:
        return self._kept.get(identity)

    def latest(self, identity: tuple[str, int, str]) -> KeptSnapshot | None:
        """The newest of all that is here of a vertex, parts of cuts as well."""
        found = [*self._cuts.get(identity, {}).values(), *([self._kept[identity]] if identity in self._kept else ())]
        return max(found, key=lambda one: one.version, default=None)

    def held(self) -> list[KeptSnapshot]:
        """What is kept here, but for parts of cuts."""
        return [self._kept[identity] for identity in sorted(self._kept)]

    def cuts(self) -> list[KeptSnapshot]:
        """The parts of cuts that are kept here."""
        return [part for _, parts in sorted(self._cuts.items()) for _, part in sorted(parts.items())]


def cut_of(snapshot: KeptSnapshot) -> int:
    """The number of the cut that a snapshot is a part of; 0 where its vertex took it by itself."""
    mark = snapshot.permanent.id
    of_cut = mark is not None and mark.initiator == cut_initiator(snapshot.query, snapshot.incarnation)
    return mark.number if mark is not None and of_cut else 0


def _name(identity: tuple[str, int, str], cut: int = 0) -> str:
    return f"{PREFIX}{_digest(identity)}-{cut:016x}" if cut else PREFIX + _digest(identity)


def _changes_of(identity: tuple[str, int, str]) -> str:
    """What the names of a vertex's files of changes begin with."""
    return CHANGES + _digest(identity)


def _digest(identity: tuple[str, int, str]) -> str:
    query, incarnation, vertex = identity
    return hashlib.blake2b(f"{query}/{incarnation}/{vertex}".encode(), digest_size=16).hexdigest()
