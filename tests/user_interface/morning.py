"""A gateway's morning after a day of work, for every page to show: seven phones, a program, a query, a few mishaps.

Written through the real roster, log, results, job manager (its tasks in this process), queries, alerts and accounts.
Everything is a function of the clock that is handed in: the same pictures every time.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from dataclasses import dataclass, field
from pathlib import Path

from fastapi import FastAPI

import resurge as rs
from cloud_backend import process_log
from cloud_backend.contracts.audits import Aftermath, Audits, Device
from cloud_backend.coordinator import alerts, followers, queries
from cloud_backend.coordinator.alerts import Condition
from cloud_backend.coordinator.queries import Query
from cloud_backend.coordinator.result_rules import rule_of
from cloud_backend.coordinator.roster import Roster
from cloud_backend.dashboard.history.history import History
from cloud_backend.dashboard.pages.routes import pages_router
from cloud_backend.dashboard.pages.sign_in import signin_router
from cloud_backend.dashboard.refusals import install_refusals
from cloud_backend.dashboard.sign_in.access import Access, install
from cloud_backend.dashboard.sources import Sources, program_at
from cloud_backend.gateway import http_problems
from cloud_backend.gateway.address_file import write_address
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from cloud_backend.results.store import Results
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager, JobSettings
from cloud_backend.spark.control.jobs import JobDirectory
from cloud_backend.spark.rollback.roll_back import roll_back
from resurge import col
from shared.batch import Batch
from shared.identity import DeviceId, device_id, edge_id
from shared.moves import PREVIEW, Move, MoveAnswer, MovePreview, MoveRequest
from shared.plan.encoding import encode_plan
from shared.plan.graph import Plan
from shared.spool.disk import PosixDisk
from shared.wire import columns
from shared.wire.fleet_status import (
    FleetNodeStatus,
    FleetQueryStatus,
    FleetStatus,
    PlacementStatus,
    RegionEvent,
    RegionStatus,
)
from shared.wire.frame import encode
from shared.wire.messages import Data, Declare, Frontier, LostRange
from shared.wire.status import AdviceStatus, DeviceStatus
from tests.user_interface.browser import TOKEN

SECOND_US = 1_000_000
NOW_US = 1_794_817_500 * SECOND_US  # a fixed morning, 08:25 UTC
DAY_S = 24 * 3600
STEP_S = 600  # between two batches of a phone
POLL_S = 60  # between two exchanges
TRAIL_S = 2400  # the map's trails have a batch a minute
NEAR_S = 300  # the last minutes have a batch every few seconds
NEAR_STEP_S = 5
SETTINGS = JobSettings(epoch_s=1.0, balance=False)


CONTRACT = rs.limited_loss(0.95, delay="30m")


def program() -> Plan:
    """Kilometres of each phone, the cells of the town by how busy they are, and where everybody was last."""
    up = rs.sensor("gps", every="5s").where(col.accuracy < 50).sync("gps", batch=60, within="60s", contract=CONTRACT)
    km = up.key_by("device").tumbling("5m").aggregate(km=rs.path_km("lat", "lon"), points=rs.count())
    last = up.key_by("device").tumbling("10m").aggregate(lat=rs.last("lat"), lon=rs.last("lon"), speed=rs.mean("speed"))
    cell = up.extend(cell=(rs.floor(col.lat * 100) * 1000 + rs.floor(col.lon * 100)).cast("int64"))
    busy = cell.key_by("cell").tumbling("10m").aggregate(readings=rs.count(), speed=rs.mean("speed"))
    return rs.plan_of(
        km.sync_back("my_trips"), last.sync_back("last_place"), busy.subscribe("busy_cells"), name="morning", version=7
    )


@dataclass
class PhoneOfDay:
    name: str
    lane: str
    battery: float
    charging: bool = False
    away_s: int = 0  # out of contact since this long before now
    outages: tuple[tuple[float, float], ...] = ()  # hours before now: from, to; what was recorded came later
    ledgered: tuple[tuple[float, int], ...] = ()  # hours before now, elements
    revoked: bool = False
    next_seq: int = 0
    memory: columns.Cache = field(default_factory=columns.Cache)

    @property
    def key(self) -> bytes:
        return self.name.encode().ljust(32, b".")

    @property
    def device(self) -> DeviceId:
        return device_id(self.key)


ASKED_ID = "5eed5eed5eed5eed"  # of a dry run that somebody asked for


def shared_queries(now_us: int, ids: dict[str, str]) -> FleetStatus:
    """What van-2 says of the fleet that it coordinates: a bus drove out of reach, and what it ran went on elsewhere."""

    def ago(seconds: float) -> int:
        return now_us - round(seconds * SECOND_US)

    def node(name: str, silent_us: int | None = None) -> FleetNodeStatus:
        return FleetNodeStatus(name, ids.get(name, hashlib.md5(name.encode()).hexdigest()), silent_us, 8)

    return FleetStatus(
        9,
        (node("van-2"), node("tram-07"), node("tram-11"), node("bus-12"), node("depot"), node("stop-4"), node("kiosk", ago(1510))),
        (
            FleetQueryStatus("street-noise", "ecoc", 500, ("tram-07", "tram-11"), "van-2"),
            FleetQueryStatus("crowding", "ecoc-region", 200, ("bus-12",), "van-2"),
        ),
        (
            PlacementStatus("street-noise", "band", 3, ("bus-12",), ("depot",), "running", "", 0, 206_000, 5_310, ago(41), (), True),
            PlacementStatus("street-noise", "level", 2, ("depot",), ("bus-12",), "running", "", 0, 205_500, 18_240, ago(38), ("band",)),
            PlacementStatus("street-noise", "loudest", 1, ("van-2",), ("depot",), "running", "", 0, 4_110, 2_120, ago(96), ("level",), False, True),
            PlacementStatus("crowding", "doors", 1, ("bus-12",), ("van-2", "depot", "tram-07", "tram-11"), "running", "", 0, 17_600, 940, ago(12), (), True),
            PlacementStatus("crowding", "people", 4, ("depot",), ("van-2", "bus-12", "tram-07", "tram-11"), "failed",
                            "ValueError: a door that nobody knows: 'middle left'", 0, 17_000, 7_900, ago(205), ("doors",), False, True),
        ),
        (
            Move(ago(5_320), "street-noise", "band", 2, ("tram-11",), ("kiosk",), "tram-11 is silent"),
            Move(ago(1_500), "street-noise", "band", 3, ("kiosk",), ("bus-12",), "kiosk is silent"),
            Move(ago(1_500), "street-noise", "level", 2, ("kiosk",), ("depot",), "kiosk is silent"),
            Move(ago(152), "crowding", "people", 2, ("bus-12",), ("bus-12",), "'people' failed on bus-12: ValueError: a door that nobody knows: 'middle left'"),
            Move(ago(150), "crowding", "people", 3, ("bus-12",), ("depot",), "'people' failed on bus-12: ValueError: a door that nobody knows: 'middle left'"),
            Move(ago(21), "crowding", "people", 4, ("depot",), ("depot",), "'people' failed on depot: ValueError: a door that nobody knows: 'middle left'"),
        ),
        asked=(
            MoveAnswer(
                MoveRequest("street-noise", "level", "tram-07", "depot", True, ASKED_ID), PREVIEW,
                preview=MovePreview(("depot",), ("tram-07",), ("level",), 0.9, 18_240, 2, 6, 1, 8, 1, 8),
            ),
        ),
        links=(
            ("tram-07", "bus-12", "wifi"), ("tram-11", "tram-07", "wifi"), ("tram-07", "kiosk", "wifi"), ("bus-12", "depot", "wifi"),
            ("depot", "van-2", "wired"), ("tram-11", "stop-4", "bluetooth"), ("stop-4", "bus-12", "wifi"),
        ),
        ways=(("street-noise", "tram-11", ("stop-4",)),),
        regions=(
            RegionStatus("crowding", "checkpointing", 3, ((47.3702, 8.5391),), 60.0,
                         (("bus-12", "hosting"), ("depot", "hosting"), ("tram-07", "idle"), ("tram-11", "idle"), ("van-2", "idle")), 41, ago(214)),
            RegionStatus("platform-9", "bypassed", 3, ((47.3769, 8.5646),), 45.0, (("stop-4", "idle"), ("tram-02", "dwelling")), 0, None, ("crowding",)),
            RegionStatus("bridge", "running", 2, ((47.3698, 8.5902),), 80.0, (("tram-07", "hosting"), ("kiosk", "leaving"), ("van-2", "idle")), 17, ago(95),
                         ("platform-9",)),
        ),
        events=(
            *(RegionEvent(ago(3_400 - 300 * number), "crowding", "checkpoint", f"cut {31 + number} is complete") for number in range(5)),
            RegionEvent(ago(2_950), "platform-9", "start", "begins with 3 members"),
            RegionEvent(ago(2_610), "platform-9", "checkpoint", "cut 1 is complete"),
            RegionEvent(ago(2_100), "bridge", "start", "begins with 4 members"),
            RegionEvent(ago(1_790), "bridge", "checkpoint", "cut 16 is complete"),
            RegionEvent(ago(1_512), "crowding", "failure", "kiosk does not answer any more"),
            RegionEvent(ago(1_511), "crowding", "failure", "kiosk is silent: doors, people begin again"),
            RegionEvent(ago(1_490), "platform-9", "departure", "tram-02 has left"),
            RegionEvent(ago(1_480), "platform-9", "bypass", "stops: too few members are left (1)"),
            *(RegionEvent(ago(1_200 - 300 * number), "crowding", "checkpoint", f"cut {37 + number} is complete") for number in range(4)),
            RegionEvent(ago(820), "bridge", "departure", "tram-02 leaves the region: people goes on at tram-07"),
            RegionEvent(ago(95), "bridge", "checkpoint", "cut 17 is complete"),
        ),
    )  # fmt: skip


def fleet() -> list[PhoneOfDay]:
    return [
        PhoneOfDay("tram-07", "cellular", 0.81, outages=((9.2, 8.1),)),
        PhoneOfDay("tram-11", "cellular", 0.64),
        PhoneOfDay("bus-12", "wifi", 0.92, charging=True, outages=((20.5, 19.2), (3.4, 3.1))),
        PhoneOfDay("bus-30", "cellular", 0.12, ledgered=((5.5, 240),)),
        PhoneOfDay("bicycle-3", "cellular", 0.47, away_s=2400, outages=((14.6, 13.9),)),
        PhoneOfDay("van-2", "wifi", 0.73, outages=((12.0, 6.5),), ledgered=((6.4, 1180),)),
        PhoneOfDay("old-tablet", "wifi", 0.55, away_s=9 * 3600, revoked=True),
    ]


@dataclass
class Morning:
    sources: Sources
    app: FastAPI
    phones: list[PhoneOfDay]
    manager: JobManager | None = None

    def close(self) -> None:
        self.sources.close()
        self.sources.log.close()
        self.sources.roster.close()
        self.sources.results.close()


def build(directory: Path, *, now_us: int = NOW_US, hours: float = 24.0) -> Morning:
    log = Log.open(PosixDisk(directory / "log"))
    results = Results(directory / "results.sqlite")
    phones = fleet()
    roster = _roster(directory / "home" / "roster.sqlite", phones, now_us)
    plan = program()
    (directory / "plan.bin").write_bytes(encode_plan(plan))
    store = directory / "spark"
    manager = JobManager(
        directory / "log", store, plan, results=results, runner=LocalRunner(), settings=SETTINGS,
        clock=lambda: now_us / 1e6,
    )  # fmt: skip
    _write_day(log, phones, plan, now_us, hours, manager)
    sources = _sources(directory, log, results, roster, now_us)
    _mishaps(sources, store, manager, now_us)
    shared = shared_queries(now_us, {phone.name: phone.device.hex() for phone in phones})
    for phone in phones:
        _tell(roster, phone, now_us, shared if phone.name == "van-2" else None)
    sources.history.follow()
    sources.contracts.follow(now_us, seconds_max=60)
    return Morning(sources, app_of(sources), phones, manager)


def build_empty(directory: Path, *, now_us: int = NOW_US) -> Morning:
    """A gateway nobody has paired with yet, and beside which nothing runs."""
    (directory / "home").mkdir(parents=True)
    sources = _sources(
        directory, Log.open(PosixDisk(directory / "log")), Results(directory / "results.sqlite"),
        Roster(directory / "home" / "roster.sqlite"), now_us, jobs=False,
    )  # fmt: skip
    return Morning(sources, app_of(sources), [])


def app_of(sources: Sources) -> FastAPI:
    app = FastAPI()
    http_problems.install(app)
    install(app, sources.access)
    install_refusals(app)
    app.include_router(signin_router())
    app.include_router(pages_router(sources))
    return app


# -- what is behind it --------------------------------------------------------------------------------------------


def _sources(directory: Path, log: Log, results: Results, roster: Roster, now_us: int, *, jobs: bool = True) -> Sources:
    home = directory / "home"
    write_address(home, host="127.0.0.1", port=8750, pin=b"", key=bytes(range(32)), pid=1)
    further = JobDirectory(directory / "jobs")

    def clock_us() -> int:
        return now_us

    stores = {"main": directory / "spark"} if jobs else {}
    return Sources(
        home=home, log=log, roster=roster, results=results, access=Access(home, token=TOKEN, clock_us=clock_us),
        history=History(log), plan=directory / "plan.bin" if jobs else None,
        stores=lambda: stores | {name: further.store(name) for name in further.names()},
        queries=queries.Queries(home / queries.FILE), alerts=alerts.Alerts(home / alerts.FILE), followers=followers.Followers(home / followers.FILE),
        jobs=further if jobs else None, clock_us=clock_us, version="0.1.0",
        contracts=_audits(log, roster, directory / "plan.bin" if jobs else None, results, now_us),
    )  # fmt: skip


def _audits(log: Log, roster: Roster, plan: Path | None, results: Results, now_us: int) -> Audits:
    def devices(after: int) -> tuple[int, list[Device]]:
        newest, changed = roster.changed(after)
        return newest, [
            Device(entry.device.hex(), entry.incarnation, entry.enrolled_us, revoked=entry.revoked_us is not None)
            for entry in changed
        ]

    return Audits(
        log, None, plan=lambda: program_at(plan), devices=devices, sign=lambda message: hashlib.sha512(message).digest(),
        aftermath=lambda: Aftermath({}, results.corrections()), begin_us=now_us - DAY_S * SECOND_US,
    )  # fmt: skip


def _roster(path: Path, phones: list[PhoneOfDay], now_us: int) -> Roster:
    roster = Roster(path)
    for phone in phones:
        enrolled_us = now_us - DAY_S * SECOND_US - 3_000_000_000
        roster.enrol(roster.new_code(enrolled_us), phone.key, phone.name, enrolled_us)
    return roster


def _tell(roster: Roster, phone: PhoneOfDay, now_us: int, shared: FleetStatus | None) -> None:
    """What the phone said of itself with its last exchange."""
    waiting = 380 if phone.away_s else random.Random(phone.name).randrange(4)
    status = DeviceStatus(
        fleet=shared, lane=phone.lane, produced=phone.next_seq + waiting, incarnation=1, spool_bytes=180_000 + 2_400 * waiting,
        spool_capacity_bytes=8_000_000, plan=7, version="0.1.0", battery=round(100 * phone.battery),
        charging=phone.charging, full_in_s=5400.0 if phone.name == "bicycle-3" else None, poll_s=30.0,
        advice=AdviceStatus(640.0, 46, 1900.0, 12_600.0),
        clock_doubt_s=0.02, build="My trips 1.0 (org.example.trips)", operators=("shaking@1", "track@1", "transport_mode@2"),
    )  # fmt: skip
    roster.seen([(phone.device, now_us - max(phone.away_s, 1) * SECOND_US, status)])
    if phone.revoked:
        roster.revoke(phone.device, now_us - 8 * 3600 * SECOND_US)


def _write_day(log: Log, phones: list[PhoneOfDay], plan: Plan, now_us: int, hours: float, manager: JobManager) -> None:
    """A batch every ten minutes of each phone, more often at the end; a backlog comes when an outage ends."""
    (edge,) = plan.edges
    declared = [encode(Declare(p.device, 1, edge_id(edge.name), edge.name, edge.schema).frame()) for p in phones]
    start = -int(hours * 3600)
    log.append([Record(now_us + start * SECOND_US, frame) for frame in declared])
    done = start
    for second in [*range(start + POLL_S, -NEAR_S, POLL_S), *range(-NEAR_S, 1, NEAR_STEP_S)]:
        if second < -TRAIL_S and (second - start) % STEP_S:
            log.append([record for phone in phones for record in _poll(phone, edge, second, now_us)])
            continue
        records = [record for phone in phones for record in _arrivals(phone, edge, done, second, now_us)]
        log.append(records)
        done = second
        if second % 7200 == 0 or (second >= -NEAR_S and second % 60 == 0):
            log.sync()
            manager.drain()
    log.sync()
    manager.drain()


def _poll(phone: PhoneOfDay, edge, second: int, now_us: int) -> list[Record]:
    """An exchange without a batch: a frontier says that the phone is there."""
    lately = range(second - STEP_S, second + 1, POLL_S)
    if not phone.next_seq or any(_is_away(phone, each) for each in lately):
        return []  # after an outage the backlog comes first
    at_us = now_us + second * SECOND_US
    said = Frontier(phone.device, 1, edge_id(edge.name), phone.next_seq, at_us - STEP_S * SECOND_US)
    return [Record(at_us + 250_000, encode(said.frame()))]


def _arrivals(phone: PhoneOfDay, edge, done: int, second: int, now_us: int) -> list[Record]:
    """What arrives at this second: everything recorded since the phone was last heard."""
    if _is_away(phone, second):
        return []
    since = done
    while _is_away(phone, since) and since > -DAY_S:
        since -= STEP_S
    received_us = now_us + second * SECOND_US + 250_000
    frames = [
        encode(LostRange(phone.device, 1, edge_id(edge.name), *_numbered(phone, count), "evicted").frame())
        for ago, count in phone.ledgered
        if since < -ago * 3600 <= second
    ]
    frames += [
        encode(_batch(phone, edge, at, min(at + STEP_S, second), now_us).frame()) for at in range(since, second, STEP_S)
    ]
    return [Record(received_us, frame) for frame in frames]


def _is_away(phone: PhoneOfDay, second: int) -> bool:
    return -second < phone.away_s or any(start * 3600 > -second > end * 3600 for start, end in phone.outages)


def _numbered(phone: PhoneOfDay, count: int) -> tuple[int, int]:
    lo = phone.next_seq
    phone.next_seq += count
    return lo, phone.next_seq


def _batch(phone: PhoneOfDay, edge, start: int, end: int, now_us: int) -> Data:
    times = list(range(start, end, 5)) or [start]
    chance = random.Random(f"{phone.name} {start}")
    places = [_place(phone, second) for second in times]
    content = {
        "lat": [round(lat, 6) for lat, _ in places], "lon": [round(lon, 6) for _, lon in places],
        "altitude": [round(8 + chance.random(), 1) for _ in times], "accuracy": [round(4 + 9 * chance.random(), 1) for _ in times],
        "speed": [round(6 + 5 * math.sin(second / 700), 2) for second in times], "bearing": [90.0 for _ in times],
    }  # fmt: skip
    lo, hi = _numbered(phone, len(times))
    frontier_us = now_us + end * SECOND_US
    batch = Batch.of(
        edge.schema, content, [now_us + second * SECOND_US for second in times], lo=lo, frontier_us=frontier_us
    )
    codec, payload = columns.encode(batch, cache=phone.memory)
    return Data(
        phone.device, 1, edge_id(edge.name), lo, hi, len(times), edge.schema.id, 1, codec, payload, frontier_us
    )  # fmt: skip


def _place(phone: PhoneOfDay, second: int) -> tuple[float, float]:
    """Somewhere around Leipzig, going round a line of its own."""
    chance = random.Random(phone.name)
    middle = 51.3397 + 0.03 * (chance.random() - 0.5), 12.3731 + 0.09 * (chance.random() - 0.5)
    around = second / (420 + 260 * chance.random()) + chance.random() * 6
    return (
        middle[0] + 0.011 * math.sin(around) + 0.003 * math.sin(3 * around),
        middle[1] + 0.028 * math.cos(around) + 0.005 * math.cos(2 * around),
    )


LOST_TASK = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "cloud_backend/spark/task/run.py", line 88, in run
    rows = vertex.push(port, rows)
ZeroDivisionError: float division by zero
    at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
    at org.apache.spark.scheduler.Task.run(Task.scala:147)"""


FAILED_TICK = """Traceback (most recent call last):
  File "cloud_backend/gateway/gateway.py", line 152, in _tick
    self._trim()
OSError: [Errno 5] Input/output error: 'stable.json'"""


def _log_lines(home: Path, store: Path, now_us: int) -> None:
    """What gateway and Spark said of this day."""
    gateway, spark = "resurge.gateway", "resurge.spark"
    said = [
        (86_390.0, gateway, "warning", "cut 1432 bytes of a torn write off the log", ""),
        (86_389.8, gateway, "info", "listens on 127.0.0.1:8750", ""),
        (86_376.2, spark, "info", "drives the job in term 1, from epoch 0 on", ""),
        (28_800.0, "resurge.audit", "info", "ingrid device-revoked old-tablet", ""),
        (
            19_640.5,
            "org.apache.spark.scheduler.TaskSetManager",
            "warning",
            "Lost task 0.0 in stage 1841.0 (TID 3682)",
            LOST_TASK,
        ),
        (19_640.1, spark, "warning", "range busy_cells/0-1 failed in epoch 371 (died)", ""),
        (5_400.0, "resurge.audit", "info", "ingrid query-submitted slow-buses", ""),
        (1_260.0, "resurge.audit", "info", "ingrid job-rolled-back main", ""),
        (612.4, gateway, "error", "a tick failed; the next one tries again", FAILED_TICK),
    ]
    for ago_s, logger, level, message, error in said:
        ours = logger in (gateway, "resurge.audit")
        line = process_log.Line(
            now_us - round(ago_s * SECOND_US), level, logger, 2104 if ours else 2204, message, error
        )
        process_log.keep(home if ours else store, line)


def _mishaps(sources: Sources, store: Path, manager: JobManager, now_us: int) -> None:
    """A rollback that has run again, a query, alerts, people who did things."""
    _log_lines(sources.home, store, now_us)
    roll_back(store, "my_trips", manager.manifest.last_cut - 3)
    manager.drain()
    manager.write_status()
    # Who holds the lease is a matter of the real clock; in a picture somebody always does.
    (store / "lease.json").write_text(json.dumps({"owner": manager.owner, "until": 4e9}))
    sources.queries.put(
        Query("slow-buses", "sql", "SELECT device, avg(speed) AS speed FROM gps GROUP BY device", "ingrid", now_us - 5_400_000_000, ("slow_buses",))
    )  # fmt: skip
    sources.alerts.update(
        [Condition("gap", "bicycle-3", "bicycle-3 was not heard for more than 900 s")], now_us - 1_500_000_000
    )
    for name, role in (("ingrid", "operator"), ("olav", "viewer"), ("solveig", "admin")):
        sources.access.people.put(name, role, now_us - 90_000_000_000)
    for url in ("https://chat.example.org/hooks/b7f2", "https://pager.example.org/resurge"):
        sources.alerts.test_webhook(sources.alerts.add_webhook(url, now_us - 80_000_000_000).number, now_us)
    sources.alerts.add_result_rule(rule_of("far", "my_trips", "km > 30", during="2h", phones=["own"]), 0)
    first, second = sources.alerts.due(now_us)
    sources.alerts.delivered(first, now_us - 1_500_000_000)
    sources.alerts.failed(second, "the receiver answered 503", now_us - 40_000_000)
    said = sources.access.audit_log
    for ago_s, person, role, action, subject, detail in [
        (86_000, "gateway", "admin", "signed-in-by-link", "", ""),
        (85_200, "ingrid", "operator", "pairing-link-made", "", ""),
        (28_800, "ingrid", "operator", "device-revoked", "old-tablet", ""),
        (5_400, "ingrid", "operator", "query-submitted", "slow-buses", ""),
        (
            1_260,
            "ingrid",
            "operator",
            "job-rolled-back",
            "main",
            f"vertex my_trips to epoch {manager.manifest.last_cut - 3}",
        ),
        (300, "olav", "viewer", "results-exported", "my_trips", "csv"),
    ]:
        said.append(now_us - ago_s * SECOND_US, person=person, role=role, action=action, subject=subject, detail=detail)
