"""The whole product over some people: gateway, Spark, one process per person, outages by schedule; then the account.

Everybody's clock starts at the first reading of all and runs at one speed, so people meet as they did. When the
recordings are over the clocks go on to the next midnight, which closes the last day; phones stay until what they
were owed has come back. Then all is stopped, and counted from the files alone (`resurge/up/account.py`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cloud_backend.results.rows import ResultRow
from cloud_backend.results.store import Results
from mobile_app.home.clock import boot_time_us
from mobile_app.node.results import Results as PhoneResults
from mobile_app.settings import settings_toml
from mobile_app.spool.opening import spool_cipher
from resurge.examples.trips import operators, report
from resurge.examples.trips.outages import DEFAULT, Outage, outages_of
from resurge.examples.trips.people import DAY, SECOND, Person
from resurge.examples.trips.phone import READY, STORY
from resurge.up.account import Account, count, open_spool
from resurge.up.home import UpHome, make_stage
from resurge.up.own_modules import list_modules
from resurge.up.processes import Fleet, Process, python, wait_until
from shared.errors import UsageError

LEAD_S = 1.0  # from the moment every phone is ready to the moment event time begins to pass
READY_S = 120.0
GPS_EVERY_US = 5 * SECOND  # the program's timer
AFTER_MIDNIGHT_US = 2 * 3_600 * SECOND
RETURN_S = 60.0  # for Spark's last answers to come back to the phones
DRAIN_S = 300.0
MODULE = operators.__name__


@dataclass(frozen=True, slots=True)
class Outcome:
    people: int
    account: Account
    digest: str
    failure_free_digest: str
    rows: Mapping[str, int]  # of each sink
    on_phones: int
    outages: Mapping[str, list[Outage]]
    outages_felt: Mapping[str, int]  # of each phone: outages that refused it an exchange
    gps_read: int
    gps_unthinned: int  # as many as were recorded, or a phone would have read that always reads every five seconds
    bytes_sent: int
    speed: float
    seconds: float
    report: Sequence[ResultRow]
    late: list[str] = field(default_factory=list)

    @property
    def trips(self) -> int:
        return sum(int(row.values["trips"]) for row in self.report if row.sink == "my_trips")

    def as_json(self) -> dict[str, Any]:
        without_us = sum(outage.end_us - outage.start_us for one in self.outages.values() for outage in one)
        return {
            "digest": self.digest, "failure_free_digest": self.failure_free_digest, **self.account.as_json(),
            "trips": self.trips, "people": self.people, "results": dict(self.rows), "results_on_phones": self.on_phones,
            "outages": sum(map(len, self.outages.values())), "outages_felt": sum(self.outages_felt.values()),
            "outages_by_person": {
                name: {"scheduled": len(one), "felt": self.outages_felt[name]} for name, one in self.outages.items()
            },
            "outage_minutes": round(without_us / SECOND / 60),
            "gps_read": self.gps_read, "gps_unthinned": self.gps_unthinned,
            "bytes_sent": self.bytes_sent, "speed": round(self.speed, 1), "seconds": round(self.seconds, 1),
        }  # fmt: skip

    def problems(self) -> list[str]:
        wrong = list(self.late)
        if not self.account.adds_up:
            wrong.append(f"the account does not add up: {self.account}")
        if self.account.ledgered:
            wrong.append(f"{self.account.ledgered} readings were given up")
        if self.digest != self.failure_free_digest:
            wrong.append(
                f"the report ({self.digest[:12]}) differs from that of a run without failures "
                f"({self.failure_free_digest[:12]})"
            )
        return wrong


def play(
    home: Path,
    people: Sequence[Person],
    *,
    length_s: float,
    schedule: str = DEFAULT,
    recorded: bool = True,
    at_least: int = 5,
    zone: str = "UTC",
    port: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Play everyone's recordings within about this many seconds. Every process has ended when this returns.
    Unless they are `recorded`, phones decide themselves when to read the GPS."""
    began = time.monotonic()
    plan = report.trips_plan(recorded=recorded, at_least=at_least, zone=zone)
    say(f"{len(people)} people; what their report must be, without phones, network or Spark")
    wanted = report.failure_free(plan, people)
    trips = [row for row in wanted if row.sink == "my_trips" and row.values["trips"]]
    outages = {
        person.name: outages_of(schedule, person.name, [trip for trip in trips if trip.device == person.name])
        for person in people
    }
    base_us = min(person.start_us for person in people)
    midnights = [row.window_end_us for row in wanted if row.sink == "my_days"]
    end_us = max(-(-max(person.end_us for person in people) // DAY) * DAY, *midnights, 0) + AFTER_MIDNIGHT_US
    speed = max(1.0, (end_us - base_us) / SECOND / length_s)
    if speed > 10_000:
        raise UsageError(
            f"{(end_us - base_us) / DAY:.1f} days in {length_s:.0f} s is more than 10,000 times as fast; give --for "
            f"{(end_us - base_us) / SECOND / 10_000:.0f} or more",
            code="example-speed",
        )
    stage = make_stage(home, plan, port=port, speed=speed, modules=[MODULE])
    with Fleet() as fleet:
        run = _Run(stage, fleet, say, recorded=recorded)
        run.start(people, outages, base_us)
        run.until(end_us, wanted=len(wanted))
        run.finish()
    return run.outcome(people, wanted, outages, seconds=time.monotonic() - began)


class _Run:
    def __init__(self, stage: UpHome, fleet: Fleet, say: Callable[[str], None], *, recorded: bool) -> None:
        self.stage, self.fleet, self.say, self.recorded = stage, fleet, say, recorded
        self.gateway, self.spark = stage.gateway(), stage.spark()
        self.phones: list[Process] = []
        self.begin_boot_us = self.base_us = 0
        self.late: list[str] = []
        self._begin = stage.home / "begin"

    def start(self, people: Sequence[Person], outages: Mapping[str, list[Outage]], base_us: int) -> None:
        self.fleet.start(self.gateway)
        wait_until(lambda: self.stage.answers(self.gateway.pid), what="the gateway's first answer", timeout_s=60.0,
                   processes=[self.gateway])  # fmt: skip
        self.say(f"Dashboard  {self.stage.dashboard_link(time.time_ns() // 1000)}  (signs you in, once)")
        self.fleet.start(self.spark)
        wait_until(lambda: '"ready": true' in self.spark.tail(), what="Spark", timeout_s=180.0, processes=[self.spark])
        self.base_us = base_us
        for person in people:
            self._prepare(person, outages[person.name])
            home = self.stage.phone_home(person.name)
            process = Process(
                person.name, python("-m", "resurge.examples.trips.phone", str(home)),
                self.stage.home / "output" / f"{person.name}.txt",
            )  # fmt: skip
            self.phones.append(self.fleet.start(process))
        ready = [self.stage.phone_home(person.name) / READY for person in people]
        wait_until(lambda: all(path.exists() for path in ready), what="every phone", timeout_s=READY_S,
                   processes=self.phones)  # fmt: skip
        self.begin_boot_us = boot_time_us() + round(LEAD_S * SECOND)
        begin = self._begin.with_suffix(".new")
        begin.write_text(str(self.begin_boot_us))
        begin.replace(self._begin)
        self.say(f"{len(people)} phones, {self.stage.speed:.0f} event seconds per second")

    def _prepare(self, person: Person, outages: Sequence[Outage]) -> None:
        home = self.stage.phone_home(person.name)
        (home / "recording").mkdir(parents=True, mode=0o700)
        (home / "settings.toml").write_text(settings_toml(name=person.name, spool_mb=16, loss_window_s=1.0))
        list_modules(home, self.stage.modules)
        sensors = []
        for sensor, columns in person.sensors.items():
            path = home / "recording" / f"{sensor}.csv"
            _write(path, columns)
            sensors.append(f"{sensor}=recording:{path}")
        story = {
            "link": self.stage.pairing_link(time.time_ns() // 1000), "sensors": sensors, "speed": self.stage.speed,
            "begin": str(self._begin), "base_us": self.base_us, "origin_us": person.start_us,
            "outages": [[outage.start_us, outage.end_us] for outage in outages],
        }  # fmt: skip
        (home / STORY).write_text(json.dumps(story))

    def until(self, end_us: int, *, wanted: int) -> None:
        """Until event time has passed the end and every answer is there, or it is clear that it will not be."""
        end_s = self.begin_boot_us / SECOND + (end_us - self.base_us) / SECOND / self.stage.speed
        reported_at = time.monotonic()
        while (left := end_s - boot_time_us() / SECOND) > 0:
            for process in self.fleet.processes:
                process.ensure_running()
            if time.monotonic() - reported_at >= 15.0:
                reported_at = time.monotonic()
                self.say(f"{left:.0f} s left, {self._results():,} of {wanted:,} results")
            time.sleep(0.25)
        self.say("the recordings are over; waiting for Spark and for the phones to hear of it")
        deadline = time.monotonic() + DRAIN_S
        while self._results() < wanted and time.monotonic() < deadline:
            self.spark.ensure_running()
            time.sleep(0.25)
        deadline = time.monotonic() + RETURN_S
        due = self._owed()
        while sum(self._results_on_phones()) < due and time.monotonic() < deadline:
            time.sleep(0.25)

    def finish(self) -> None:
        for process in self.phones:
            process.stop()
        self.say("phones stopped; Spark finishes what the log holds")
        deadline = time.monotonic() + DRAIN_S
        while not self.stage.has_read_all():
            self.spark.ensure_running()
            if time.monotonic() > deadline:
                self.late.append(f"Spark did not finish the log within {DRAIN_S:.0f} s")
                break
            time.sleep(0.25)
        time.sleep(1.0)
        self.spark.stop()
        self.gateway.stop()

    def _gps_unthinned(self, people: Sequence[Person], status: Mapping[str, Any]) -> int:
        if self.recorded:
            return sum(len(person.sensors["gps"]["time"]) for person in people)
        return sum((status[person.name]["time_us"] - person.start_us) // GPS_EVERY_US for person in people)

    def _results(self) -> int:
        results = Results(self.stage.results)
        try:
            return sum(results.sinks().values())
        finally:
            results.close()

    def _owed(self) -> int:
        results = Results(self.stage.results)
        try:
            return sum(1 for row in results.current() if row.device)
        finally:
            results.close()

    def _results_on_phones(self) -> list[int]:
        counts = []
        for process in self.phones:
            kept = PhoneResults(self.stage.phone_home(process.name))
            try:
                counts.append(kept.count())
            finally:
                kept.close()
        return counts

    def outcome(
        self, people: Sequence[Person], wanted: Sequence[ResultRow], outages: Mapping[str, list[Outage]], seconds: float
    ) -> Outcome:
        homes = {person.name: self.stage.phone_home(person.name) for person in people}
        status = {name: json.loads((home / "status.json").read_bytes()) for name, home in homes.items()}
        spools = [open_spool(home / "spool", spool_cipher(home)) for home in homes.values()]
        try:
            account = count(self.stage.log, spools)
        finally:
            for spool in spools:
                spool.close()
        results = Results(self.stage.results)
        try:
            rows = report.with_names(results.current(), {view["device"]: name for name, view in status.items()})
        finally:
            results.close()
        sinks: dict[str, int] = {}
        for row in rows:
            sinks[row.sink] = sinks.get(row.sink, 0) + 1
        return Outcome(
            people=len(people),
            account=account,
            digest=report.digest(rows),
            failure_free_digest=report.digest(wanted),
            rows=sinks,
            on_phones=sum(self._results_on_phones()),
            outages=outages,
            outages_felt={process.name: _final_account(process)["outages_felt"] for process in self.phones},
            gps_read=sum(view["sensors"]["gps"]["readings"] for view in status.values()),
            gps_unthinned=self._gps_unthinned(people, status),
            bytes_sent=sum(view["bytes_sent"] for view in status.values()),
            speed=self.stage.speed,
            seconds=seconds,
            report=rows,
            late=self.late,
        )


def _final_account(process: Process) -> dict[str, Any]:
    """The account that a phone ends with."""
    account: dict[str, Any] = json.loads(process.tail().splitlines()[-1])
    return account


def _write(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """A sensor's readings as a plain CSV of numbers; floats in their shortest exact form."""
    lists = [(column.astype(np.int64) if column.dtype == bool else column).tolist() for column in columns.values()]
    with path.open("w", encoding="utf-8") as out:
        out.write(",".join(columns) + "\n")
        for row in zip(*lists, strict=True):
            out.write(",".join(repr(value).replace("nan", "") for value in row) + "\n")
