"""Several operators on one node process: one raises, one hangs, and the others go on."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.claims import Claim
from tests.patience import SPARK_PATIENCE_S, let_pass, wait_until
from tests.processes.fleets import Fleet, Program, digest, ideal

pytestmark = pytest.mark.processes
ROWS = 24_000  # four minutes; the test ends long before
EVERY_US = 10_000
HANGING_S, STOPPED_S = 1.0, 12.0
WRITTEN_S = 6.0  # by then the coordinator would have moved what it thinks is lost
FIVE = {"one": ("", 0), "two": ("", 0), "three": ("", 0), "raises": ("raise", 150), "hangs": ("loop", 300)}
UNDISTURBED = [name for name, (fault, _) in FIVE.items() if not fault]


def side_by_side(folder: Path, vertices: Mapping[str, tuple[str, int]], contract: str = "rs.lossless()") -> Program:
    """{vertex: (how it fails, at which row)}, each once; they read the same and not each other."""
    lines = [
        "import resurge as rs",
        "import tests.processes.faulty_operators",
        'near = rs.sensor("count", every="5ms", columns={"v": "float64"}).gather("count", batch=20, within="200ms", '
        f"contract={contract})",
    ]
    for name, (fault, at) in vertices.items():
        given = f'fault="{fault}", at={at}, marker={str(folder / f"{name}.fired")!r}'
        lines.append(f'near.apply("faulty", {given}).subscribe("{name}")')
    sinks = dict.fromkeys(vertices, ("v", "total"))
    modules = ("tests.processes.faulty_operators",)
    return Program("side_by_side", "\n".join(lines), {"count": "v"}, sinks, modules, every_us=EVERY_US)


@pytest.mark.covers("EC-14")
def test_of_five_operators_on_a_node_one_raises_and_one_hangs_and_the_others_go_on(
    tmp_path: Path, claim: Claim
) -> None:
    program = side_by_side(tmp_path, FIVE)
    fleet = Fleet(
        tmp_path, program, hubs=1, strategy="ecoc", rows=ROWS, every=50, hanging=f"{HANGING_S:g}s",
        hosts=dict.fromkeys(FIVE, "hub1"),
    )  # fmt: skip
    # On a busy machine a node may be silent for longer than the usual ten seconds: here only operators fail.
    fleet.file.write_text(fleet.file.read_text().replace("strategy = ", 'absent = "5m"\nstrategy = ', 1))
    fleet.start()
    longest_s, last, at = 0.0, 0, 0.0
    try:
        wait_until(lambda: fleet.count() > 0, "first results", patience_s=SPARK_PATIENCE_S)
        until = time.monotonic() + 60.0
        while fleet.count() < 500 and time.monotonic() < until:
            undisturbed = min(len(rows) for name, rows in fleet.results().items() if name in UNDISTURBED)
            now = time.monotonic()
            if undisturbed > last:
                longest_s = max(longest_s, now - at) if at else 0.0
                last, at = undisturbed, now
            time.sleep(0.05)
        expected = dict(zip(FIVE, (1, 1, 1, 2, 2), strict=True))
        wait_until(lambda: fleet.terms() == expected, "two vertices begun again, the others as they were")
        fleet.wait_for(500, "rows of all five")
        assert set(fleet.placed().values()) == {"hub1"}, "nothing moved"
    except AssertionError:
        print(fleet.logs())
        raise
    finally:
        fleet.stop()
    found = fleet.results()
    same = ideal(program, fleet.path, ROWS, found)
    assert [(tmp_path / f"{name}.fired").exists() for name in FIVE] == [False, False, False, True, True]
    pairs = {name: (digest(rows), digest(same[name])) for name, rows in found.items()}
    claim(
        f"2 faults, {sum(map(len, found.values()))} rows of 5 vertices compared, digests "
        f"{', '.join(f'{mine} = {theirs}' for mine, theirs in pairs.values())}; longest pause of the others {longest_s:.1f} s"
    )
    assert all(len(rows) >= 500 for rows in found.values()), fleet.logs()
    assert all(mine == theirs for mine, theirs in pairs.values())


@pytest.mark.soak
@pytest.mark.covers("EC-14")
def test_an_operator_that_cannot_be_interrupted_silences_its_node_and_all_go_elsewhere(
    tmp_path: Path, claim: Claim
) -> None:
    vertices = {"one": ("", 0), "two": ("", 0), "sleeps": ("sleep", 150)}
    program = side_by_side(tmp_path, vertices)
    fleet = Fleet(
        tmp_path, program, hubs=2, strategy="ecoc", rows=ROWS, every=50, hosts=dict.fromkeys(vertices, "hub1")
    )
    fleet.start()
    try:
        fleet.wait_for(500, "results from elsewhere")
        wait_until(lambda: "hub1" not in fleet.placed().values(), "all of it elsewhere")
        log = (tmp_path / "hub1.log").read_text()
    except AssertionError:
        print(fleet.logs())
        raise
    finally:
        fleet.stop()
    assert "'sleeps' of query 'q' does not return and cannot be interrupted" in log
    assert (tmp_path / "sleeps.fired").exists()
    found = fleet.results()
    same = ideal(program, fleet.path, ROWS, found)
    pairs = {name: (digest(rows), digest(same[name])) for name, rows in found.items()}
    claim(
        f"1 fault, {sum(map(len, found.values()))} rows of 3 vertices compared, digests "
        f"{', '.join(f'{mine} = {theirs}' for mine, theirs in pairs.values())}"
    )
    assert all(mine == theirs for mine, theirs in pairs.values())


@pytest.mark.soak
@pytest.mark.covers("EC-15", "NB-3")
def test_a_node_that_is_stopped_for_less_than_the_promised_delay_keeps_its_vertices(
    tmp_path: Path, claim: Claim
) -> None:
    """Twelve seconds: longer than nodes are usually waited for, and than an operator may take."""
    vertices = {"one": ("", 0), "two": ("", 0)}
    program = side_by_side(tmp_path, vertices, 'rs.lossless(delay="60s")')
    fleet = Fleet(
        tmp_path, program, hubs=2, strategy="ecoc", rows=ROWS, every=50, hosts=dict.fromkeys(vertices, "hub1")
    )
    fleet.start()
    try:
        fleet.wait_for(200, "first results")
        fleet.processes["hub1"].send_signal(signal.SIGSTOP)
        let_pass(STOPPED_S)
        fleet.processes["hub1"].send_signal(signal.SIGCONT)
        fleet.wait_for(fleet.count() + 300, "results of the node that is back")
        let_pass(WRITTEN_S)
        placed, terms = set(fleet.placed().values()), set(fleet.terms().values())
    except AssertionError:
        print(fleet.logs())
        raise
    finally:
        fleet.stop()
    assert (placed, terms) == ({"hub1"}, {1}), fleet.logs()
    found = fleet.results()
    same = ideal(program, fleet.path, ROWS, found)
    pairs = {name: (digest(rows), digest(same[name])) for name, rows in found.items()}
    claim(
        f"1 node stopped for {STOPPED_S:g} s, {sum(map(len, found.values()))} rows of 2 vertices compared, digests "
        f"{', '.join(f'{mine} = {theirs}' for mine, theirs in pairs.values())}"
    )
    assert all(mine == theirs for mine, theirs in pairs.values())
