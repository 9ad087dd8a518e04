"""A node's part in the cuts through its regions: marks that its sources send, and what is known of each cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared.hosting.calling import Calling
from shared.hosting.copies import name_of
from shared.hosting.here import Here
from shared.hosting.initiators import cut_initiator
from shared.hosting.instance import Instance
from shared.hosting.snapshots_under_way import SnapshotsUnderWay
from shared.hosting.store import StoreMemory
from shared.hosting.wiring import Wiring
from shared.plan.deployment import HostedQuery
from shared.recovery.marks import Mark, MarkId
from shared.wire.messages import CutOrder
from shared.wire.status import CutStatus


class Cutting:
    def __init__(self, here: Here, calling: Calling, snapshots: SnapshotsUnderWay) -> None:
        self._here, self._calling, self._snapshots = here, calling, snapshots

    def begin(self, wiring: Wiring) -> None:
        """What a deployment says of cuts is as good as the coordinator's word, and what it does not say is void."""
        here = self._here
        known = {**here.cuts}
        here.cuts = {}
        for name, query in wiring.members.items():
            begun = here.memory.begun.get(f"cut {query.name}/{query.incarnation}", 0)
            before = known.get(name, CutStatus(name, begun, 0, 0))
            here.cuts[name] = replace(before, complete=max(before.complete, query.cuts.complete))

    def order(self, orders: Sequence[CutOrder], now: float) -> None:
        """The coordinator's word on cuts: begin one here, or forget what is before one that is complete."""
        here = self._here
        here.now = now
        for each in orders:
            query, known = here.wiring.members.get(each.query), here.cuts.get(each.query)
            if query is None or known is None:
                continue
            id = MarkId(each.begun, cut_initiator(query.name, query.incarnation))
            if each.begun > max(known.begun, each.complete):
                # Durable before a mark is sent: a source that was restarted must not mark another place for this cut.
                here.memory.begun[f"cut {query.name}/{query.incarnation}"] = each.begun
                here.persist.append(StoreMemory(here.memory.encode()))
                self._begin_cut(query, id, now)
                known = replace(known, begun=each.begun)
            if each.complete > known.complete:
                self._complete_cut(query, replace(id, number=each.complete))
                known = replace(known, complete=each.complete)
            here.cuts[each.query] = known

    def _begin_cut(self, query: HostedQuery, id: MarkId, now: float) -> None:
        """Send the marks of a cut on what enters the region from here."""
        here = self._here
        for spec in here.gathers():
            source = here.sources[spec.key]
            if source.query == query.name:
                for mark in source.begin_cut(id, here.head(spec.key)):
                    self._calling.send_mark(spec, 0, mark, now)
        for spec in here.wiring.feeding.get(query.name, ()):
            maker, edge = here.makers.get(spec.key.edge, (None, spec))
            if isinstance(maker, Instance) and not maker.failed:
                self._calling.send_mark(edge, maker.term, Mark(id, here.made.head(edge.key.edge)), now)

    def _complete_cut(self, query: HostedQuery, id: MarkId) -> None:
        """All have their part of this cut: the region never goes back before it."""
        here = self._here
        here.persist += here.keeper.collect(query.name, query.incarnation, id.number)
        for copy in {name_of(copy.spec): copy for copy in here.copies.values()}.values():
            if copy.spec.query == query.name:
                here.persist += copy.collect(id.number)
        for instance in here.instances.values():
            if instance.query == query.name:
                instance.checkpoints.region_complete(id)
                self._snapshots.checkpoint(instance)
        for source in here.sources.values():
            if source.query == query.name:
                source.checkpoints.region_complete(id)
                source.settle()

    def reached(self) -> tuple[CutStatus, ...]:
        return tuple(
            replace(self._here.cuts[name], reached=self._cut_reached(name)) for name in sorted(self._here.cuts)
        )

    def _cut_reached(self, query: str) -> int:
        """The newest cut before whose marks all who read its sources have everything."""
        return min((each.cut_reached for each in self._here.sources.values() if each.query == query), default=0)

    def stored(self, instance: Instance) -> int:
        """The newest cut of which a vertex's keepers have its part, and who reads it outside the region has all that it
        made before: a region that goes back to it can make neither of them again."""
        number, initiator = (
            instance.checkpoints.stored_cut,
            cut_initiator(instance.query, instance.spec.query.incarnation),
        )
        pending = instance.checkpoints.find(MarkId(number, initiator))
        if pending is None:
            return number
        left = [edge for name, edge in instance.spec.outputs.items() if name in instance.spec.sinks]
        reached = all(self._here.outbox.through(edge.key.edge) >= pending.heads[edge.label] for edge in left)
        return number if reached else 0
