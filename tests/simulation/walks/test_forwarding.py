"""What a phone brings back: which node applies what to it, and what becomes of rows that go over two ways at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import pytest

from shared.batch import Batch
from shared.hosting.carrier import Carrier
from shared.hosting.stamps import Run
from shared.language.schema import Schema
from shared.plan.deployment import Route
from shared.spool.entry import SpooledBatch
from shared.wire.messages import Data
from tests.claims import Claim
from tests.simulation.peers.checkers import every_checker
from tests.simulation.peers.world import Settings, SimulatedNode
from tests.simulation.walks.world import HUBS, PHONES, ROWS, Step, Walk, WalkWorld, Ways, rows_of, undisturbed, walked

pytestmark = pytest.mark.sim
SETTINGS = Settings(
    walked(), ROWS, rows_of, seed=3, nodes=7, sources=PHONES, row="ecoc", every=32, batch=8, every_s=0.1, within_s=60.0,
    settle_s=30.0,
)  # fmt: skip
PHONE = PHONES[0]
LEAVES, BACK = 0.8, 2.4  # the phone has more rows then
BEFORE, AFTER = 3, 1  # operators that the phone has room for


class Returning(WalkWorld):
    """One phone is out of reach for a while, has less room afterwards, and reaches as many hubs as it has ways, none of
    which runs what reads its rows. The other one stays."""

    def __init__(self, forward: str, near: int) -> None:
        steps = (Step(LEAVES, PHONE, frozenset()), Step(BACK, PHONE, frozenset(HUBS[:near])))
        self.ways = Ways(calm=True)
        super().__init__(Walk(SETTINGS, steps, forward, rooms=5, room=BEFORE), observers=[*every_checker(), self.ways])

    def _step(self, step: Step) -> None:
        others = [hub for hub in HUBS if hub != self.reader().number]
        super()._step(replace(step, reaches=frozenset(others[: len(step.reaches)])))

    def reader(self) -> SimulatedNode:
        (found,) = [
            node
            for node in self.nodes
            for one in node.host.instances()
            if one.query == "q" and "g" in one.spec.vertex.inputs
        ]
        return found

    def _offer(self, phone: int) -> None:
        coordinator = self.nodes[0].machine.coordinator
        assert coordinator is not None
        fleet, node = coordinator.fleet, self.nodes[phone].id
        room = BEFORE if self.clock.now < BACK else AFTER
        peers = [replace(peer, capacity=room) if peer.node == node else peer for peer in fleet.peers]
        coordinator.set_fleet(peers, fleet.queries)
        self.nodes[0].drive()

    def route(self) -> Route:
        """Of the first query's rows of the phone."""
        coordinator = self.nodes[0].machine.coordinator
        assert coordinator is not None
        return coordinator.fleet.queries[0].route("g", self.nodes[PHONE].id)

    def head(self) -> int:
        """How many rows of the phone there were, of the first query."""
        host = self.nodes[PHONE].host
        return next(host.head(spec.key) for spec in host.gathers() if spec.name == "g")


def watch(monkeypatch: pytest.MonkeyPatch, applied: Callable[[SimulatedNode, Batch, Run, int, int, str], None]) -> None:
    """Call this with each operator's application, and where it is."""
    driven: list[SimulatedNode] = []
    drive, sense, apply = SimulatedNode.drive, SimulatedNode.sense, Run.apply

    def driving(node: SimulatedNode, message: object | None = None) -> None:
        driven.append(node)
        drive(node, message)
        driven.pop()

    def sensing(node: SimulatedNode) -> None:
        driven.append(node)
        sense(node)
        driven.pop()

    def applying(run: Run, batch: Batch, start: int, stop: int, device: str) -> Batch:
        if stop > start:
            applied(driven[-1], batch, run, start, stop, device)
        return apply(run, batch, start, stop, device)

    monkeypatch.setattr(SimulatedNode, "drive", driving)
    monkeypatch.setattr(SimulatedNode, "sense", sensing)
    monkeypatch.setattr(Run, "apply", applying)


@pytest.mark.covers("NB-12", "NB-13")
def test_what_is_brought_back_meets_what_it_lacks_at_the_first_node_that_has_it(
    monkeypatch: pytest.MonkeyPatch, claim: Claim
) -> None:
    """The phone has applied three of four operators to what it spooled, and has room for one from then on."""
    ideal, world = undisturbed(False), Returning("dynamic", 1)
    where: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))  # operator -> node -> rows

    def applied(node: SimulatedNode, batch: Batch, run: Run, start: int, stop: int, device: str) -> None:
        if run.gather == "g" and device == world.nodes[PHONE].id:
            for operator in range(start, stop):
                where[operator][node.number] |= {*range(batch.lo, batch.hi)}

    watch(monkeypatch, applied)
    spooled: list[int] = []
    for at in (LEAVES, BACK):
        world.clock.at(at - 0.01, lambda: spooled.append(world.head()))
    outcome = world.run(ideal.outcome.elements)
    assert not outcome.violation
    assert world.results()[0] == ideal.rows
    away, route = range(*spooled), world.route()
    (path,) = route.paths
    assert route.upto == AFTER
    assert path[0].upto > BEFORE, "the next node has room for what the phone has not"
    operators = len(where)
    places = [(PHONE, BEFORE), *((world.by_id[hop.node].number, hop.upto) for hop in path)]
    places.append((world.reader().number, operators))
    claim(f"{len(away)} rows spooled; operators by node {places}")
    assert len(away) > ROWS / 4
    assert world.head() > away.stop
    for operator in range(operators):
        first = next(node for node, upto in places if upto > operator)
        met = {node: len(rows & {*away}) for node, rows in where[operator].items() if rows & {*away}}
        assert met == {first: len(away)}, f"operator {operator}"


@pytest.mark.covers("NB-14", "NB-15")
def test_rows_come_over_two_ways_count_once_and_one_way_is_left_when_all_have_come(
    monkeypatch: pytest.MonkeyPatch, claim: Claim
) -> None:
    ideal, world = undisturbed(False), Returning("paths:2", 2)
    came: dict[str, set[int]] = defaultdict(set)  # by the node that passes them on
    take = Carrier.take

    def taking(carrier: Carrier, data: Data, schema: Schema) -> SpooledBatch | None:
        batch = take(carrier, data, schema)
        if batch is not None and (carrier.spec.reads.name, carrier.spec.reads.maker) == ("g", world.nodes[PHONE].id):
            came[carrier.spec.makes.maker] |= {*range(batch.lo, batch.hi)}
        return batch

    monkeypatch.setattr(Carrier, "take", taking)
    spooled: list[int] = []
    for at in (LEAVES, BACK):
        world.clock.at(at - 0.01, lambda: spooled.append(world.head()))
    outcome = world.run(ideal.outcome.elements)
    assert not outcome.violation, "of each number one row was taken, and one way is left"
    assert world.results()[0] == ideal.rows
    away = {*range(*spooled)}
    one, other = (rows & away for rows in came.values())
    mine = [each for each in world.ways.rerouted if (each.query, each.source) == ("q", world.nodes[PHONE].id)]
    counted = [len(each.paths) for each in mine]
    claim(
        f"{len(away)} rows spooled, {len(one)} and {len(other)} of them over each way, {len(one & other)} over both; ways "
        f"{counted}, {len(ideal.rows)} rows as undisturbed"
    )
    assert one | other == away
    assert one & other, "the same rows went over both"
    assert max(counted) == 2
    assert counted[-1] == len(world.route().paths) == 1
