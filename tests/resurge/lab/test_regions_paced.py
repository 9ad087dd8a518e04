"""Regions with modelled Wi-Fi, 3G and processors: what each strategy costs, and a server beside them."""

from __future__ import annotations

import inspect
import json

import pytest

from resurge.examples.regions import operators
from resurge.lab import regions_server, regions_throughput
from resurge.lab._phones import PASSES, TUPLES_S, WAYS, Model
from resurge.lab.regions_throughput import BASE, OURS, SENT, Case, measure
from shared.identity import DeviceId, EdgeId
from shared.wire.frame import encode
from shared.wire.messages import MarkMessage
from tests.claims import Claim


def case(row: str, *, from_s: float = 20.0, until_s: float = 45.0) -> Case:
    return Case("traffic_signal", row, 3.0, 1, from_s, until_s, 30.0)


@pytest.mark.covers("MS-35", "MS-36")
def test_copies_of_snapshots_that_are_sent_take_the_air_that_pictures_need() -> None:
    base, three = measure(case(BASE)), measure(case(SENT[-1]))
    assert base.tuples_s == pytest.approx(0.8, rel=0.1)  # what the slowest operator allows, by calibration
    assert three.tuples_s < base.tuples_s
    assert three.wifi_kb > 1.5 * base.wifi_kb
    assert three.checkpoints > 0


@pytest.mark.covers("MS-39")
@pytest.mark.parametrize(
    ("program", "from_s", "until_s"), [("bus_capacity", 40.0, 90.0), ("traffic_signal", 20.0, 45.0)]
)
def test_looking_at_pictures_takes_as_long_as_gives_the_papers_rate(
    program: str, from_s: float, until_s: float, claim: Claim
) -> None:
    base = measure(Case(program, BASE, 3.0, 1, from_s, until_s, 30.0))
    claim(f"{program}: {base.tuples_s:.2f} pictures a second, the paper's {TUPLES_S[program]}")
    assert base.tuples_s == pytest.approx(TUPLES_S[program], rel=0.1)


@pytest.mark.covers("MS-39")
def test_the_cost_of_a_picture_is_that_of_the_operators_that_look_at_it() -> None:
    costs = {
        name: inspect.signature(machine).parameters["cost"].default
        for name, machine in vars(operators).items()
        if isinstance(machine, type) and "cost" in inspect.signature(machine).parameters
    }
    assert costs == {"PassersBy": 1, "Count": 4, "Colour": 2, "Shape": 4}
    # Both phones behind the dispatcher read every picture, and each looks at its half.
    halves = {"bus_passers_by": costs["PassersBy"] / 2, "bus_count": costs["Count"]}
    assert PASSES["bus_capacity"] == {f"{name}{which}": of for name, of in halves.items() for which in ("", " 2")}
    assert PASSES["traffic_signal"] == {"light_colour": costs["Colour"], "light_shape": costs["Shape"]}
    for program, passes in PASSES.items():
        seconds = Model.seconds(program)
        assert max(seconds.values()) == pytest.approx(WAYS[program] / TUPLES_S[program])
        assert len({round(seconds[vertex] / count, 9) for vertex, count in passes.items()}) == 1


@pytest.mark.covers("MS-37")
def test_a_server_gets_what_the_uplink_carries() -> None:
    fast = regions_server.on_server("traffic_signal", regions_server.UPLINK[1], 4)
    assert fast.tuples_s == pytest.approx(0.36, rel=0.1)
    assert fast.latency_s > 25.0


@pytest.mark.covers("MS-10")
@pytest.mark.parametrize("program", regions_throughput.PROGRAMS)
def test_a_mark_is_less_than_a_hundredth_of_an_element(program: str) -> None:
    mark = MarkMessage(DeviceId(bytes(16)), 1, EdgeId(7), 100, 3, 5, term=2, aligned=True)
    assert len(encode(mark.frame())) < 0.01 * Model.characters(program)


@pytest.mark.soak
@pytest.mark.covers("MS-35", "MS-38")
def test_every_strategy_runs_both_programs_and_is_compared(claim: Claim) -> None:
    report = regions_throughput.run(("traffic_signal",), (3.0,), from_s=40.0, until_s=100.0, period_s=80.0, workers=1)
    claim(f"pictures a second over {BASE}: {report['relative']}")
    held = {shape["name"]: shape["holds"] for shape in report["shapes"]}
    assert held[f"{SENT[0]} > {SENT[1]}: throughput over {BASE}"]
    assert held[f"{OURS} > {SENT[0]}: throughput over {BASE}"]
    assert report["ours_over_the_papers"]["traffic_signal"] > 0.9
    json.dumps(report)


@pytest.mark.soak
@pytest.mark.covers("MS-37")
def test_a_region_is_faster_than_a_server_while_a_phone_leaves(claim: Claim) -> None:
    report = regions_server.run(("traffic_signal",), kinds=("leaves",), period_s=100.0)
    claim(f"pictures a second: {report['tuples_s']}; seconds: {report['latency_s']}")
    held = [shape["holds"] for shape in report["shapes"]]
    assert held[:3] == [True, True, True]
    json.dumps(report)
