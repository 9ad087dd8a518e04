"""A phone and the hub next to it apply filters of a query that is read further on: real processes, the file's links."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.spool.disk import PosixDisk
from shared.spool.entry import DataEntry
from shared.spool.ring import Spool
from tests.claims import Claim
from tests.processes.fleets import PHONE, Fleet, Program, digest, ideal

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
