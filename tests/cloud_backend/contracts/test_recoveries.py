"""A stream that nodes make for a query is audited as the query's, and its report says what had to begin again there."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import resurge as rs
from cloud_backend.contracts.audits import HOUR_US, SECOND_US, Audits, Device, Query
from cloud_backend.contracts.reports import Reports
from cloud_backend.dashboard.views.contracts import report_json
from cloud_backend.gateway.keys import is_signed_by
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from resurge.cli.contract import _recovered
from shared.identity import edge_id
from shared.moves import MOVED_AWAY, RESTARTED, Move, Recovery
from shared.plan.deployment import query_origin
from shared.spool.disk import PosixDisk
from shared.wire.frame import encode
from shared.wire.messages import Frontier
from tests.cloud_backend.contracts.test_audits import KEYS, PHONE, START

ORIGIN = query_origin("q")
NEAR = rs.sensor("noise", every="1s", columns={"db": "float64"}).gather("noise")
PLAN = rs.plan_of(NEAR.sliding(count=5).aggregate(db=rs.mean("db")).sync("up"))
QUERY = Query("q", ORIGIN.hex(), 3, PLAN, "ecoc", 500)


def moved(at_s: float, term: int, took_s: float | None, to: str = "hub2", query: str = "q") -> Recovery:
    move = Move(START + round(at_s * SECOND_US), query, "up", term, ("hub1",), (to,), "hub1 is silent for 15 s")
    return Recovery(move, RESTARTED if to == "hub1" else MOVED_AWAY, took_s)


def test_a_query_s_stream_is_due_and_its_report_says_how_often_and_how_long_it_was_recovered(tmp_path: Path) -> None:
    log = Log.open(PosixDisk(tmp_path / "log"))
    found: list[Recovery] = []

    def audits() -> Audits:
        return Audits(
            log, tmp_path / "contracts.sqlite", plan=lambda: None, devices=lambda _: (0, [Device(PHONE.hex(), 1, START)]),
            sign=KEYS.sign, queries=lambda: (QUERY,), recoveries=lambda: found,
        )  # fmt: skip

    first = audits()
    first.follow(START)
    found += [moved(20, 2, 4.5), moved(30, 1, 9.0, query="other"), moved(40, 3, None, "hub1"), moved(3602, 4, 1.0)]
    log.append([Record(START + 50 * SECOND_US, encode(Frontier(ORIGIN, 3, edge_id("up"), 0, START).frame()))])
    log.sync()
    first.follow(START + 60 * SECOND_US)
    first.close()
    found[0] = moved(20, 2, None)  # a coordinator that was restarted since does not know how long it took
    again = audits()
    again.follow(START + 70 * SECOND_US)
    (now,) = again.now(START + 70 * SECOND_US)
    assert now.query is not None
    again.follow(START + HOUR_US + 10 * SECOND_US)
    (report,) = again.reports()
    said = report.content
    assert (said["sink"], said["verdict"], said["streams"], said["strategy"]["row"]) == ("up", "kept", 1, "ecoc")
    recovered = said["query"]["recovered"]
    assert (said["query"]["name"], recovered["count"], recovered["kinds"]) == ("q", 2, {"moved": 1, "restarted": 1})
    assert (recovered["seconds"], recovered["longest_s"], recovered["not_measured"]) == (4.5, 4.5, 1)
    assert _recovered(said["query"]) == "1 moved, 1 restarted: 4.5 s, 1 not measured"
    assert again.stored.verify(partial(is_signed_by, KEYS.public_key)) == 1
    again.follow(START + 2 * HOUR_US + 10 * SECOND_US)
    assert again.reports()[0].content["query"]["recovered"]["count"] == 1
    again.close()


def test_a_report_of_a_version_that_knew_no_queries_is_read_and_verified(tmp_path: Path) -> None:
    reports = Reports(tmp_path / "contracts.sqlite", sign=KEYS.sign)
    reports.save({}, ({"sink": "up", "from_us": 0, "to_us": 1, "verdict": "kept", "recoveries": []},))
    (old,) = reports.reports()
    assert old.body == '{"from_us":0,"number":1,"recoveries":[],"sink":"up","to_us":1,"verdict":"kept"}'
    assert report_json(old)["query"] is None
    assert _recovered(report_json(old)["query"]) == ""
    assert reports.verify(partial(is_signed_by, KEYS.public_key)) == 1
