"""The gateway as one object: log, roster, sessions, receiver, appender, and the few things that happen by the clock.

`open` reads what the disk holds; `run` is the background task: it ends the sessions of revoked devices, notes who was
seen, notices new plans and results, and trims what Spark has made stable. Nothing in it is needed for correctness of
an exchange, so a late tick costs freshness only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from cloud_backend.coordinator import fleets
from cloud_backend.coordinator.device_operators import build_with
from cloud_backend.coordinator.fleets import FleetStore
from cloud_backend.coordinator.roster import Roster
from cloud_backend.database import DatabaseLost, Served, keep_url
from cloud_backend.gateway.appender import Appender
from cloud_backend.gateway.connections import Connections, raise_file_limit
from cloud_backend.gateway.downlink import GatewayDownlink
from cloud_backend.gateway.faults import Faults
from cloud_backend.gateway.fleet import GatewayFleet, LogAndFleet
from cloud_backend.gateway.ingest import Ingest
from cloud_backend.gateway.keys import Keys, load_keys
from cloud_backend.gateway.live_readings import LiveReadings
from cloud_backend.gateway.metrics import Metrics
from cloud_backend.gateway.rate_limits import Buckets
from cloud_backend.gateway.session_ids import SessionIds
from cloud_backend.gateway.settings import SHARED, Settings
from cloud_backend.gateway.shares import Shares, Solitude
from cloud_backend.gateway.tenure import Tenure, require_lock
from cloud_backend.gateway.waits import Waits
from cloud_backend.log.account import Conservation, DeviceReports
from cloud_backend.log.heads import Heads, read_heads
from cloud_backend.log.kafka.copy import LogCopy
from cloud_backend.log.kafka.log import KafkaLog
from cloud_backend.log.kafka.shard import Fenced
from cloud_backend.log.kafka.topics import Unreachable
from cloud_backend.log.log import Log
from cloud_backend.log.partitions import ONLY, Place, place_in
from cloud_backend.log.segment_copies import open_disk
from cloud_backend.results.store import Results
from shared.errors import BrokenInvariant, UsageError
from shared.identity import DeviceId
from shared.sync.exchange import PassReceived, ResultsAcknowledged, StatusReceived
from shared.sync.receiver import ExchangeApplied, Receiver
from shared.sync.session import GatewaySessions
from shared.wire.status import DeviceStatus

TICK_S = 0.5  # revocation must reach open sessions within 5 s
NEWS_S = 0.2  # a result should be on a phone that waits for it within two seconds
TRIM_EVERY_S = 30.0
HEAD_EVERY_S = 60.0
COPY_S = 1.0  # between two looks at a log in Kafka, for the copy
HINTS_EVERY_S = 5.0  # where the log is in Kafka: each look asks brokers
RENEW_EVERY_S = 2.0  # of a lease of ten
BUILDS_EVERY_S = 10.0
UNPASSED = "peers-unpassed"
QUIET_TICKS = 10  # without a record, before the account is checked: nobody should have to wait for that


def now_us() -> int:
    return time.time_ns() // 1000


class Gateway:
    def __init__(self, settings: Settings, *, on_broken: Callable[[Exception], None] | None = None) -> None:
        self.settings = settings
        settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._home_lock = require_lock(settings.home)
        self.keys: Keys = load_keys(settings.home)
        self.metrics = Metrics()
        self.faults = Faults(self.metrics)
        self.connections = Connections(raise_file_limit())
        self.enrolment_failures = Buckets(settings.failure_rate)  # by address
        if settings.database is not None:
            keep_url(settings.home, settings.database, SHARED)
        self.roster = Roster(settings.roster_path)
        session_ids = SessionIds(self.keys)
        self.log, self._place = self._open_log(session_ids)
        self.shares = self._place if isinstance(self._place, Shares) else None  # where this is one of several gateways
        self._disk_log = self.log if isinstance(self.log, Log) else None
        self.copy: LogCopy | None = None  # of a log in Kafka, where somebody looks at it here
        if settings.log is not None and settings.has_dashboard:
            self.copy = LogCopy(settings.home, settings.log, segment_bytes=settings.segment_bytes)
        self.results = None if settings.results is None else Results(settings.results)
        self.quarantined = 0  # elements Spark could not use after delivery, as it last said
        self.fleet = GatewayFleet(
            FleetStore(settings.home / fleets.FILE), self.keys.sign, self.roster, clock_us=now_us
        )  # fmt: skip
        self.downlink = GatewayDownlink(self.keys, results=self.results, plan=settings.plan, fleet=self.fleet)
        self.downlink.refresh()
        self.downlink.follow_groups(self.roster.groups)
        make_id = session_ids.make if self.shares is not None else None
        self.sessions = GatewaySessions(self.keys, self.roster, make_id=make_id)
        receiver = Receiver(
            LogAndFleet(self.log, self.fleet), self.sessions, self.downlink, self.keys, passed=self.fleet.passed
        )
        self.broken: Exception | None = None
        self.deposed = False  # another process has the lease of this home
        self._tenure = Tenure(settings.home)
        self._tenure.begin()
        self._renewed_at = time.monotonic()
        self._on_broken = on_broken
        self.appender = Appender(
            self.log, receiver, reserve_bytes=settings.reserve_bytes, on_events=self._take_events,
            on_group=self.metrics.group, on_broken=self._break,
        )  # fmt: skip
        self.ingest = Ingest(self.appender, self.sessions, settings, self.metrics, self.faults)
        self.waits = Waits(
            self.sessions, self.downlink, self.ingest, waits_max=self.connections.connections_max // 2
        )  # fmt: skip
        self._receiver = receiver
        if self.shares is not None:
            self.shares.serve(
                self.appender, receiver, self.sessions, self.ingest, self.waits, on_released=self._released,
                on_broken=self._break,
            )  # fmt: skip
        self.live = LiveReadings()  # of devices that catch up, for pages only
        self._seen: dict[DeviceId, tuple[int, DeviceStatus | None]] = {}
        self._roster_changes = -1  # so that the first tick reads what was configured before
        self._trimmed_at = time.monotonic()
        self._hints_read_at = 0.0
        self._heads = Heads(settings.home, self.keys.sign)
        self._head_kept_at = 0.0
        self._builds_read_at = -BUILDS_EVERY_S
        self._conservation = None
        if self._disk_log is not None:
            self._check_tail(self._disk_log)
            self._conservation = Conservation(self._disk_log)
        self._reports = DeviceReports()
        self._quiet_at, self._quiet_ticks = self.log.durable_end, 0

    async def run(self) -> None:
        """The background tasks; end when cancelled, after the tick that is under way."""
        if self._place is not None:
            self._place.start()
        async with asyncio.TaskGroup() as both:  # waits for both when cancelled
            both.create_task(self._repeat(self.tick, TICK_S))
            both.create_task(self._repeat(self.tell_news, NEWS_S))
            if self.copy is not None:
                both.create_task(self._repeat(partial(self._follow_log, self.copy), COPY_S))

    async def _repeat(self, tick: Callable[[], Coroutine[None, None, None]], every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            try:
                await _to_its_end(tick())
            except Exception:  # the edge of a task: without it one busy database would end revocation for good
                logging.getLogger("resurge.gateway").exception("a tick failed; the next one tries again")
                self.metrics.ticks_failed.inc()

    async def _follow_log(self, copy: LogCopy) -> None:
        with contextlib.suppress(Unreachable):  # at the next look, if brokers answer by then
            end = time.monotonic() + COPY_S  # whoever stops this waits for it
            while not await asyncio.to_thread(copy.follow) and time.monotonic() < end:
                pass  # one slice after the other: more may come than one in each look

    async def tell_news(self) -> None:
        """Who waits hears that a result came, soon after it was published."""
        self.waits.news(await asyncio.to_thread(self.downlink.follow_results))
        self.waits.expire()

    async def tick(self) -> None:
        await asyncio.to_thread(self._renew)
        changes = self.roster.changes()
        if changes != self._roster_changes:
            for device in self.roster.revoked():
                self.sessions.revoke(device)
            self.live.forget(self.roster.revoked())
            self.downlink.device_rates = self.device_rates()
            await asyncio.to_thread(self.downlink.follow_groups, self.roster.groups)
            self._roster_changes = changes  # everything was taken from it: a tick that fails is tried again
        self._receiver.wake(time.monotonic())
        await asyncio.to_thread(self._flush_seen)
        await asyncio.to_thread(self.downlink.refresh)
        await asyncio.to_thread(self.fleet.tick)
        self.metrics.coordinating(self.fleet.control(), self.fleet.passing.passed)
        await self._look_for_build()
        self.metrics.sessions.set(len(self.sessions))
        self.metrics.connections.set(len(self.connections))
        self.metrics.waits.set(len(self.waits))
        self.metrics.log_end.set(self.log.durable_end)
        if self._disk_log is not None and time.monotonic() - self._head_kept_at > HEAD_EVERY_S:
            self._head_kept_at = time.monotonic()
            await asyncio.to_thread(self._heads.keep, *self._disk_log.head, now_us())
        await self._check_conservation()
        await self._follow_job()

    def _renew(self) -> None:
        if self.deposed or time.monotonic() - self._renewed_at < RENEW_EVERY_S:
            return
        self._renewed_at = time.monotonic()
        if not self._tenure.goes_on():
            self.deposed = True
            self.roster.audit(now_us(), "gateway-deposed")
            if self._on_broken is not None:
                self._on_broken(
                    UsageError("another gateway took over this home while this one was paused", code="gateway-deposed")
                )

    async def _look_for_build(self) -> None:
        """Where the plan needs operator types of its own: which app of those that devices reported has them?"""
        if self.downlink.needs and time.monotonic() - self._builds_read_at > BUILDS_EVERY_S:
            self._builds_read_at = time.monotonic()
            entries = await asyncio.to_thread(self.roster.entries)
            self.downlink.able_build = build_with(entries, self.downlink.needs)

    def _check_tail(self, log: Log) -> None:
        """A log that ends before an end this gateway signed has lost its tail. It goes on, and somebody must know."""
        reached = max((head.offset for head in read_heads(self.settings.home)), default=0)
        if reached > log.durable_end:
            text = f"the log ends at offset {log.durable_end}, this gateway signed that it reached {reached}"
            logging.getLogger("resurge.gateway").error("%s: its tail was cut off; restore it from a copy", text)
            self.roster.audit(now_us(), "log-cut", detail=text)

    def device_rates(self) -> dict[DeviceId, float]:
        """The share of its sampling rate that an operator wants of a device, where that is less than all of it."""
        rates = {device: settings.get("sampling_rate") for device, settings in self.roster.settings().items()}
        return {device: rate for device, rate in rates.items() if isinstance(rate, float) and 0 < rate < 1}

    async def _follow_job(self) -> None:
        """Trim what the Spark job will not read again, and ask devices for less while it cannot keep up."""
        if isinstance(self.log, KafkaLog):
            with contextlib.suppress(Unreachable):  # at the next tick, if brokers answer by then
                await asyncio.to_thread(self._follow_job_in_kafka, self.log)
            return
        stable = self.follow_hints().get(ONLY)
        if stable is not None and time.monotonic() - self._trimmed_at > TRIM_EVERY_S:
            self._trimmed_at = time.monotonic()
            log = self.log
            await asyncio.to_thread(log.keep_trimmed_index, stable)  # the long part, beside the exchanges
            await self.appender.run_when_idle(lambda: log.trim(stable))

    def _follow_job_in_kafka(self, log: KafkaLog) -> None:
        if time.monotonic() - self._hints_read_at < HINTS_EVERY_S or self.appender.unavailable:
            return
        self._hints_read_at = time.monotonic()
        stable = self.follow_hints()
        if stable and time.monotonic() - self._trimmed_at > TRIM_EVERY_S:
            self._trimmed_at = time.monotonic()
            log.trim(stable)
            if self.copy is not None:
                self.copy.trim(stable)

    def follow_hints(self) -> dict[str, int]:
        """Ask devices for the rate the job can take; returns the place below which it needs nothing, if it says so."""
        offsets = _read(self.settings.stable)
        stable = place_in(offsets)
        read = place_in(offsets["read"]) if "read" in offsets else stable
        self.quarantined = _integer(offsets.get("quarantined")) or 0
        unread = self.unread(read) if read else 0
        self.downlink.press(unread, self.settings.backlog_bytes_max, _read(self.settings.hints).get("sampling_rate"))
        return stable

    def unread(self, read: Place) -> int:
        """About how many bytes a job has not read that has come to this place."""
        return self.log.unread(read) if isinstance(self.log, KafkaLog) else self.log.durable_end - read[ONLY]

    async def _check_conservation(self) -> None:
        """When nothing was logged for a while: does everything add up? If not, somebody must know at once."""
        quiet, self._quiet_at = self._quiet_at == self.log.durable_end, self.log.durable_end
        self._quiet_ticks = self._quiet_ticks + 1 if quiet else 0
        recount = self._conservation
        is_counted = recount is None or recount.is_done
        if self._quiet_ticks < QUIET_TICKS or (is_counted and not self._reports.news):
            return
        found: list[str] = []
        if recount is not None and not recount.is_done:
            await self.appender.run_when_idle(lambda: found.extend(recount.check()))
        if recount is None or recount.is_done:
            found += self._reports.contradictions(self.log)
            self.metrics.spooled.set(self._reports.spooled(self.log))
        for text in found:
            logging.getLogger("resurge.gateway").error("the account does not add up: %s", text)
            self.roster.audit(now_us(), "account-violated", detail=text)
        self.metrics.violations.inc(len(found))

    @property
    def disk_log(self) -> Log:
        """The log on this machine's disk, or the copy of one in Kafka; the dashboard reads no other."""
        found = self._disk_log if self.copy is None else self.copy.log
        if found is None:
            raise BrokenInvariant("nothing here keeps a copy of the log in Kafka", code="dashboard-log")
        return found

    def told_us(self) -> int | None:
        """The time up to which all that was acknowledged is in that log; None before it is known."""
        return now_us() if self.copy is None else self.copy.as_of_us

    async def close(self) -> None:
        """Finish what was received, seal the log, let the home go."""
        if self._place is not None:
            await self._place.close()
        await self.appender.close()
        if self._disk_log is not None:
            self._heads.keep(*self._disk_log.head, now_us())
        with suppress(DatabaseLost):  # who was seen last is worth no failure
            self._flush_seen()
        self.fleet.close()
        self._tenure.end()
        if self.copy is not None:
            await asyncio.to_thread(self.copy.close)
        self.roster.close()
        if self.results is not None:
            self.results.close()
        os.close(self._home_lock)

    def _take_events(self, events: list[object]) -> None:
        """What exchanges brought beside batches. One that fails must not stop the log."""
        at_us = now_us()
        for event in events:
            try:
                self._take_event(event, at_us)
            except Exception as error:
                self.faults.note(error, getattr(event, "device", None), "an exchange's report")

    def _take_event(self, event: object, at_us: int) -> None:
        if isinstance(event, StatusReceived):
            self.live.heard(event.device, event.status.live, at_us)
            event = replace(event, status=replace(event.status, live=()))  # nobody else keeps them
        self.fleet.notice(event)
        if isinstance(event, ExchangeApplied):
            self.metrics.applied(event)
            self._reports.exchange(event.device, event.incarnation, event.elements)
            if event.device not in self._seen:
                self._seen[event.device] = (at_us, None)
        elif isinstance(event, StatusReceived):
            self.downlink.requests.heard(event.device, event.status)
            if event.status.produced is not None:
                self._reports.status(event.device, event.incarnation, event.status.produced)
            self._seen[event.device] = (at_us, event.status)
        elif isinstance(event, PassReceived):
            told = self.fleet.pass_on(event.message)
            if told is None:
                self.metrics.refused(UNPASSED)
            else:
                self.waits.news([told])
        elif isinstance(event, ResultsAcknowledged):
            self.downlink.acknowledged(event.device, event.through)

    def _flush_seen(self) -> None:
        seen, self._seen = self._seen, {}
        if seen:
            self.roster.seen((device, at_us, status) for device, (at_us, status) in seen.items())

    def _open_log(self, session_ids: SessionIds) -> tuple[Log | KafkaLog, Shares | Solitude | None]:
        """The log, and with one in Kafka this gateway's place among those that write it."""
        settings = self.settings
        if settings.log is None:
            disk = open_disk(settings.log_directory, settings.copies)
            return Log.open(disk, segment_bytes=settings.segment_bytes), None
        if not isinstance(settings.roster_path, Served):
            alone = Solitude(settings.log, self.keys)
            return KafkaLog.open(settings.log), alone
        log, bind = KafkaLog(settings.log), settings.reached_by_gateways
        database = self.roster.identity()
        return log, Shares(log, self.keys, session_ids, self.metrics, database=database, bind=bind)

    @property
    def unavailable(self) -> str | None:
        """The code of why no exchange should be sent here now."""
        return self.appender.unavailable or (None if self.shares is None else self.shares.unavailable)

    def _released(self) -> None:
        """What devices said they have made is compared with the log by whoever owns their partition."""
        self._reports = DeviceReports()

    def _break(self, error: Exception) -> None:
        self.broken = error
        self.deposed = self.deposed or isinstance(error, Fenced)
        if self._on_broken is not None:
            self._on_broken(error)


async def _to_its_end(work: Coroutine[None, None, None]) -> None:
    """Wait for it even when cancelled. A thread cannot be cancelled: abandoned, it would write beside `close`."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _read(path: Path | None) -> dict[str, object]:
    """A file that the job puts in place whole; empty when there is none, and then nothing is trimmed or asked for."""
    if path is None:
        return {}
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
