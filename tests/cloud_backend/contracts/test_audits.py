"""The audit over a real log: injected loss, swaps, lateness and silence are in the signed report of their hour."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import resurge as rs
from cloud_backend.contracts.audits import HOUR_US, SECOND_US, Aftermath, Audits, Device
from cloud_backend.gateway.keys import Keys, is_signed_by
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from shared.batch import Batch
from shared.identity import DeviceId, edge_id
from shared.language.schema import Schema
from shared.plan.contracts import LOSSLESS, Contract
from shared.plan.graph import Plan
from shared.spool.disk import PosixDisk
from shared.wire import codecs
from shared.wire.frame import encode
from shared.wire.messages import Data, Frontier, LostRange
from tests.claims import Claim

KEYS = Keys(bytes(range(32)))
SCHEMA = Schema.of({"x": "float64", "y": "float64", "z": "float64"})
EDGE = edge_id("up")
PHONE, OTHER = DeviceId(b"p" * 16), DeviceId(b"o" * 16)
START = 490_000 * HOUR_US
BOUND = Contract(delay_us_max=600 * SECOND_US)


def plan_of(contract: Contract) -> Plan:
    up = rs.sensor("accelerometer", every="1s").sync("up", contract=contract, within="5s")
    return rs.plan_of(up.tumbling("1m").aggregate(n=rs.count()).sync_back("counts"))


class Bench:
    def __init__(self, directory: Path, contract: Contract = LOSSLESS, segment_bytes: int = 1 << 22) -> None:
        self.directory = directory
        self.log = Log.open(PosixDisk(directory / "log"), segment_bytes=segment_bytes)
        self.plan = plan_of(contract)
        self.devices = [Device(PHONE.hex(), 1, START)]
        self.aftermath = Aftermath({}, {})
        self.next: dict[DeviceId, int] = {}
        self.waiting: list[Record] = []
        self.audits = self.open()
        self.audits.follow(START)

    def open(self) -> Audits:
        return Audits(
            self.log, self.directory / "contracts.sqlite", plan=lambda: self.plan, devices=lambda _: (0, self.devices),
            sign=KEYS.sign, aftermath=lambda: self.aftermath,
        )  # fmt: skip

    def restart(self) -> None:
        self.audits.close()
        self.audits = self.open()

    def deliver(
        self, at_s: float, count: int = 10, *, device: DeviceId = PHONE, delay_s: float = 5.0, times: Any = None,
        codec: str = "none",
    ) -> None:  # fmt: skip
        """A batch that arrives so many seconds after START; its last row is `delay_s` old."""
        at_us = START + round(at_s * SECOND_US)
        lo = self.next.get(device, 0)
        self.next[device] = lo + count
        if times is None:
            times = at_us - round(delay_s * SECOND_US) - SECOND_US * np.arange(count - 1, -1, -1) // 100
        values = {name: np.zeros(count) for name in "xyz"}
        number, payload = codecs.encode(Batch.of(SCHEMA, values, times, lo=lo), codec)
        frontier_us = int(np.max(times))
        data = Data(device, 1, EDGE, lo, lo + count, count, SCHEMA.id, 0, number, payload, frontier_us)
        self.append(at_us, data.frame())

    def lose(self, at_s: float, count: int = 10, reason: str = "evicted", device: DeviceId = PHONE) -> None:
        lo = self.next.get(device, 0)
        self.next[device] = lo + count
        self.append(START + round(at_s * SECOND_US), LostRange(device, 1, EDGE, lo, lo + count, reason).frame())

    def append(self, at_us: int, frame: Any) -> None:
        self.waiting.append(Record(at_us, encode(frame)))

    def sync(self) -> None:
        """Make durable what was appended, in one group."""
        self.log.append(self.waiting)
        self.log.sync()
        self.waiting.clear()

    def report(self, hour: int = 1) -> dict[str, Any]:
        """The report of the hour that ends then."""
        self.sync()
        self.audits.follow(START + hour * HOUR_US + 10 * SECOND_US, seconds_max=60)
        assert self.audits.behind_bytes == 0
        (found,) = [each for each in self.audits.reports() if each.to_us == START + hour * HOUR_US]
        return found.content


def test_a_quiet_hour_of_a_lossless_stream_is_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path, BOUND)
    for second in range(0, 3600, 60):
        bench.deliver(second)
    found = bench.report()
    assert (found["verdict"], found["delivered"], found["kept"], found["rows"]) == ("kept", 600, 1.0, 600)
    assert found["promise"]["text"] == "lossless within 10m"
    assert found["strategy"]["row"] == "local"
    assert found["delay_max_us"] == 5_090_000
    assert found["coverage"] > 0.97
    assert bench.audits.stored.verify(partial(is_signed_by, KEYS.public_key)) == 1


def test_an_injected_loss_of_3_1_percent_is_reported_as_that(tmp_path: Path, claim: Claim) -> None:
    bench, lost = Bench(tmp_path, Contract(kept_min=0.95)), 1860
    gone = set(random.Random(31).sample(range(6000), lost // 10))  # 3.1 % of 60,000 elements
    for number in range(6000):
        if number in gone:
            bench.lose(number * 0.6, reason="evicted" if number % 2 else "expired")
        else:
            bench.deliver(number * 0.6)
        if number in (2000, 2001, 4500):
            bench.sync()
            bench.audits.follow(START + round(number * 0.6 * SECOND_US), seconds_max=60)
            bench.restart()
    found = bench.report()
    reported, injected = 1 - found["kept"], lost / 60_000
    assert abs(reported - 0.031) < 0.0005
    assert (found["verdict"], found["ledgered"], found["delivered"]) == ("kept", lost, 60_000 - lost)
    assert {each["reason"] for each in found["lost"]} == {"evicted", "expired"}
    claim(f"{100 * injected:.3f} % injected, {100 * reported:.3f} % reported, over three restarts of the audit")


def test_a_bound_broken_by_one_second_is_in_the_report(tmp_path: Path) -> None:
    bench = Bench(tmp_path, BOUND)
    bench.deliver(700, 1, delay_s=600)
    bench.deliver(800, 1, delay_s=601)
    found = bench.report()
    assert (found["verdict"], found["why"], found["late"]) == ("broken", ["delay"], 1)
    assert found["delay_max_us"] == 601 * SECOND_US


def test_a_clock_that_may_be_wrong_by_two_seconds_puts_one_second_in_doubt(tmp_path: Path) -> None:
    bench = Bench(tmp_path, BOUND)
    bench.devices = [Device(PHONE.hex(), 1, START, uncertainty_us=2 * SECOND_US)]
    bench.deliver(800, 1, delay_s=601)
    found = bench.report()
    assert (found["verdict"], found["late"], found["late_in_doubt"]) == ("at risk", 0, 1)


@pytest.mark.parametrize("codec", ["auto", "none", "deflate"])
def test_a_swapped_pair_of_rows_is_found_whatever_packed_them(tmp_path: Path, codec: str) -> None:
    bench = Bench(tmp_path)
    times = START + SECOND_US * np.array([1, 2, 4, 3, 5])
    bench.deliver(10, 5, times=times, codec=codec)
    bench.deliver(20, 2, times=START + SECOND_US * np.array([4, 6]), codec=codec)  # behind what was declared over
    found = bench.report()
    assert (found["times_back"], found["behind"]) == (2, 1)
    assert (found["verdict"], found["why"]) == ("broken", ["order"])


def test_a_silent_stream_is_unknown_until_it_is_revoked(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.devices.append(Device(OTHER.hex(), 1, START))
    bench.deliver(10)
    found = bench.report()
    assert (found["verdict"], found["silent"], found["streams"]) == ("unknown", [f"{OTHER.hex()}/1"], 2)
    bench.append(START + HOUR_US, Frontier(OTHER, 1, EDGE, 0, START).frame())
    bench.deliver(3700)
    assert bench.report(2)["verdict"] == "kept"
    bench.deliver(2 * 3600 + 10)
    bench.devices[-1] = Device(OTHER.hex(), 1, START, revoked=True)
    assert (bench.report(3)["verdict"], bench.report(3)["streams"]) == ("kept", 1)


def test_devices_of_which_nothing_changed_are_told_once_and_stay_due(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.audits.close()
    asked: list[int] = []

    def devices(after: int) -> tuple[int, list[Device]]:
        asked.append(after)
        everybody = [Device(PHONE.hex(), 1, START), Device(OTHER.hex(), 1, START)]
        return 7, [] if after == 7 else everybody

    bench.audits = Audits(
        bench.log, tmp_path / "contracts.sqlite", plan=lambda: bench.plan, devices=devices, sign=KEYS.sign
    )
    bench.deliver(10)
    bench.deliver(20)
    found = bench.report()
    assert (found["verdict"], found["silent"], found["streams"]) == ("unknown", [f"{OTHER.hex()}/1"], 2)
    assert bench.report(2)["streams"] == 2
    assert asked == [0, 7]


def test_an_hour_in_which_nothing_came_is_unknown(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert (bench.report()["verdict"], bench.report()["why"]) == ("unknown", ["silent"])


def test_hours_a_gateway_was_away_have_their_reports_and_a_longer_stop_its_last_two_days(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.deliver(10)
    bench.report()
    bench.audits.follow(START + 100 * HOUR_US + 10 * SECOND_US)
    found = bench.audits.reports(limit=1000)
    assert [each.to_us - each.from_us for each in found] == [HOUR_US] * 49
    assert {each.verdict for each in found[:48]} == {"unknown"}


def test_what_became_of_elements_later_is_counted_in_the_hour_it_became_known(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.deliver(10, 1000)
    bench.aftermath = Aftermath(
        {"up": 5, "elsewhere": 9}, {"counts": 3, "other": 8}, ({"job": "main", "n": 4, "R": ["v"]},)
    )
    found = bench.report()
    assert (found["quarantined"], found["corrected"], found["wrong"]) == (5, 3, 8)
    assert (found["verdict"], found["why"]) == ("broken", ["wrong"])
    assert found["recoveries"] == [{"job": "main", "n": 4, "R": ["v"]}]
    bench.deliver(3700)
    found = bench.report(2)
    assert (found["wrong"], found["recoveries"], found["verdict"]) == (0, [], "kept")


def test_a_rollback_that_was_seen_before_a_restart_is_in_its_hour_s_report_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.deliver(10)
    bench.sync()
    rollback = {"job": "main", "n": 1, "R": ["v"]}
    bench.aftermath = Aftermath({}, {}, (rollback,))
    bench.audits.follow(START + 60 * SECOND_US)
    bench.restart()
    bench.audits.follow(START + 120 * SECOND_US)
    assert bench.report()["recoveries"] == [rollback]
    bench.restart()
    bench.deliver(3700)
    assert bench.report(2)["recoveries"] == []


def test_a_new_promise_closes_the_report_on_the_old_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.deliver(10)
    bench.sync()
    bench.audits.follow(START + 60 * SECOND_US)
    bench.plan = plan_of(Contract(kept_min=0.5))
    bench.lose(100)
    bench.sync()
    bench.audits.follow(START + 120 * SECOND_US)
    (first,) = bench.audits.reports()
    assert (first.verdict, first.to_us) == ("kept", START + 120 * SECOND_US)
    assert bench.report()["promise"]["kept_min"] == 0.5


def test_what_was_trimmed_before_it_was_audited_is_unknown_and_not_called_lost(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=16 * 1024)
    for number in range(0, 3000, 50):
        bench.deliver(number, 20)
        if number % 1000 == 0:
            bench.sync()
    bench.sync()
    assert bench.log.trim(bench.log.end) > 0
    found = bench.report()
    assert (found["verdict"], found["why"], found["ledgered"]) == ("unknown", ["unread"], 0)


def test_a_sink_s_verdict_is_there_before_its_hour_is_over(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.deliver(10)
    bench.lose(20, 3)
    bench.sync()
    bench.audits.follow(START + 30 * SECOND_US)
    (now,) = bench.audits.now(START + 30 * SECOND_US)
    assert (now.sink, now.findings.verdict.value, now.findings.ledgered) == ("up", "broken", 3)
    assert bench.audits.reports() == []
