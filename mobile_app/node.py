"""The node's loop. It only sequences: read sensors, compute, spool, exchange, publish.

    sources -> Computation -> Recorder -> Spool -> Sender -> Courier (a thread) -> link
                                            ^         |
                       receipts trim -------+         +--> results, plans, hints

Everything durable is behind the modules named here; the loop holds nothing that a kill may not take. A plan that
arrives is stored at once and takes over between two turns of the loop, after everything of the old one is spooled.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mobile_app.capture import Capture
from mobile_app.clock import EventClock, boot_id, boot_time_us, open_clock, wall_time_us
from mobile_app.computation import Computation, OperatorFailed
from mobile_app.consent import Consents
from mobile_app.first_contact import FirstContact
from mobile_app.health import Health
from mobile_app.keys import load_keys
from mobile_app.links.courier import Courier
from mobile_app.links.link import HeldLink, Link
from mobile_app.plans import NO_PLAN, Edges, Plans
from mobile_app.policy import pacing_conditions
from mobile_app.readings import Readings
from mobile_app.recorder import Recorder, spool_leftovers
from mobile_app.recordings import Recordings
from mobile_app.results import Results
from mobile_app.sensors.choose import Choice, open_source
from mobile_app.sensors.live import available
from mobile_app.sensors.source import SensorMissing, Source
from mobile_app.settings import Gateway, Settings
from mobile_app.snapshots import Snapshots
from mobile_app.spools import BEHIND, STATE, note_behind, open_spool, spool_cipher
from mobile_app.storage import HomeLock, publish
from mobile_app.upkeep import Decision, Facts, Upkeep
from mobile_app.uplink import Uplink
from mobile_app.view_state import account, node_view, status_for_fleet
from shared.batch import Batch
from shared.errors import UsageError
from shared.identity import device_id, edge_id
from shared.plan.encoding import decode_plan, encode_plan
from shared.plan.graph import Plan
from shared.plan.placement import ON_DEVICE
from shared.plan.wellformed import check_activation
from shared.spool.disk import PosixDisk
from shared.spool.ring import SpoolFull
from shared.spool.statistics import SpoolStatistics
from shared.stream.registry import references
from shared.sync.effects import Disconnected, HintArrived, PlanArrived, ReceiptReceived, Reconnected, Refused
from shared.sync.pacing import Pacing
from shared.sync.sender import Sender
from shared.sync.session import DeviceSession

STATUS_FILE = "status.json"
# Each wake of the processor costs more than the readings it finds, so sensors are read in batches; a compressed run
# has the same number of turns per hour of event time until it meets the lower bounds.
TURN_S = 1.0
TURN_S_MIN = 0.25  # also while somebody watches
KEEP_UP_S = 5.0
PUBLISH_S = 15.0  # whoever asks the running service gets a new view at once
PUBLISH_S_MIN = 1.0
WATCHED_S = 5.0
HINT_LASTS_S = 60.0  # a gateway repeats a hint while it is meant
TRY_MISSING_S = 10.0
TRY_FAILED_S, TRY_FAILED_S_MAX = 60.0, 900.0  # after a plan's code raised; twice as long each time it raises at once
POLL_S = 30.0
EXCHANGE_TIMEOUT_S = 30.0  # more than any link takes to give up


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a node is started with, beside its home."""

    settings: Settings
    gateway: Gateway | None  # None: not enrolled, the node records on its own
    link: Link
    sensors: dict[str, Choice]
    lane: str = "gateway"  # which kind of link it is: gateway, relay, none
    speed: float = 1.0
    plan: Plan | None = None  # from a program file; a newer one from the gateway replaces it
    on_event: Callable[[object], None] | None = None  # disconnection and the like, for the program
    on_output: Callable[[str, Batch], None] | None = None  # rows of local subscriptions
    open_source: Callable[..., Source] | None = None  # instead of the device's own sensors
    attend: Callable[[Node], None] | None = None  # called every turn: what screens ask for
    lock: HomeLock | None = None  # of whoever opens one node after the other here; None: the node takes its own
    on_view: Callable[[dict[str, Any]], None] | None = None  # the view state, whenever it is published


@dataclass(frozen=True, slots=True)
class Failed:
    """A plan whose own code raised. Its computation is gone; the disk is as after a kill at that moment."""

    plan: Plan
    why: str
    again_at: float  # a reading may have been to blame: the next one may be good


class Node:
    """One home, open. `turn` does everything that is due; `run` repeats it until `stop` says so."""

    def __init__(self, home: Path, around: Surroundings) -> None:
        self.home = home
        self.settings = around.settings
        self._around = around
        self._lock = HomeLock(home) if around.lock is None else None
        keys = load_keys(home, around.gateway.key if around.gateway else b"")
        device = device_id(keys.public_key)
        self.device = device.hex()
        self.spool = open_spool(home, device, around.settings, around.gateway)
        cipher = spool_cipher(home)
        self._encrypted = cipher is not None
        self._results = Results(home)
        self._edges = Edges(home)
        self._plans = Plans(home)
        self._snapshots = Snapshots(PosixDisk(home / STATE), cipher)
        newest = self._snapshots.newest()
        self._begun = newest is not None
        self.clock: EventClock = open_clock(
            home, speed=around.speed, not_before_us=None if newest is None else newest.read_until_us
        )
        self.readings = Readings()
        self.consents = Consents(home, named=around.sensors)
        self.capture = Capture(self.readings)
        self.recordings = Recordings(home, device, cipher, loss_window_s=around.settings.loss_window_s)
        self.readings.tap = self.recordings.take
        self.health = Health(home, wall_us=wall_time_us, boot=boot_id())
        self.health.began()
        self.upkeep = Upkeep(
            self.health, self.readings, self._open_sensor, wall_us=wall_time_us, boot_us=boot_time_us
        )  # fmt: skip
        self.decision = Decision()
        contact = FirstContact(home / STATE, {edge: self.spool.head(edge) for edge in self.spool.edges()})
        self.last_refusal = ""
        self.last_refusal_code = ""
        self.last_receipt_us: int | None = None
        plan = self._choose_plan()
        self.sender = Sender(
            self.spool,
            DeviceSession(keys, device, self.spool.incarnation),
            pacing=Pacing(poll_s=max(1.0, POLL_S / around.speed), timeout_s=EXCHANGE_TIMEOUT_S),
            rng=random.Random(),
            edges=self._edges.all(),
            results_through=self._results.through,
            plan_version=NO_PLAN if plan is None else plan.version,
            reaches=contact.reaches,
            now=time.monotonic(),
        )
        self.uplink = Uplink(
            self.sender,
            Courier(HeldLink(around.link, lambda: self.decision.hold)),
            sync_spool=self.spool.sync,
            edges=self._edges,
            plans=self._plans,
            results=self._results,
            contact=contact,
        )
        self.computation: Computation | None = None
        self._recorder: Recorder | None = None
        self._failed: Failed | None = None
        self._try_failed_s = 0.0
        self._adopted_at = 0.0
        self._coming: Plan | None = plan
        self._hints: dict[str, float] = {}
        self._hint_ends: float | None = None
        self._shares: dict[str, float] = {}
        self._next_publish = 0.0
        self._next_keep_up = 0.0
        self._next_try = 0.0
        self._watched_until = 0.0
        self.disconnections = 0
        self._left = False

    # --- plans -----------------------------------------------------------------------------------------------

    @property
    def plan(self) -> Plan | None:
        """What runs here, or would if its code had not failed."""
        if self.computation is not None:
            return self.computation.plan
        return None if self._failed is None else self._failed.plan

    def _choose_plan(self) -> Plan | None:
        """The stored plan, or the program's own unless the stored one is newer."""
        kept = self._plans.load()
        given = self._around.plan
        if given is not None and (kept is None or given.version >= kept[0]):
            self._plans.store(given.version, encode_plan(given))
            return given
        return None if kept is None else self._decode(kept[1])

    def _decode(self, encoded: bytes) -> Plan | None:
        try:
            plan = decode_plan(encoded)
            check_activation(plan, {ON_DEVICE: references()})
            return plan
        except UsageError as error:  # of a newer version, say: what runs goes on
            self.last_refusal = str(error)
            return None

    def _adopt(self, plan: Plan, now: float) -> None:
        """Run this plan from now on; what the old one still held is in the spool when this returns."""
        from_us = self._from_us()
        self._adopted_at = now

        def open_for(sensor: str, every_us: int) -> Source:
            if not self.may_read(plan, sensor):
                raise SensorMissing(f"{sensor!r} waits for its person's consent", code="sensor-consent")
            return self.readings.watch(sensor, self._open_sensor(sensor, every_us), every_us)

        try:
            computation = Computation(
                plan, self.device, open_for, from_us=from_us,
                read_results=self._results.since, results_from=self._results.through + 1,
            )  # fmt: skip
        except UsageError as error:  # it needs an operator that is not installed here: the old plan goes on
            self.last_refusal = str(error)
            return
        try:
            self._spool_everything()
            snapshot = self._snapshots.fitting(lambda name: self.spool.head(edge_id(name)))
            resumed = snapshot is not None and computation.resume(snapshot)
            if snapshot is not None and not resumed:
                spool_leftovers(snapshot, self.sender, from_us, now)
        except SpoolFull:
            computation.close()
            raise
        except OperatorFailed as error:  # its saved state is not for this code
            computation.close()
            self._stop_computing(plan, error)
            return
        recorder = Recorder(
            computation, self.spool, self.sender, self._snapshots,
            loss_window_s=self._around.settings.loss_window_s,
            turn_s=max(TURN_S_MIN, TURN_S / self._around.speed), speed=self._around.speed,
        )  # fmt: skip
        if snapshot is not None and resumed:
            recorder.resume(snapshot)
        if self.computation is not None:
            self.computation.close()
        self.computation, self._recorder, self._failed = computation, recorder, None
        self._shares = {}

    def _stop_computing(self, plan: Plan, error: OperatorFailed) -> None:
        """The plan's own code raised: let go of its sensors and go on without it.

        Nothing of it is saved, because what came out before the failure and the state behind it no longer belong
        together. A kill leaves the same behind, so adopting a plan again, this one or another, goes on from the newest
        snapshot that fits the spool, as a start of the process does.
        """
        if self.computation is not None:
            self.computation.close()
        self.computation = self._recorder = None
        now = time.monotonic()
        soon = now - self._adopted_at <= self._try_failed_s
        self._try_failed_s = min(2 * self._try_failed_s, TRY_FAILED_S_MAX) if soon else TRY_FAILED_S
        self._failed = Failed(plan, error.message, now + self._try_failed_s)
        self._next_keep_up = self._next_publish = 0.0  # say so at once
        if self._around.on_event is not None:
            self._around.on_event(error)

    def _from_us(self) -> int:
        """Where sensors are read from: now, or at the very first start where a recording's beginning was put."""
        return self.clock.now_us() if self._begun else self.clock.anchor.origin_us

    def _open_sensor(self, sensor: str, every_us: int) -> Source:
        return (self._around.open_source or open_source)(
            sensor, self._around.sensors, every_us=every_us,
            origin_us=self.clock.anchor.origin_us, from_us=self._from_us(), event_time=self.clock.at,
        )  # fmt: skip

    def may_read(self, plan: Plan, sensor: str) -> bool:
        """A program that a person started by hand speaks for them; a gateway's plan does not."""
        return plan is self._around.plan or self.consents.of(sensor) is True

    def undecided(self) -> list[str]:
        """Sensors that the plan wants and nobody has allowed or refused."""
        plan = self.plan
        if plan is None or plan is self._around.plan:
            return []
        return sorted(sensor.name for sensor in plan.sensors if self.consents.of(sensor.name) is None)

    def readopt(self) -> None:
        """Begin the plan anew between two turns, with what may be read now."""
        if self._coming is None:
            self._coming = self.plan

    # --- the loop --------------------------------------------------------------------------------------------

    def turn(self, now: float) -> None:
        """Do everything that is due now."""
        if self._around.attend is not None:
            self._around.attend(self)
        paused = self.decision.pause
        if self._failed is not None and now >= self._failed.again_at:
            self._failed = replace(self._failed, again_at=now + self._try_failed_s)
            self.readopt()
        if self._coming is not None and not paused and not (self._recorder is not None and self._recorder.blocked):
            plan, self._coming = self._coming, None
            try:
                self._adopt(plan, now)
            except SpoolFull:  # no room yet for what the old plan left: exchange first
                self._coming = plan
        if not paused:
            self._read(now)
        self._keep_recording(now)
        for event in self.uplink.step(now):
            self._note(event, now)
        if self._hint_ends is not None and now >= self._hint_ends:
            self._hint_ends, self._hints = None, {}
            self._slow_down()
        if now >= self._next_keep_up:
            self._next_keep_up = now + self._pace(KEEP_UP_S, PUBLISH_S_MIN)
            self._keep_up(now)
        if now >= self._next_publish:
            self._next_publish = now + self._pace(PUBLISH_S, PUBLISH_S_MIN)
            self.publish()

    def catch_up(self) -> None:
        """Read everything up to this moment, between two turns."""
        if not self.decision.pause:
            self._read(time.monotonic())

    def _pace(self, seconds: float, least_s: float) -> float:
        return least_s if self.watched else max(least_s, seconds / self._around.speed)

    @property
    def watched(self) -> bool:
        return time.monotonic() < self._watched_until

    def watch(self) -> None:
        """Somebody looks: turn and publish more often for a while. From any thread."""
        if not self.watched:
            self._next_publish = self._next_keep_up = 0.0
        self._watched_until = time.monotonic() + WATCHED_S

    def _read(self, now: float) -> None:
        until_us = self.clock.now_us()
        if self.computation is not None and self._recorder is not None:
            try:
                self._compute(self.computation, self._recorder, until_us, now)
            except OperatorFailed as error:
                self._stop_computing(self.computation.plan, error)
        wanted = self.capture.looked_at(now)
        if self.recordings.running is not None:
            wanted |= self.recordings.running.about.sensors
        if wanted or self.capture.opened:
            planned = {} if self.computation is None else self.computation.rates()
            self.capture.want(wanted, planned, self._open_sensor, now)
            self.capture.read(until_us, now)

    def _compute(self, computation: Computation, recorder: Recorder, until_us: int, now: float) -> None:
        if not recorder.blocked:
            outputs = computation.read(until_us)
            recorder.take(outputs, read_until_us=until_us, now=now)
            if self._around.on_output is not None:
                for name, batch in outputs:
                    if computation.kinds.get(name) == "subscribe" and len(batch):
                        self._around.on_output(name, batch)
        recorder.commit(now, until_us)
        self._begun = True  # the first commit saves, whatever there is

    def _keep_up(self, now: float) -> None:
        """Every few seconds: the device's condition and policies, and what follows from them."""
        recorder, computation = self._recorder, self.computation
        if recorder is not None:
            recorder.expire(self.clock.now_us())
        if self.recordings.running is not None:
            why = self.recordings.room(self.settings.recordings_mb, self.settings.free_mb)
            if why:
                self._end_recording("storage-low", why)
        before = self.decision
        self.decision = self.upkeep.look(now, self.clock.now_us(), self.settings, self._facts())
        self.sender.conditions(pacing_conditions(self._around.lane, self.decision.condition))
        if before.hold and not self.decision.hold:
            self.sender.hurry(now)
        if self.decision.rebuild and not self.uplink.outstanding:
            self._around.link.reset()
            self.sender.hurry(now)
        if computation is None:
            return
        if self.decision.pause and not before.pause:
            self._next_publish = 0.0  # the gateway should hear of it while it can
            self._spool_everything()
            computation.close()
            self.capture.close()
            self.sender.hurry(now)
        elif before.pause and not self.decision.pause:
            self.readopt()
        if computation.missing and now >= self._next_try and not self.decision.pause:
            self._next_try = now + TRY_MISSING_S
            computation.try_missing()
        self._slow_down()

    def _slow_down(self) -> None:
        """Read as seldom as the gateway's hints and the device's own condition ask."""
        shares = _least(self._hints, self.decision.shares)
        if shares != self._shares and self.computation is not None:
            self._shares = shares
            self.computation.slow_down(shares)

    def _keep_recording(self, now: float) -> None:
        """A disk that refuses ends the recording and nothing else; the spool has its room already."""
        try:
            self.recordings.commit(now)
        except OSError as error:
            self._end_recording("storage-full", f"the disk refused the recording: {error}")

    def _end_recording(self, code: str, why: str) -> None:
        name = self.recordings.stop(self.clock.now_us(), ended_by=code)["name"]
        self.health.happened(code, f"the recording {name!r} was ended: {why}")

    def _facts(self) -> Facts:
        undecided = self.undecided()
        running = self.recordings.running
        recorded = () if running is None else running.about.sensors  # what is only looked at is nobody's trouble
        missing = {sensor: why for sensor, why in self.capture.missing.items() if sensor in recorded}
        if self.computation is not None:
            troubles, plan = self.computation.troubles(), self.computation.plan
            missing |= {name: why for name, why in troubles.items() if self.may_read(plan, name)}
        return Facts(
            paired=self._around.gateway is not None,
            disconnected=self.sender.disconnected,
            link_failure=self.uplink.last_failure,
            refusal=self.last_refusal,
            refusal_code=self.last_refusal_code,
            blocked=self._recorder is not None and self._recorder.blocked,
            failure="" if self._failed is None else self._failed.why,
            exchanges=self.uplink.exchanges,
            missing=missing,
            undecided=tuple(undecided),
        )

    def append(self, stream: str, **row: object) -> None:
        """Append a row, stamped with event time now, to a stream that the plan declared with `rs.stream`.

        For the thread that runs the node: the program's callbacks, say.
        """
        if self.computation is None:
            why = "there is no plan yet" if self._failed is None else "the plan's code failed"
            raise UsageError(f"{why}, so there is no stream {stream!r} to append to", code="append-stream")
        self.computation.append(stream, self.clock.now_us(), row)

    def _note(self, event: object, now: float) -> None:
        if isinstance(event, PlanArrived):
            self._coming = self._decode(event.plan) or self._coming
        elif isinstance(event, HintArrived):
            self._hints = dict(event.hint.rates)
            self._hint_ends = now + HINT_LASTS_S
            self._slow_down()
        elif isinstance(event, ReceiptReceived):
            self.last_receipt_us = wall_time_us()
        elif isinstance(event, Refused):
            self.last_refusal = f"{event.text} [{event.code}]"
            self.last_refusal_code = event.code
            if event.code in BEHIND:
                note_behind(self.home)
        elif isinstance(event, Disconnected):
            self.disconnections += 1
        elif isinstance(event, Reconnected):
            self.last_refusal = self.last_refusal_code = ""
        if self._around.on_event is not None:
            self._around.on_event(event)

    def run(self, stop: Callable[[], bool]) -> None:
        while not stop():
            now = time.monotonic()
            self.turn(now)
            pause = min(self._pace(TURN_S, TURN_S_MIN), self.uplink.next_wake() - time.monotonic())
            self.uplink.wait(max(0.0, pause))

    def drain(self, seconds: float, stop: Callable[[], bool]) -> None:
        """Spool everything, then go on exchanging until nothing waits, at most this long."""
        self._spool_everything()
        self.sender.hurry(time.monotonic())
        end = time.monotonic() + seconds
        while self.spool.statistics().batches and time.monotonic() < end and not stop():
            now = time.monotonic()
            for event in self.uplink.step(now):
                self._note(event, now)
            self.uplink.wait(min(TURN_S_MIN, max(0.0, self.uplink.next_wake() - time.monotonic())))

    def _spool_everything(self) -> None:
        if self.computation is None or self._recorder is None:
            return
        try:
            self._recorder.commit(time.monotonic(), self.clock.now_us(), everything=True)
        except OperatorFailed as error:  # what is not in the spool or a snapshot by now is lost, as by a kill
            self._stop_computing(self.computation.plan, error)

    def close(self) -> dict[str, Any]:
        """Leave everything durable and return the account. Takes well under two seconds, whatever the link does."""
        self._spool_everything()
        self.recordings.close()
        self.publish(running=False)
        final = self.final_account()
        self.spool.close()
        self.health.ended()
        self.leave()
        return final

    def fail(self, code: str, what: str) -> None:
        """Say why this node has to end, where it can still be said; nothing more is written."""
        with contextlib.suppress(OSError):
            self.health.ended(code, what)

    def leave(self) -> None:
        """Let go of the home. Without `close` before it this is what a kill does, and as safe."""
        if self._left:
            return
        self._left = True
        self.uplink.close()
        self.capture.close()
        if self.computation is not None:
            self.computation.close()
        self.recordings.leave()
        self.health.close()
        self._results.close()
        if self._lock is not None:
            self._lock.release()

    # --- what it shows -----------------------------------------------------------------------------------------

    def final_account(self) -> dict[str, Any]:
        return self.counts(self.spool.statistics())

    def counts(self, statistics: SpoolStatistics) -> dict[str, Any]:
        uplink, paired = self.uplink, self._around.gateway is not None
        return {
            "device": self.device, **account(statistics), "results": self._results.count(),
            "exchanges": uplink.exchanges, "bytes_sent": uplink.bytes_sent,
            "failures": uplink.failures if paired else 0, "disconnections": self.disconnections if paired else 0,
        }  # fmt: skip

    def view(self) -> dict[str, Any]:
        """Everything a person or the fleet page may ask of a node; plain data."""
        return node_view(self, self._around)

    def publish(self, *, running: bool = True) -> None:
        """Write the view state for other processes, and what the fleet page should know into the next exchange."""
        view = self.view() | {"running": running}
        with contextlib.suppress(OSError):  # it only informs; a full disk is told where it matters
            publish(self.home / STATUS_FILE, json.dumps(view).encode())
        self.sender.status(status_for_fleet(view, self.last_refusal))
        if self._around.on_view is not None:
            self._around.on_view(view)

    def ledger_view(self, limit: int) -> list[dict[str, Any]]:
        """What was given up, the newest numbers of each edge first."""
        names = {edge_id(name): name for name in self._edges.names()}
        entries = sorted(self.spool.ledger, key=lambda entry: -entry.hi)[: max(0, limit)]
        return [
            {"edge": names.get(entry.edge, "?"), "lo": entry.lo, "hi": entry.hi, "elements": entry.hi - entry.lo,
             "reason": entry.reason.name.lower()}
            for entry in entries
        ]  # fmt: skip

    def recordable(self) -> list[str]:
        """Sensors that a recording takes when nobody names them: what was chosen by hand, or all there are."""
        return sorted(self._around.sensors) or [sensor for sensor, why in available().items() if not why]

    @property
    def named_sensors(self) -> list[str]:
        """Those that a person chose a source for by hand."""
        return sorted(self._around.sensors)

    @property
    def encrypted(self) -> bool:
        return self._encrypted

    @property
    def edge_names(self) -> list[str]:
        return self._edges.names()

    @property
    def results(self) -> Results:
        return self._results

    def bytes_per_second(self) -> float:
        return 0.0 if self._recorder is None else self._recorder.bytes_per_second(time.monotonic())


def _least(*shares: Mapping[str, float]) -> dict[str, float]:
    """For each sensor the smallest of what hints and the device's own condition allow; `*` stands for the rest."""
    names = {name for part in shares for name in part}
    return {name: min(part.get(name, part.get("*", 1.0)) for part in shares) for name in names}
