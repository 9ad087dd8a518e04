"""The ECOC experiments on few elements: what does not depend on the clock or the machine holds, byte for byte."""

from __future__ import annotations

import json
from statistics import median
from typing import Any

import pytest

from resurge.lab import ecoc_cpu, ecoc_memory, ecoc_overhead
from resurge.lab._virtual_fleet import PROCESSES, fleet_of, ran
from shared.recovery.marks import MarkId


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
