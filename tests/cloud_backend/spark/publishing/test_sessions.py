"""A late row joins two sessions that were already out: the results then say one, and the phone is told so."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import resurge as rs
from cloud_backend.log.log import Record
from cloud_backend.results.rows import digest_of
from cloud_backend.spark.graph import sink_of
from cloud_backend.spark.rollback.roll_back import roll_back
from resurge.up.expected_results import expected_results
from shared.batch import Batch
from shared.identity import edge_id
from shared.plan.graph import Plan
from shared.wire import columns
from shared.wire.frame import encode
from shared.wire.messages import Data
from tests.claims import Claim
from tests.spark.worlds import SECOND, World


def walks_plan() -> Plan:
    up = rs.sensor("walk", every="1s", columns={"x": "float64"}).sync("walk", batch=20)
    walks = up.session(gap="5s", lateness="10m").aggregate(n=rs.count(), total=rs.sum("x"))
    return rs.plan_of(walks.sync_back("walks"), name="walks")


def send(world: World, seconds: list[int], *, lo: int, frontier: int) -> None:
    (edge,) = world.plan.edges
    rows = len(seconds)
    batch = Batch.of(
        edge.schema, {"x": np.ones(rows)}, np.array(seconds) * SECOND, lo=lo, frontier_us=frontier * SECOND
    )
    codec, payload = columns.encode(batch)
    data = Data(
        world.ids[0], 1, edge_id(edge.name), lo, lo + rows, rows, edge.schema.id, 0, codec, payload, frontier * SECOND
    )
    world.log.append([Record(1_700_000_000_000_000 + lo, encode(data.frame()))])
    world.log.sync()


def test_a_late_row_that_joins_two_sessions_retracts_both(tmp_path: Path, claim: Claim) -> None:
    world = World(tmp_path, walks_plan())
    assert sink_of(world.plan, "walks").sessions
    driver = world.driver()
    send(world, [0, 1, 2, 3, 20, 21, 22, 23], lo=0, frontier=60)
    driver.drain()
    assert [row.values["n"] for row in world.results.latest("walks")] == [4, 4]
    phone = world.ids[0].hex()
    told = world.results.downlink_head(phone)
    send(world, [7, 11, 15, 18], lo=8, frontier=61)
    driver.drain()
    (joined,) = world.results.latest("walks")
    assert (joined.window_start_us, joined.window_end_us, joined.values["n"]) == (0, 28 * SECOND, 12)
    assert [(row.retract, row.window_start_us) for _, row in world.results.downlink(phone, told)] == [
        (True, 0), (True, 20 * SECOND), (False, 0),
    ]  # fmt: skip
    expected = expected_results(world.plan, world.log_dir)
    before = world.results.digest()
    assert before == digest_of(expected)
    roll_back(driver.store.root, "walks", 1)  # runs again what joined them
    driver.drain()
    assert world.results.digest() == before
    claim(f"1 rollback, {len(expected)} rows compared, {before} = {digest_of(expected)}")


def test_sessions_that_no_late_row_can_reach_stand_by_themselves() -> None:
    up = rs.sensor("walk", every="1s", columns={"x": "float64"}).sync("walk", batch=20)
    plan = rs.plan_of(up.session(gap="5s").aggregate(n=rs.count()).sync_back("walks"))
    assert not sink_of(plan, "walks").sessions
