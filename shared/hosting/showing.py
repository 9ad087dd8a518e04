"""What a node shows of itself: the STATUS that its coordinator hears, and what its share of queries costs it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from shared.hosting.alternates import Alternates
from shared.hosting.calling import Calling
from shared.hosting.copies import name_of
from shared.hosting.cutting import Cutting
from shared.hosting.here import Here
from shared.hosting.instance import BEHIND, FAILED, RUNNING, STARTING, Instance
from shared.hosting.returning import Returning
from shared.hosting.snapshots_under_way import SnapshotsUnderWay
from shared.spool.entry import DataEntry
from shared.wire.packed_deployment import base_digest
from shared.wire.status import DeviceStatus, InstanceStatus, KeptStatus


class Held(NamedTuple):
    """Bytes that the vertices here keep in memory."""

    rows: int  # that readers may ask for again
    snapshots: int  # frozen and not permanent, on their way to keepers, and the newest of each


class Showing:
    def __init__(
        self,
        here: Here,
        calling: Calling,
        *,
        cutting: Cutting,
        returning: Returning,
        alternates: Alternates,
        snapshots: SnapshotsUnderWay,
    ) -> None:
        self._here, self._calling, self._cutting = here, calling, cutting
        self._returning, self._alternates, self._snapshots = returning, alternates, snapshots

    def status(self) -> DeviceStatus:
        """What a coordinator must know."""
        here = self._here
        found = [
            InstanceStatus(
                one.query,
                one.vertex,
                one.term,
                self._state(one),
                one.failed or one.unstored,
                one.lost,
                *permanent(one),
                self._cutting.stored(one),
            )
            for one in here.instances.values()
        ]
        found += here.not_begun.values()
        away = self._calling.unreachable()
        kept = tuple(KeptStatus(one.query, one.vertex, *one.version) for one in self._snapshots.newest())
        offered = tuple(
            KeptStatus(one.query, one.vertex, one.term, one.offered)
            for one in here.instances.values()
            if one.offered is not None and not one.failed
        )
        return DeviceStatus(
            base=base_digest(here.memory.deployment).hex(),
            boot=here.memory.boot, deployment=here.follows, instances=tuple(found), kept=kept, offered=offered,
            unreachable=away, urgent=self._calling.urgent(), plan=here.version, back=self._returning.back(),
            stamps=self._retired_stamps(), cuts=self._cutting.reached(), position=here.position,
            accuracy_m=here.accuracy_m, leaving=here.leaving, took=self._alternates.status(),
        )  # fmt: skip

    def pressing(self) -> Hashable:
        """Of all that, what a coordinator acts on; all of it while a vertex moves."""
        here = self._here
        if self._calling.ask_at is not None:
            return self.status()
        found = [
            (identity, one.term, self._state(one), one.lost, bool(one.unstored))
            for identity, one in here.instances.items()
        ]
        begun = [(identity, one.term, one.state) for identity, one in here.not_begun.items()]
        away = self._calling.unreachable()
        walks = self._returning.back(), self._retired_stamps(), self._alternates.status()
        cuts = self._cutting.reached(), tuple(map(self._cutting.stored, here.instances.values()))
        return (
            here.memory.boot,
            here.follows,
            tuple(found),
            tuple(begun),
            away,
            self._calling.urgent(),
            walks,
            cuts,
            here.position,
            here.leaving,
        )

    def _state(self, instance: Instance) -> str:
        if instance.failed:
            return BEHIND if instance.behind else FAILED
        return RUNNING if self._here.is_connected(instance) else STARTING

    def _retired_stamps(self) -> tuple[int, ...]:
        here = self._here
        found: set[int] = set()
        for fed in here.wiring.fed:
            if fed.query.retired:
                held = here.sources_spool.pending(fed.edge.key.edge)
                found |= {entry.applied for entry in held if isinstance(entry, DataEntry)} - fed.runs.stamps()
        return tuple(sorted(found))

    def kept_bytes(self, query: str) -> int:
        """On this node's disk for others: rows that came into a region, snapshots of vertices that run elsewhere."""
        here = self._here
        copies = {name_of(copy.spec): copy.bytes for copy in here.copies.values() if copy.spec.query == query}
        kept = [*here.keeper.held(), *here.keeper.cuts()]
        others = [each for each in kept if each.query == query and each.identity not in here.instances]
        return sum(copies.values()) + sum(each.size for each in others)

    def held(self) -> Held:
        """What recovery costs here in memory."""
        here = self._here
        by_edge = {each.edge: each.bytes for each in here.made.statistics().edges}
        sent = sum(size for edge, size in by_edge.items() if edge in here.state_edges)
        frozen = sum(one.frozen_bytes for one in here.instances.values())
        return Held(sum(by_edge.values()) - sent, sent + frozen + self._snapshots.own_bytes)


def permanent(instance: Instance) -> tuple[int | None, int | None]:
    """How many elements its last permanent snapshot has read, and its bytes."""
    last = instance.checkpoints.permanent
    if last.id is None or not instance.keeps_state:
        return None, None
    return sum(last.inputs.values()), instance.permanent_bytes
