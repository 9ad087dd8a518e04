"""Nothing is shown that no node says: each field of the status has a writer."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import resurge as rs
from mobile_app.home.clock import Anchor
from mobile_app.node.view_state import pace_of, status_for_fleet
from shared.sync.exchange import StatusReceived
from shared.wire.fleet_status import FleetStatus
from shared.wire.status import DeviceStatus
from tests.mobile_app.node.test_loop import RAW, bench, plan  # noqa: F401
from tests.shared.sync.builders import pair

OF_THE_SENDER = {"live", "plan", "poll_s"}
OF_A_HOST = {
    "accuracy_m", "back", "base", "boot", "cuts", "deployment", "instances", "kept", "neighbours", "offer", "offered", "position",
    "stamps", "took", "unreachable", "urgent",
}  # to whoever coordinates  # fmt: skip
FLEET = FleetStatus(3)
VIEW = {
    "battery": {"level": 0.834, "charging": True}, "spool": {"used_bytes": 4, "capacity_bytes": 9, "full_in_s": 59.7},
    "incarnation": 2, "lane": "wifi", "paused": "battery-floor", "malformed_results": 3, "late": [{"rows": 4}],
    "missing_sensors": {"gps": "no permission"}, "refused_sensors": ["gps"], "produced": 12, "build": "Walks 1.0", "time_uncertainty_us": 123_456, "pace": [60.0, 1_794_817_500_000_000, 1_794_605_100_000_000], "operators": ["walk@2"], "advice": {"bytes_per_second": 123.4, "outages": 7, "p95_s": 61.2, "p99_s": None}, "sensors": {"light": {"overruns": 5}},
}  # fmt: skip


def test_the_node_writes_every_field_that_the_sender_does_not():
    status = status_for_fleet(VIEW, "not \x1b[31menrolled" + "!" * 500, FLEET)
    unsaid = {field.name for field in fields(DeviceStatus) if getattr(status, field.name) == field.default}
    assert unsaid <= OF_THE_SENDER | OF_A_HOST | {"version"}  # which has none where the package is not installed
    assert (status.battery, status.full_in_s, status.overruns, status.clock_doubt_s) == (83, 60, 5, 0.12)
    assert DeviceStatus.from_json(status.to_json()) == status


def test_a_home_that_plays_time_says_its_pace_and_any_other_none():
    anchor = Anchor("boot", 5, 2_000, 400, 1, 60.0, 0)
    assert pace_of(anchor) == [60.0, 2_000, 400]
    assert pace_of(replace(anchor, speed=1.0)) is None
    assert status_for_fleet(VIEW | {"pace": None}, "").pace is None


def test_the_sender_adds_what_it_knows_and_the_gateway_reads_all_of_it():
    node = pair()
    node.plan = (4, b"plan")
    node.boot(0.0)
    node.sender.status(status_for_fleet(VIEW, ""))
    node.talk()
    said = next(event.status for event in node.gateway.events if isinstance(event, StatusReceived))
    assert (said.plan, said.poll_s, said.produced, said.missing_sensors) == (4, node.pacing.poll_s, 12, ("gps",))


def test_results_that_make_no_sense_are_counted_for_the_person_and_the_fleet(bench, tmp_path):  # noqa: F811
    bench.gateway.rows = [{"nonsense": 1}, {"sink": "my_trips"}]
    node = bench.start(plan=plan(tmp_path, RAW))
    heard: list[object] = []

    def told() -> bool:
        heard.extend(bench.gateway.receiver.events())
        return any(isinstance(event, StatusReceived) and event.status.malformed_results == 2 for event in heard)

    bench.run_until(told)
    bench.run_until(lambda: "results-malformed" in [entry["code"] for entry in node.stores.health.entries()])
    assert node.view()["malformed_results"] == 2


class Belated:
    """Says each reading once more, an hour too early."""

    def process(self, port, row):
        yield {"z": row["z"]}
        yield {"z": row["z"], "time": row["time"] - 3_600_000_000}

    def snapshot(self):
        return b""

    def restore(self, state):
        pass


rs.operator("tests_belated", takes={"z": "float64"}, gives={"z": "float64"})(Belated)
BELATED = (
    'opened = rs.sensor("accelerometer", every="20ms").apply("tests_belated").tumbling("1s", lateness="1m")',
    'opened.aggregate(z=rs.mean("z")).sync("acc")',
    'opened.late().sync("late")',
)


def test_rows_too_late_are_counted_with_the_reason_and_given_a_stream_of_their_own(bench, tmp_path):  # noqa: F811
    node = bench.start(plan=plan(tmp_path, *BELATED))
    heard: list[object] = []

    def told() -> bool:
        heard.extend(bench.gateway.receiver.events())
        return any(isinstance(event, StatusReceived) and event.status.late > 0 for event in heard)

    bench.run_until(told)
    bench.run_until(lambda: "rows-late" in [entry["code"] for entry in node.stores.health.entries()])
    (entry,) = [entry for entry in node.stores.health.entries() if entry["code"] == "rows-late"]
    assert "more than 1m behind the frontier: tumbling 1s" in entry["what"]
    assert "program1.py:4" in entry["what"]
    bench.run_until(lambda: node.view()["edges"].get("late", {}).get("produced"))
    (late,) = node.view()["late"]
    assert late["reason"] == "more than 1m behind the frontier"
    assert late["rows"] > 0
    assert json.loads((bench.home / "status.json").read_text())["late"]


def test_each_edge_of_the_plan_has_a_light_by_what_waits_here(bench, tmp_path):  # noqa: F811
    bench.gateway.plan_to_send = plan(
        tmp_path,
        "rs.sensor('gps', every='1s').sync('up', batch=10, within='5s', contract=rs.lossless(delay='10m'))",
    )
    bench.start(speed=60.0)  # the promise breaks after ten seconds: long enough to see the light before
    bench.run_until(lambda: bench.delivered("up") >= 20 and bench.node.view()["promises"][0]["verdict"] == "kept")
    (promise,) = bench.node.view()["promises"]
    assert (promise["name"], promise["promise"]) == ("up", "lossless within 10m")
    assert (promise["bound_s"], promise["ledgered"]) == (600.0, 0)
    bench.gateway.down = True
    bench.run_until(lambda: bench.node.view()["promises"][0]["verdict"] == "unknown")
    bench.run_until(lambda: bench.node.view()["promises"][0]["verdict"] == "broken")
    assert bench.node.view()["promises"][0]["why"] == "delay"
    assert bench.node.view()["promises"][0]["delay_s"] > 600.0


def test_the_view_has_the_rate_of_each_edge_and_the_outages_that_were_seen(bench, tmp_path):  # noqa: F811
    bench.gateway.plan_to_send = plan(tmp_path, "rs.sensor('gps', every='1s').sync('up', batch=10, within='5s')")
    bench.start()
    bench.run_until(lambda: bench.delivered("up") >= 20)
    assert bench.node.view()["advice"]["outages"] == 0
    bench.gateway.down = True
    bench.run_until(lambda: not bench.node.view()["connected"])
    bench.gateway.down = False
    bench.run_until(lambda: bench.node.view()["advice"]["outages"] == 1)
    bench.run_until(lambda: bench.node.view()["advice"]["rates"].get("up", 0) > 0)
    advice = bench.node.view()["advice"]
    assert advice["lasts_s"] > 0
    assert advice["p95_s"] is None, "one outage says nothing of rare ones"
