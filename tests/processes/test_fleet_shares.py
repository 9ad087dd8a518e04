"""A phone and the hub next to it apply filters of a query that is read further on: real processes, the file's links."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from shared.hosting.sink import sink_rows
from shared.hosting.store import stored_fleet
from shared.plan.deployment import decode_deployment
from shared.spool.disk import PosixDisk
from shared.spool.entry import DataEntry
from shared.spool.ring import Spool
from tests.claims import Claim
from tests.patience import SPARK_PATIENCE_S, wait_until
from tests.processes.fleets import COORDINATOR, PHONE, Fleet, Program, digest, ideal
from tests.processes.test_fleet_submit import FIRST, HEAD, run

pytestmark = pytest.mark.processes
ROWS = 30_000
PROGRAM = """
import resurge as rs
from resurge import col
near = rs.sensor("count", every="5ms", columns={"v": "float64"}).gather("count", batch=20, within="200ms")
near.where(col.v % 4 == 0).where(col.v % 3 == 0).select("device", v=col.v, twice=col.v * 2).subscribe("out")
"""
FILTER_1, FILTER_2, REST = "where (v % 4) == 0", "where (v % 3) == 0", "select device, v, twice=v * 2"
LINKS = '\n[[link]]\nbetween = ["phone", "hub1"]\n[[link]]\nbetween = ["hub1", "hub2"]\n[[link]]\nbetween = ["hub2", "laptop"]\n'


@pytest.mark.covers("NB-2", "NB-4")
def test_a_phone_and_a_hub_on_the_way_apply_their_filters(tmp_path: Path, claim: Claim) -> None:
    program = Program("shared", PROGRAM, {"count": "v"}, {"out": ("v", "twice")}, (), readings=13)
    fleet = Fleet(tmp_path, program, hubs=2, strategy="ecoc", rows=ROWS, every=100, hosts={"out": "hub2"})
    text = fleet.file.read_text().replace('sink = "laptop"\n', 'sink = "laptop"\nplace = "push-down"\n')
    for name in (PHONE, "hub1"):  # each has room for one filter
        text = text.replace(f'name = "{name}"\n', f'name = "{name}"\ncapacity = 1\n')
    fleet.file.write_text(text + LINKS)
    fleet.start()
    try:
        fleet.wait_for(40, "results")
        said = [(each["node"], *each["operators"]) for each in fleet.shown()["applied"]]
    except AssertionError:
        print(fleet.logs())
        raise
    finally:
        fleet.stop()
    found = fleet.results()
    same = ideal(program, fleet.path, ROWS, found)
    spool = Spool.open(PosixDisk(tmp_path / PHONE / "fleet" / "sources"))
    spooled = [each for edge in spool.edges() for each in spool.pending(edge) if isinstance(each, DataEntry)]
    numbers, rows = sum(each.hi - each.lo for each in spooled), sum(each.batch(b"").rows for each in spooled)
    claim(
        f"{len(found['out'])} rows compared, digests {digest(found['out'])} = {digest(same['out'])}; the phone's spool "
        f"has {rows} rows for {numbers} numbers"
    )
    assert said == [(PHONE, FILTER_1), ("hub1", FILTER_2), ("hub2", REST)]
    assert digest(found["out"]) == digest(same["out"])
    assert numbers
    assert rows <= numbers / 4 + len(spooled), "what the phone has spooled is filtered"


@pytest.mark.covers("NB-24")
@pytest.mark.soak
def test_a_query_is_edited_while_its_phone_filters(tmp_path: Path, claim: Claim) -> None:
    """Every second reading, and from the edit on every sixth: nothing else, nothing twice, none missing."""
    first = Program("first", FIRST, {"count": "v"}, {"first": ("v", "n")}, ())
    fleet = Fleet(tmp_path, first, hubs=1, strategy="ecoc", rows=ROWS, every=100, hosts={"first": "hub1"})
    even = HEAD + "near.where(col.v % 2 == 0)"
    before, after = tmp_path / "before.py", tmp_path / "after.py"
    before.write_text(even + '.subscribe("kept")\n')
    after.write_text(even + '.where(col.v % 3 == 0).subscribe("kept")\n')
    other = tmp_path / "other.py"
    other.write_text(even + '.sliding(count=2).aggregate(v=rs.min("v")).subscribe("kept")\n')
    home = ["--home", str(tmp_path / COORDINATOR)]

    def kept() -> list[Any]:
        query = next(each for each in decode_deployment(stored_fleet(fleet.disk)).queries if each.name == "kept")
        rows, lost = sink_rows(fleet.disk, query, "kept")
        assert not lost
        return [row["v"] for row in rows]

    fleet.start()
    try:
        fleet.wait_for(20, "results of the query in the file")
        asked = ["--from", PHONE, "--to", COORDINATOR, "--on", "hub1", "--absent", "5m", "--forward", "paths:2"]
        said = run("submit", "kept", str(before), *asked, *home)["applied"]
        wait_until(lambda: len(kept()) >= 40, "rows before the edit", patience_s=SPARK_PATIENCE_S)
        assert "query-edit" in str(run("edit", "kept", str(other), *home, code=1))
        edited = run("edit", "kept", str(after), *home)
        had = len(kept())
        wait_until(lambda: len(kept()) >= had + 60, "rows after the edit", patience_s=SPARK_PATIENCE_S)
        wait_until(lambda: kept()[-1] - kept()[-2] == 6, "rows of the edited query", patience_s=SPARK_PATIENCE_S)
        terms = wait_until(
            lambda: {each["term"] for each in fleet.shown()["placements"] if each["query"] == "kept"}, "its placements"
        )
        rows = kept()
    except AssertionError:
        print(fleet.logs())
        raise
    finally:
        fleet.stop()
    steps = [later - one for one, later in itertools.pairwise(rows)]
    switch = steps.index(6)
    claim(f"{len(rows)} rows compared, {switch} of them before the edit; the phone applied {edited['applied']}")
    assert [each["node"] for each in said] == [PHONE]
    assert [each["operators"] for each in edited["applied"]] == [["where (v % 2) == 0", "where (v % 3) == 0"]]
    assert set(steps[switch:]) == {6}
    assert set(steps[:switch]) <= {2, 4}, "the last step before the edit may lead to the next sixth"
    assert steps[: max(0, switch - 1)] == [2] * max(0, switch - 1)
    assert len(terms) == 1, "no vertex began again"
