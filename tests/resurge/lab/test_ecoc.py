"""The ECOC experiments on few elements: what does not depend on the clock or the machine holds, byte for byte."""

from __future__ import annotations

import json
from collections import Counter
from statistics import median
from typing import Any

import pytest

from resurge.lab import ecoc_cpu, ecoc_memory, ecoc_overhead
from resurge.lab._virtual_fleet import PROCESSES, SINK, fleet_of, ran
from shared.hosting.presence import Presence
from shared.recovery.marks import MarkId
from shared.wire.frame import HEADER_BYTES


def held(report: dict[str, Any], *parts: str) -> dict[str, bool]:
    """Whether the shapes whose names contain these words hold."""
    json.dumps(report)
    return {part: shape["holds"] for part in parts for shape in report["shapes"] if part in shape["name"]}


@pytest.mark.covers("EC-33")
@pytest.mark.soak
def test_coordinated_checkpoints_cost_a_fraction_of_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ecoc_overhead, "EVERY", (450, 900))  # whole batches of every sensor
    names = ("without a strategy", "falls as 1/c", "extended over plain", "both cycles end", "as many results")
    assert held(ecoc_overhead.run(elements=900, cycles=("SP3",)), *names) == dict.fromkeys(names, True)


@pytest.mark.covers("EC-33")
def test_at_the_longest_interval_uncoordinated_takes_five_times_as_much_as_ecoc() -> None:
    each, most = "SP1", 3000
    sent = {row: ran(each, row, most, 2 * most).sent for row in ("uncoordinated", "ecoc")}
    assert sent["ecoc"].checkpoints > 0
    assert sent["uncoordinated"].overhead >= 5 * sent["ecoc"].overhead


@pytest.mark.covers("EC-33")
@pytest.mark.soak
def test_every_shape_of_the_papers_figures_on_network_overhead_holds() -> None:
    report = ecoc_overhead.run(elements=6_000, intervals=(500, 3000))
    assert [shape["name"] for shape in report["shapes"] if not shape["holds"]] == []


@pytest.mark.covers("EC-22")
def test_a_checkpoint_takes_longer_the_nearer_to_the_sensor_and_nobody_waits_for_it() -> None:
    fleet = fleet_of("SP1", "ecoc", 180)
    end = fleet.feed(900)
    begun: dict[tuple[str, MarkId], tuple[float, int]] = {}  # a vertex's snapshot -> when it froze, what it had taken
    took_s: dict[str, list[float]] = {"ecg_band": [], "beats": []}
    taken_meanwhile = 0
    for step in range(int(end * 500)):
        fleet.advance(step / 500)
        for one in (one for node in fleet.nodes.values() for one in node.host.instances()):
            name, taken = one.vertex, sum(one.taken.values())
            for id in one.checkpoints.pending:
                begun.setdefault((name, id), (fleet.now, taken))
            permanent = one.checkpoints.permanent.id
            if permanent is not None and (found := begun.pop((name, permanent), None)):
                took_s[name].append(fleet.now - found[0])
                taken_meanwhile += taken - found[1]
    assert fleet.finish().pending == 0
    assert min(map(len, took_s.values())) >= 3
    assert median(took_s["ecg_band"]) > median(took_s["beats"]) > 0, (
        "the filter waits for the detector's, not the reverse"
    )
    assert taken_meanwhile > 0, "elements went through while snapshots were on their way"


@pytest.mark.covers("EC-31")
def test_the_longer_cycle_ends_its_checkpoints_too() -> None:
    outcome = ran("SP4", "extended-ecoc", 200, 700)
    vertices = [vertex for of in PROCESSES["SP4"].operators.values() for vertex in of]
    assert min(outcome.commits[vertex] for vertex in vertices) > 0
    assert outcome.pending == 0


@pytest.mark.covers("EC-34")
def test_only_uncoordinated_snapshots_grow_with_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ecoc_memory, "EVERY", (200, 500))
    monkeypatch.setattr(ecoc_memory, "PROCESSES", ("SP2",))
    monkeypatch.setattr(ecoc_memory, "SAMPLES", 20)
    names = ("do not grow with c", "uncoordinated: they do", "without a strategy")
    assert held(ecoc_memory.run(elements=2000), *names) == dict.fromkeys(names, True)


@pytest.mark.covers("EC-34")
@pytest.mark.soak
def test_every_shape_of_the_papers_figure_on_memory_holds() -> None:
    report = ecoc_memory.run(elements=12_000, intervals=(500, 3000))
    assert [shape["name"] for shape in report["shapes"] if not shape["holds"]] == []


@pytest.mark.covers("EC-17")
@pytest.mark.parametrize(("row", "lossless"), [("none", False), ("ecoc", True)])
def test_a_node_that_fails_without_snapshots_takes_its_state_along_and_that_is_said(row: str, lossless: bool) -> None:
    fleet = fleet_of("SP2", row, 500)
    end = fleet.feed(4_000)
    fleet.advance(5.0)
    (sink,) = fleet.nodes[SINK].host.sinks()
    before = sink.taken
    assert before > 500
    fleet.nodes["TestAvg"].is_up = False
    fleet.advance(end)
    (running,) = [
        one for node in fleet.nodes.values() if node.is_up for one in node.host.instances() if one.vertex == "mean"
    ]
    assert running.term == 2, "it runs on another node"
    assert sink.taken > before + 500, "results go on"
    assert (sink.lost == 0) == lossless, "a number in the sink's edge says that what was read is forgotten"
    assert (fleet.ran.sent.checkpoints > 0) == lossless


@pytest.mark.covers("EC-35")
@pytest.mark.soak
def test_processor_time_is_compared_between_strategies(monkeypatch: pytest.MonkeyPatch) -> None:
    """That it runs and compares the right runs; a figure needs a machine that does nothing else."""
    monkeypatch.setattr(ecoc_cpu, "EVERY", (250,))
    report = ecoc_cpu.run(elements=300, rounds=1, cycles=("SP3",))
    (over_none, *_) = (shape["ours"] for shape in report["shapes"])
    assert over_none.keys() == {"SP1, c = 250", "SP2, c = 250"}
    assert all(0.3 < ratio < 3 for ratio in over_none.values())
    assert set(report["microseconds_per_element"]) == {"SP1", "SP2", "SP3"}


def test_memory_is_counted_where_it_is_held() -> None:
    """Rows until their readers' snapshot, snapshots until their keepers have them and the newest for good."""
    quiet = ran("SP2", "none", 200, 600, samples=10).held
    kept = ran("SP2", "ecoc", 200, 600, samples=10).held
    assert not any(each.snapshots for node in quiet.values() for each in node)
    assert all(node[-1].snapshots > 1000 for node in kept.values())
    assert max(each.rows for each in kept["TestJoin"]) > 3 * max(each.rows for each in quiet["TestJoin"])


def test_a_node_that_coordinates_looks_at_its_fleet_when_somebody_speaks_and_not_at_every_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = fleet_of("SP1", "none", 500)
    fleet.advance(2.0)
    node, looks = fleet.nodes[SINK], Counter[str]()

    def counted(of: object, name: str) -> None:
        real = getattr(of, name)
        monkeypatch.setattr(of, name, lambda *given: looks.update([name]) or real(*given))

    counted(node.host, "status")
    counted(Presence, "note_apart")
    for turn in range(100):
        now = fleet.now + turn / 10_000
        node.machine.wake(now)
        node.machine.step(now)
    assert max(looks.values(), default=0) <= 2, "in ten milliseconds in which nobody spoke"
    for turn in range(1, 21):
        node.machine.wake(fleet.now + turn / 10)
        node.machine.step(fleet.now + turn / 10)
    assert min(looks["status"], looks["note_apart"]) >= 10, "who is silent is noticed all the same"


def test_marks_go_to_vertices_and_not_to_a_sink() -> None:
    """What a sink has is durable: its receipts end a snapshot without having been asked."""
    outcome = ran("SP1", "ecoc", 180, 900)
    assert outcome.commits == {"ecg_band": 5, "beats": 5}
    assert outcome.sent.marks == 5 * 2 * HEADER_BYTES, "to the filter and to the detector"
