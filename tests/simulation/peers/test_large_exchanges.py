"""An exchange may bring more rows than what a vertex makes of them has room for: the rest comes again, nothing fails."""

from __future__ import annotations

import numpy as np
import pytest

import resurge as rs
from resurge import col
from shared.hosting import here, taking
from shared.hosting.wiring import EdgeSpec
from tests.claims import Claim
from tests.simulation.peers.checkers import every_checker
from tests.simulation.peers.world import Fault, PeerWorld, Settings

pytestmark = pytest.mark.sim
ROWS = 6_000
N = -3  # where the number stands in a result, before when its window began and ended


def rows_of(_: EdgeSpec, lo: int, hi: int) -> tuple[dict[str, object], np.ndarray]:
    numbers = np.arange(lo, hi)
    return {"n": numbers}, numbers * 1_000 + 1


@pytest.mark.covers("NB-8")
@pytest.mark.parametrize("row", ["none", "ecoc", "token"])
def test_a_backlog_of_many_times_the_room_for_what_is_made_of_it_arrives_whole(
    row: str, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(here, "MADE_BYTES", 128 << 10)
    monkeypatch.setattr(here, "CREDIT_BYTES", 16 << 10)
    monkeypatch.setattr(taking, "CREDIT_BYTES", 16 << 10)
    counted = rs.sensor("x", every="1ms", columns={"n": "int64"}).gather("g").where(col.n >= 0)
    plan = rs.plan_of(counted.sliding(count=1).aggregate(n=rs.max("n")).subscribe("out"))
    away = Fault(0.1, 1, "cut", 3.0)  # so all is there when it is back
    setting = Settings(
        plan, ROWS, rows_of, row=row, every=0 if row == "token" else 2_000, cut_s=60.0, batch=500, every_s=0.05,
        faults=(away,), settle_s=10.0,
    )  # fmt: skip
    world = PeerWorld(setting, observers=every_checker())
    outcome = world.run(ROWS)
    rows = world.results()[0]
    claim(f"{row}: {len(rows)} rows over a room of 128 KB, {outcome.failed} failures")
    assert (outcome.violation, outcome.lost, outcome.failed) == ("", 0, 0)
    assert [row[N] for row in rows] == list(range(ROWS))


@pytest.mark.parametrize("row", ["ecoc", "extended-ecoc"])
def test_what_waits_on_a_device_is_marked_as_it_is_taken(
    row: str, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a vertex makes stays there until its reader was snapshotted. So a backlog of more than there is room for needs
    marks within it, of which a device has only some under way; it also is started again meanwhile."""
    monkeypatch.setattr(here, "MADE_BYTES", 128 << 10)
    monkeypatch.setattr(here, "CREDIT_BYTES", 16 << 10)
    monkeypatch.setattr(taking, "CREDIT_BYTES", 16 << 10)
    rows, every = 3_000, 100
    numbers = rs.sensor("x", every="1ms", columns={"n": "int64"}).gather("g").sliding(count=1).aggregate(n=rs.max("n"))
    plan = rs.plan_of(numbers.where(col.n >= 0).sliding(count=1).aggregate(n=rs.max("n")).subscribe("out"))
    faults = (Fault(0.1, 4, "cut", 3.0), Fault(3.5, 4, "crash", 0.5))
    setting = Settings(
        plan, rows, rows_of, row=row, every=every, batch=500, every_s=0.05, faults=faults, settle_s=10.0, sources=(4,)
    )
    outcome = (world := PeerWorld(setting, observers=every_checker())).run(rows)
    assert (outcome.violation, outcome.lost, outcome.failed) == ("", 0, 0)
    assert [row[N] for row in world.results()[0]] == list(range(rows))
    claim(
        f"{row}: {outcome.elements} rows of a backlog, {outcome.commits} snapshots, {outcome.crashes} crash of the device"
    )
