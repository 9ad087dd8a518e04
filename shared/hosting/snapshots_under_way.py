"""Snapshots of a node's vertices: from what their checkpoints decide, by way of keepers, until they are permanent.

Store -> keep -> pieces on the state edge -> keepers -> their receipts -> settle -> Permanent

What goes to keepers is a whole snapshot, or what changed since the last one that all of them have. Changes go only
where every keeper takes them, which its receipts say. A keeper that has taken the end of them and is not through with
it had not what they are changes of: then a whole one follows.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from shared.batch import NO_FRONTIER
from shared.errors import UsageError
from shared.hosting.here import reserved_bytes
from shared.hosting.instance import Instance
from shared.hosting.keeper import Keeper, KeeperPersist, cut_of
from shared.hosting.kept_snapshot import TAKES_CHANGES, KeptSnapshot, digest_of, pieces
from shared.hosting.messages import Committed
from shared.hosting.wiring import STATE, EdgeSpec, KeptSpec, state_edge
from shared.identity import EdgeId
from shared.recovery.checkpoints import Permanent, Store
from shared.recovery.marks import MarkId
from shared.recovery.strategies.row import Home
from shared.spool.entry import SpooledBatch
from shared.spool.ring import Spool
from shared.spool.segment import CONTROL_BYTES
from shared.sync.outbox import Outbox

Identity: TypeAlias = tuple[str, int, str]  # of a vertex: query, incarnation, name


@dataclass(slots=True)
class Storing:
    """A snapshot on its way to its keepers."""

    id: MarkId
    end: int  # its last piece on the state edge
    bytes: int
    kept: KeptSnapshot
    known: Known
    by_changes: bool


@dataclass(frozen=True, slots=True)
class Known:
    """A snapshot that all keepers of a vertex have."""

    digest: bytes  # as it was sent
    states: tuple[bytes, ...]  # that it is restored from, as the vertex froze them
    keepers: frozenset[str]


class SnapshotsUnderWay:
    def __init__(
        self,
        node: str,
        keeper: Keeper,
        outbox: Outbox,
        made: Spool,
        *,
        send: Callable[[str, SpooledBatch], None],
        broadcast: Callable[[Instance, EdgeSpec, int, bytes], bool],
        store: Callable[[Sequence[KeeperPersist]], None],
        say: Callable[[object], None],
        whole: Callable[[Instance, KeptSnapshot], KeptSnapshot | None],
    ) -> None:
        """`send` tells a node's sender of a piece for it, `store` is for the next step, `say` for whoever drives it.
        `broadcast` sends all pieces from a number on at once, where that is cheaper and the row wants it. `whole` makes
        a snapshot that builds on others stand by itself; None where its operators failed at that."""
        self._node = node
        self._keeper, self._outbox, self._made = keeper, outbox, made
        self._send, self._broadcast, self._store, self._say = send, broadcast, store, say
        self._whole = whole
        self._known: dict[Identity, Known] = {}
        self._takes_changes: dict[Identity, set[str]] = {}  # the keepers that say so
        self.storing: dict[Identity, Storing] = {}
        self._without_room: dict[Identity, tuple[Instance, KeptSnapshot, int]] = {}  # and how much room each needs
        self._own: dict[Identity, KeptSnapshot] = {}  # newest of what runs here: to begin again, to pass on
        self._unconfirmed: dict[Identity, KeptSnapshot] = {}  # wait until their instance is confirmed

    def checkpoint(self, instance: Instance) -> None:
        """Do what the instance's checkpoints have decided."""
        while events := instance.checkpoints.events():
            for event in events:
                if isinstance(event, Store):
                    edges = {name: edge.key.edge for name, edge in instance.spec.outputs.items()}
                    copies = functools.partial(_copies, self._outbox, edges)
                    self._made.sync()  # in memory: what was made just now is seen from here on
                    self.keep(instance, instance.kept(event, copies))
                elif isinstance(event, Permanent) and event.id is not None:
                    stored = self.storing.get(instance.spec.identity)
                    if stored is not None and (stored.id == event.id or not instance.of_region):
                        del self.storing[instance.spec.identity]
                        instance.permanent_bytes = stored.bytes
                    size = instance.permanent_bytes or 0
                    self._say(Committed(instance.query, instance.vertex, instance.term, event.id, size))
                    instance.forget_frozen()

    def keep(self, instance: Instance, kept: KeptSnapshot) -> None:
        """Send a snapshot to the keepers; this node's own has it at once, durable with this step."""
        spec = instance.spec
        if not instance.confirmed and not instance.of_region:
            self._unconfirmed[spec.identity] = kept
            return
        as_frozen = kept = replace(kept, term=instance.term)
        states, known = kept.states, self._known.get(spec.identity)
        data, by_changes = b"", False
        if known is not None and self._go_on(instance) and known.states == states[: len(known.states)] != states:
            data, by_changes = kept.since(known.digest, len(known.states)).encode(), True
        elif kept.onto:
            found = self._whole(instance, kept)
            if found is None:
                return
            kept = found
        data = data or kept.encode()
        state = state_edge(spec.query, spec.placement)
        others = [node for node in state.readers if node != self._node]
        number, mark = state.key.edge, kept.permanent.id
        parts = pieces(data) if others else []
        if (needs := sum(CONTROL_BYTES + len(piece) for piece in parts)) > self._room_in_all - self._made.used_bytes:
            self._has_no_room(instance, as_frozen, needs)
            return
        if instance.keeps_state and not instance.of_region:  # else here nothing begins with it
            self._own[spec.identity] = kept
        if self._keeps_own(instance) or cut_of(kept):
            own = KeptSpec(spec.query.name, spec.query.incarnation, spec.vertex.name, instance.term, state)
            self._store(self._keeper.keep(data, own))
        if others:
            first = self._made.head(number)
            batches = [
                SpooledBatch(number, lo, lo + 1, 0, STATE.id, 0, NO_FRONTIER, 0, piece)
                for lo, piece in enumerate(parts, start=first)
            ]
            for batch in batches:
                self._made.append(batch)
            if not self._broadcast(instance, state, first, data):
                for batch, node in itertools.product(batches, others):
                    self._send(node, batch)
        if mark is not None:
            end, now_known = self._made.head(number) if others else 0, Known(digest_of(data), states, frozenset(others))
            size = kept.size if by_changes else len(data)
            self.storing[spec.identity] = Storing(mark, end, size, kept, now_known, by_changes)
            self.settle(instance)

    @property
    def _room_in_all(self) -> int:
        """What snapshots may take where nothing else is: all but what rows of every vertex have reserved."""
        return self._made.capacity_bytes - reserved_bytes()

    def _has_no_room(self, instance: Instance, kept: KeptSnapshot, needs: int) -> None:
        """A snapshot waits until others are stored and rows are taken; one that is too large for that never goes."""
        if needs <= self._room_in_all:
            self._without_room[instance.spec.identity] = instance, kept, needs
            return
        instance.unstored = str(
            UsageError(
                f"its snapshot has {needs / 1e6:,.2f} MB and a node has room for {self._room_in_all / 1e6:,.2f} "
                "MB on the way: it runs on, and would begin again from the last one that was stored",
                code="snapshot-too-large",
            )
        )
        if kept.permanent.id is not None:
            instance.checkpoints.unstorable(kept.permanent.id)
            instance.forget_frozen()

    def go_on(self) -> None:
        """Send what has waited for room, where there is some now."""
        for identity, (instance, kept, needs) in [*self._without_room.items()]:
            if needs <= self._room_in_all - self._made.used_bytes:
                del self._without_room[identity]
                self.keep(instance, kept)

    def _keeps_own(self, instance: Instance) -> bool:
        """Whether this node keeps its own vertex's snapshots: where nobody else is left, it does."""
        keepers = instance.spec.placement.keepers
        return self._node in keepers or (not keepers and instance.keeps_state)

    def _go_on(self, instance: Instance) -> bool:
        """Whether all who keep an instance's snapshots have the last one, and take what changed since."""
        spec, known = instance.spec, self._known.get(instance.spec.identity)
        if known is None or instance.checkpoints.row.home not in (Home.PEERS, Home.LOCAL):
            return False
        if self._keeps_own(instance) and self._keeper.digest(spec.identity) != known.digest:
            return False
        state = state_edge(spec.query, spec.placement)
        others = {node for node in state.readers if node != self._node}
        return others <= known.keepers & self._takes_changes.get(spec.identity, set())

    def receipted(self, instance: Instance, node: str, takes: int) -> None:
        """A keeper said how far it has come with an instance's state edge, and in what form it takes snapshots."""
        those = self._takes_changes.setdefault(instance.spec.identity, set())
        (those.add if takes >= TAKES_CHANGES else those.discard)(node)
        self.settle(instance)

    def settle(self, instance: Instance) -> None:
        """Look whether all keepers have what is on its way to them."""
        storing = self.storing.get(instance.spec.identity)
        if storing is None:
            return
        state = state_edge(instance.spec.query, instance.spec.placement)
        others = any(node != self._node for node in state.readers)
        if not others or self._outbox.through(state.key.edge) >= storing.end:
            instance.unkept = False
            instance.unstored = ""
            self._known[instance.spec.identity] = storing.known
            instance.by_changes = self._go_on(instance)
            instance.checkpoints.stored(storing.id)
            self.checkpoint(instance)
            if self.storing.get(instance.spec.identity) is storing:  # it was one to begin with: nothing waited for it
                instance.permanent_bytes = storing.bytes
                del self.storing[instance.spec.identity]
        elif storing.by_changes and any(self._refused(node, state.key.edge, storing.end) for node in state.readers):
            # A whole one may have to wait for room: the changes keep none of it, and are refused once.
            del self._known[instance.spec.identity], self.storing[instance.spec.identity]
            self._made.trim(state.key.edge, storing.end)
            instance.by_changes = False
            self.keep(instance, storing.kept)

    def _refused(self, node: str, edge: EdgeId, end: int) -> bool:
        """Whether a keeper has got all pieces and made no snapshot of them."""
        reading = self._outbox.reading(node)
        return reading.taken.get(edge, 0) >= end > reading.through.get(edge, 0)

    def input_went_on(self, instance: Instance) -> None:
        """Keep what waited for the instance to be confirmed, if now it is."""
        waiting = self._unconfirmed.pop(instance.spec.identity, None) if instance.confirmed else None
        if waiting is not None:
            self.keep(instance, waiting)

    def rewired(self, instance: Instance, keepers_before: tuple[str, ...]) -> None:
        """An instance has perhaps other keepers than before."""
        instance.by_changes = self._go_on(instance)
        own = self._own.get(instance.spec.identity)
        if instance.restored is not None and (instance.of_region or not instance.keeps_state):
            instance.restored, instance.unkept = None, False  # it was handed over, once, or all have it
        elif instance.restored is not None:
            self.keep(instance, instance.restored)  # its new keepers should have what it began with
            instance.restored = None
        elif instance.spec.identity in self._without_room:
            pass  # a newer one than its own goes to all of them
        elif own is not None and {*instance.spec.placement.keepers} - {*keepers_before}:
            self.keep(instance, own)  # what was under way may have gone to the others alone
        else:
            self.settle(instance)  # perhaps only keepers that are gone had not answered

    def begins_again(self, identity: Identity, cut: int | None = None) -> KeptSnapshot | None:
        """A vertex begins under a new term: what is under way of it ends. The newest that is here of it, or its part of
        this cut."""
        self.storing.pop(identity, None)
        self._unconfirmed.pop(identity, None)
        self._known.pop(identity, None)
        self._without_room.pop(identity, None)
        self._takes_changes.pop(identity, None)
        if cut is not None:
            return self._keeper.cut(identity, cut)
        found = [one for one in (self._keeper.newest(identity), self._own.get(identity)) if one is not None]
        return max(found, key=lambda one: one.version, default=None)

    def forget(self, identity: Identity) -> None:
        """A vertex runs here no more."""
        self.storing.pop(identity, None)
        self._unconfirmed.pop(identity, None)
        self._known.pop(identity, None)
        self._without_room.pop(identity, None)
        self._takes_changes.pop(identity, None)
        self._own.pop(identity, None)

    def newest(self) -> list[KeptSnapshot]:
        """Of every vertex that runs or is kept here."""
        held = {one.identity: one for one in self._keeper.held()}
        for identity, one in self._own.items():
            if identity not in held or held[identity].version < one.version:
                held[identity] = one
        return [one for _, one in sorted(held.items())]

    @property
    def own_bytes(self) -> int:
        return sum(one.size for one in self._own.values())


def _copies(outbox: Outbox, edges: Mapping[str, EdgeId], output: str, lo: int, hi: int) -> list[SpooledBatch]:
    return outbox.copies(edges[output], lo, hi)
