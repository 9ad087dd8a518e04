"""What a deployment says begins, goes on or ends.

A deployment is whole: `apply` compares it with what runs and changes the difference. A vertex that runs under the term
it is deployed with goes on undisturbed; any other begins from what this node's keeper has of it. Nothing is told in
steps, so a deployment that is repeated, or whose answer is lost, changes nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from random import Random

from shared.hosting.alternates import Alternates
from shared.hosting.calling import Calling
from shared.hosting.copies import Copy, name_of, strangers
from shared.hosting.cutting import Cutting
from shared.hosting.here import Here
from shared.hosting.instance import BEHIND, FAILED, LOST, Instance
from shared.hosting.messages import InstanceFailed
from shared.hosting.serving import Serving
from shared.hosting.sink import Sink
from shared.hosting.snapshots_under_way import SnapshotsUnderWay
from shared.hosting.taking import Taking
from shared.hosting.vertices import Vertices, said
from shared.hosting.wiring import GATEWAY, STATE, VertexSpec, Wiring, state_edge, wire
from shared.identity import DeviceId
from shared.plan.deployment import Deployment
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Include
from shared.sync.session import GatewaySessions
from shared.wire.status import TEXT_CHARACTERS, InstanceStatus


class Beginning:
    def __init__(
        self,
        here: Here,
        calling: Calling,
        *,
        serving: Serving,
        vertices: Vertices,
        taking: Taking,
        cutting: Cutting,
        snapshots: SnapshotsUnderWay,
        alternates: Alternates,
        sessions: GatewaySessions,
        random: Random,
        forget_edges: Callable[[], None],
    ) -> None:
        self._here, self._calling, self._serving = here, calling, serving
        self._vertices, self._taking, self._cutting = vertices, taking, cutting
        self._snapshots, self._alternates = snapshots, alternates
        self._sessions, self._random, self._forget_edges = sessions, random, forget_edges

    def apply(self, deployment: Deployment, now: float, *, restarted: bool = False) -> None:
        here = self._here
        wiring = wire(self._alternates.applied(deployment))  # raises before anything has changed
        here.now = now
        here.wiring, here.deployed = wiring, deployment
        holding = [carrier for carrier in here.carriers.values() if carrier.taken > carrier.through]
        here.roused &= {carrier.spec.reads.key for carrier in holding}  # others are roused again if they are needed
        for node in here.peers.keys() - {peer.node for peer in deployment.peers}:
            self._sessions.revoke(DeviceId(bytes.fromhex(node)))  # it is a stranger from now on
        here.peers.clear()
        here.peers.update((peer.node, peer) for peer in deployment.peers)
        keepers = {identity: one.spec.placement.keepers for identity, one in here.instances.items()}
        before = {*here.instances.values()}
        self._cutting.begin(wiring)
        self._begin_vertices(wiring, restarted=restarted)
        regions = {(query.name, query.incarnation) for query in wiring.members.values() if here.node in query.members}
        here.persist += here.keeper.keep_for(wiring.kept, wiring.known, wiring.passed, regions)
        self._begin_sinks(wiring)
        self._begin_copies(wiring)
        self._serving.serve(wiring, now)
        self._forget_edges()
        self._taking.rewire()
        for instance in here.instances.values():
            if instance not in before and not instance.failed:
                self._vertices.guard(instance, functools.partial(self._vertices.begin, instance))
        for identity, instance in here.instances.items():
            if not instance.failed:
                self._snapshots.rewired(instance, keepers.get(identity, ()))
                self._vertices.guard(instance, functools.partial(self._vertices.hand_over, instance))
        moves = any(placed.to for query in deployment.queries for placed in query.placements)
        self._calling.ask_while(moves, now)

    def _begin_vertices(self, wiring: Wiring, *, restarted: bool) -> None:
        here = self._here
        wanted = {spec.identity: spec for spec in wiring.vertices}
        for identity in [identity for identity in here.instances if identity not in wanted]:
            del here.instances[identity]
            self._snapshots.forget(identity)
        here.not_begun = {identity: why for identity, why in here.not_begun.items() if identity in wanted}
        for identity, spec in wanted.items():
            running = here.instances.get(identity)
            if running is not None and running.term == spec.placement.term:
                running.rewire(spec)
                continue
            name = "/".join(map(str, identity))
            if here.memory.begun.get(name, 0) >= spec.placement.term:
                if restarted or identity not in here.not_begun:
                    self._cannot_begin(spec, LOST, "the node was restarted")
                continue
            if why := self._cannot_sync(spec):
                here.instances.pop(identity, None)
                self._cannot_begin(spec, FAILED, why)
                continue
            here.not_begun.pop(identity, None)
            here.memory.begun[name] = spec.placement.term
            self._begin(identity, spec)

    def _cannot_sync(self, spec: VertexSpec) -> str:
        """Why a vertex cannot send its rows to the cloud from here; empty where it can, or has none."""
        synced = [edge for edge in spec.outputs.values() if GATEWAY in edge.readers]
        if synced and self._calling.gateway is None:
            return "this node is not paired with the gateway that coordinates"
        for edge in synced:
            if self._calling.gateway is not None and self._calling.gateway.owns(edge.name):
                return f"the device of this node has a stream {edge.name!r} of its own; rename one of them"
        return ""

    def _begin(self, identity: tuple[str, int, str], spec: VertexSpec) -> None:
        here = self._here
        placed, row = spec.placement, STRATEGIES[spec.query.row].row
        cut = spec.query.cuts.complete
        of_cut = row.of_region and placed.handed is None
        kept = self._snapshots.begins_again(identity, cut if of_cut else None)
        if (row.include is Include.NOTHING or row.of_region) and not of_cut and kept is not None:
            # Only what was handed over for this very term: after a failure it begins empty, or with its region.
            kept = kept if kept.version == (placed.term - 1, placed.handed) else None
        here.instances.pop(identity, None)  # of an earlier term
        if row.of_region and kept is None and not placed.anew and (cut or not of_cut):
            self._cannot_begin(spec, BEHIND, f"cut {cut} is not here" if of_cut else "what was handed over is not here")
            return
        try:
            instance = self._vertices.watched(spec, functools.partial(Instance, spec, self._random, kept))
        except Exception as error:  # a user's code, or a snapshot of another plan or engine, which stays where it is
            why = said(error) if kept is None else f"its snapshot cannot be restored: {said(error)}"
            self._cannot_begin(spec, FAILED, why)
            here.events.append(InstanceFailed(spec.query.name, spec.vertex.name, spec.placement.term, why))
            return
        here.instances[identity] = instance
        instance.restored = kept
        for name, edge in spec.outputs.items():
            here.outbox.serve(edge.key.edge, [edge.schema], here.made, edge.readers)
            batches = [] if kept is None else kept.ranges.get(edge.label, [])
            start = batches[0].lo if batches else instance.heads[name]
            here.outbox.restart(edge.key.edge, start)
            for batch in batches:
                here.made.append(batch)
        state = state_edge(spec.query, spec.placement)
        here.outbox.serve(state.key.edge, [STATE], here.made, here.others(state))
        here.outbox.restart(state.key.edge, 0)

    def _cannot_begin(self, spec: VertexSpec, state: str, why: str) -> None:
        self._here.not_begun[spec.identity] = InstanceStatus(
            spec.query.name, spec.vertex.name, spec.placement.term, state, why[:TEXT_CHARACTERS]
        )

    def _begin_copies(self, wiring: Wiring) -> None:
        here = self._here
        known = {name_of(copy.spec): copy for copy in here.copies.values()}
        here.copies = {}
        for spec in wiring.copies:
            copy = known.get(name_of(spec)) or Copy(spec, here.disk)
            copy.spec = spec
            here.copies.update(dict.fromkeys((leg.key for leg in spec.legs), copy))
        here.persist += strangers(here.disk, {name_of(copy.spec) for copy in here.copies.values()})

    def _begin_sinks(self, wiring: Wiring) -> None:
        here = self._here
        wanted = {edge.key: (query, name) for query, name, edge in wiring.sinks}
        here.sinks = {key: sink for key, sink in here.sinks.items() if key in wanted}
        for key, (query, name) in wanted.items():
            if key not in here.sinks:
                here.sinks[key] = Sink(here.disk, query.name, name, key)
