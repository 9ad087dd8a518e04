"""Users' operators that fail where they are made or restored: their vertex fails, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

import pytest

import resurge as rs
from shared.hosting.watching import OperatorHangs, Result, Unwatched
from shared.plan.graph import Plan
from tests.claims import Claim
from tests.simulation.peers.checkers import every_checker, newest
from tests.simulation.peers.programs import rows_of
from tests.simulation.peers.world import Fault, PeerWorld, Settings

pytestmark = pytest.mark.sim
failing: dict[str, int] = {"made": 0, "restored": 0}


def fails(where: str) -> None:
    if failing[where]:
        failing[where] -= 1
        raise ArithmeticError(f"it cannot be {where}")


@rs.operator("fragile", takes={"x": "float64"}, gives={"total": "float64"})
class Fragile:
    def __init__(self) -> None:
        fails("made")
        self._total = 0.0

    def process(self, _port: str, row: Mapping[str, float]) -> Iterator[dict[str, float]]:
        self._total += row["x"]
        yield {"time": int(row["time"]), "total": self._total}

    def snapshot(self) -> bytes:
        return json.dumps(self._total).encode()

    def restore(self, state: bytes) -> None:
        fails("restored")
        self._total = json.loads(state)


def program() -> Plan:
    near = rs.sensor("x", every="33ms", columns={"x": "float64"}).gather("g")
    means = near.sliding(count=5).aggregate(m=rs.mean("x")).subscribe("means")
    return rs.plan_of(means, near.apply("fragile").subscribe("totals"))


def world(**more: object) -> PeerWorld:
    settings = Settings(program(), 300, rows_of, batch=10, settle_s=30.0, **more)  # type: ignore[arg-type]
    return PeerWorld(settings, keep=True, observers=every_checker())


@pytest.mark.parametrize(("where", "faults"), [("made", ()), ("restored", (Fault(0.8, 1, "primary", 9.0),))])
def test_an_operator_that_cannot_be_made_or_restored_fails_alone(
    where: str, faults: tuple[Fault, ...], claim: Claim
) -> None:
    failing.update(made=0, restored=0)
    ideal = world(within_s=20.0).run()
    failing[where] = 1
    disturbed = world(faults=faults)
    outcome = disturbed.run(ideal.elements)
    assert not failing[where], "it has failed as it should"
    assert any(f"ArithmeticError: it cannot be {where}" in line for line in outcome.lines)
    assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal.digest)
    terms = {vertex: running[0].term for vertex, running in newest(disturbed).items()}
    assert min(terms.values()) == 1, "the other vertex was left alone"
    claim(f"{outcome.failed} failures, {outcome.elements} rows compared, digests {outcome.digest} = {ideal.digest}")


class Impatient(Unwatched):
    """As the node's watchdog does it, for one call."""

    def __init__(self) -> None:
        self.calls = 0

    def run(self, work: Callable[[], Result], what: str) -> Result:
        if "totals" in what:
            self.calls += 1
            if self.calls == 5:
                raise OperatorHangs("it did not return", code="operator-hangs")
        return work()


def test_an_operator_that_was_interrupted_begins_again(claim: Claim) -> None:
    failing.update(made=0, restored=0)
    ideal = world(within_s=20.0).run()
    disturbed = world()
    for node in disturbed.nodes:
        node.host.vertices.watch = Impatient()
    outcome = disturbed.run(ideal.elements)
    assert outcome.failed == 1
    assert any("it did not return [operator-hangs]" in line for line in outcome.lines)
    assert (outcome.violation, outcome.lost, outcome.digest) == ("", 0, ideal.digest)
    claim(f"{outcome.failed} failures, {outcome.elements} rows compared, digests {outcome.digest} = {ideal.digest}")
