"""Every edge that is made on a node, offered to those who read it: of its own device, of vertices, of what it passes
on, and of snapshots for keepers."""

from __future__ import annotations

import functools
import itertools
from random import Random

from shared.hosting.calling import Calling
from shared.hosting.carrier import EPOCHS, Carrier
from shared.hosting.here import Here
from shared.hosting.rows_lane import RowsLane
from shared.hosting.source import Source
from shared.hosting.state_lane import StateLane
from shared.hosting.wiring import PASSED_ON, STATE, EdgeSpec, Flow, Wiring, state_edge
from shared.recovery.strategies import STRATEGIES
from shared.spool.ring import Spool


class Serving:
    def __init__(self, here: Here, calling: Calling, lane: StateLane, rows: RowsLane, random: Random) -> None:
        self._here, self._calling, self._lane, self._rows, self._random = here, calling, lane, rows, random
        self._epochs = itertools.count(here.memory.boot * EPOCHS)  # of carriers

    def serve(self, wiring: Wiring, now: float) -> None:
        """Offer every edge that is made here to those who read it, one sender per node."""
        here = self._here
        carried: dict[str, list[tuple[EdgeSpec, int]]] = {}
        here.makers.clear()
        here.state_edges.clear()
        queries = {fed.edge.key: fed.query for fed in reversed(wiring.fed)}  # those that share an edge mark it alike
        for spec in wiring.gathers.values():
            self._offer_flow(spec, wiring.flows[spec.key], here.sources_spool)
            source = here.sources.get(spec.key)
            if source is None:
                source = here.sources[spec.key] = Source(
                    spec, queries[spec.key], here.memory.boot, self._random,
                    first=here.sources_spool.first(spec.key.edge), head=here.head(spec.key),
                )  # fmt: skip
            source.spec = spec
            here.makers[spec.key.edge] = (source, spec)
            for node in spec.readers:
                carried.setdefault(node, []).append((spec, 0))
        self._begin_carriers(wiring)
        for carrier in here.carriers.values():
            for node in carrier.spec.makes.readers:
                carried.setdefault(node, []).append((carrier.spec.makes, PASSED_ON))
        for instance in here.instances.values():
            term = instance.term
            for edge in instance.spec.outputs.values():
                here.outbox.serve(edge.key.edge, [edge.schema], here.made, edge.readers)
                here.makers[edge.key.edge] = (instance, edge)
                for node in edge.readers:
                    carried.setdefault(node, []).append((edge, term))
            state = state_edge(instance.spec.query, instance.spec.placement)
            others = here.others(state)
            here.outbox.serve(state.key.edge, [STATE], here.made, others)
            here.state_edges[state.key.edge] = instance
            for node in others:
                carried.setdefault(node, []).append((state, term))
        served = {*here.makers, *here.state_edges, *here.carriers}
        for number in [number for number in here.outbox.edges() if number not in served]:
            here.outbox.end(number)
        states = {edge: state_edge(one.spec.query, one.spec.placement) for edge, one in here.state_edges.items()}
        self._calling.carry(carried, now)
        self._lane.rewire(states, now)
        copied = [spec for key, spec in wiring.gathers.items() if STRATEGIES[queries[key].row].row.of_region]
        self._rows.rewire(copied, here.copies, now)

    def _begin_carriers(self, wiring: Wiring) -> None:
        here = self._here
        asleep = [spec for spec in wiring.carriers if spec.standby and spec.reads.key not in here.roused]
        here.standby = {}
        for spec in asleep:
            here.standby.setdefault(spec.reads.key, []).append(spec)
        wanted = {spec.makes.key.edge: spec for spec in wiring.carriers if spec not in asleep}
        here.carriers = {edge: carrier for edge, carrier in here.carriers.items() if edge in wanted}
        for edge, spec in wanted.items():
            self._offer_flow(spec.makes, spec.flow, here.made, passed_on=True)
            carrier = here.carriers.get(edge)
            if carrier is None:
                carrier = here.carriers[edge] = Carrier(spec, here.outbox, here.made, self._epochs)
                here.outbox.restart(edge, 0)
            carrier.spec = spec
        here.carriers_of = {}
        for carrier in here.carriers.values():
            here.carriers_of.setdefault(carrier.spec.reads.key, []).append(carrier)

    def _offer_flow(self, spec: EdgeSpec, flow: Flow, spool: Spool, *, passed_on: bool = False) -> None:
        """A gather edge, to be sent with what this node applies on the way."""
        leaving = functools.partial(flow.runs.forward, upto=flow.upto, device=flow.device)
        self._here.outbox.serve(
            spec.key.edge, [*flow.schemas().values()], spool, spec.readers,
            ways=spec.ways, passed_on=passed_on, leaving=leaving,
        )  # fmt: skip
