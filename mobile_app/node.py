"""The node's loop. It only sequences: read sensors, compute, spool, exchange, publish.

    sources -> Computation -> Recorder -> Spool -> Sender -> Courier (a thread) -> link
                                            ^         |
                       receipts trim -------+         +--> results, plans, hints

Everything durable is behind the modules named here; the loop holds nothing that a kill may not take. A plan that
arrives is stored at once and takes over between two turns of the loop, after everything of the old one is spooled.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobile_app.clock import EventClock, open_clock
from mobile_app.computation import Computation
from mobile_app.first_contact import FirstContact
from mobile_app.keys import load_keys
from mobile_app.links.courier import Courier
from mobile_app.links.link import Link
from mobile_app.plans import NO_PLAN, Edges, Plans
from mobile_app.recorder import Recorder, spool_leftovers
from mobile_app.results import Results
from mobile_app.sensors.choose import Choice, open_source
from mobile_app.sensors.source import Source
from mobile_app.settings import Gateway, Settings
from mobile_app.snapshots import Snapshots
from mobile_app.spools import BEHIND, STATE, note_behind, open_spool, spool_cipher
from mobile_app.storage import HomeLock, publish
from mobile_app.uplink import Uplink
from mobile_app.view_state import account, edge_states, spool_state
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
from shared.sync.effects import Disconnected, HintArrived, PlanArrived, Reconnected, Refused
from shared.sync.pacing import Pacing
from shared.sync.sender import Sender
from shared.sync.session import DeviceSession

STATUS_FILE = "status.json"
KEY_PROTECTION = "no key store here: device.key and spool.key are files that only their owner can read"
TURN_S = 0.25  # how often sensors are read
PUBLISH_S = 1.0
HINT_LASTS_S = 60.0  # a gateway repeats a hint while it is meant
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


class Node:
    """One home, open. `turn` does everything that is due; `run` repeats it until `stop` says so."""

    def __init__(self, home: Path, around: Surroundings) -> None:
        self.home = home
        self._around = around
        self._lock = HomeLock(home)
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
        self.clock: EventClock = open_clock(
            home, speed=around.speed, not_before_us=None if newest is None else newest.read_until_us
        )
        contact = FirstContact(home / STATE, {edge: self.spool.head(edge) for edge in self.spool.edges()})
        self.last_refusal = ""
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
            Courier(around.link),
            sync_spool=self.spool.sync,
            edges=self._edges,
            plans=self._plans,
            results=self._results,
            contact=contact,
        )
        self.computation: Computation | None = None
        self._recorder: Recorder | None = None
        self._coming: Plan | None = plan
        self._hint_ends: float | None = None
        self._next_publish = 0.0
        self.disconnections = 0

    # --- plans -----------------------------------------------------------------------------------------------

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
        origin_us, from_us = self.clock.anchor.origin_us, self.clock.now_us()
        if self._snapshots.newest() is None:
            from_us = origin_us  # the very first start: a recording plays from its beginning

        def open_for(sensor: str, every_us: int) -> Source:
            return open_source(sensor, self._around.sensors, every_us=every_us, origin_us=origin_us, from_us=from_us)

        try:
            computation = Computation(
                plan, self.device, open_for, from_us=from_us,
                read_results=self._results.since, results_from=self._results.through + 1,
            )  # fmt: skip
        except UsageError as error:  # it needs an operator that is not installed here: the old plan goes on
            self.last_refusal = str(error)
            return
        self._spool_everything()
        snapshot = self._snapshots.fitting(lambda name: self.spool.head(edge_id(name)))
        resumed = snapshot is not None and computation.resume(snapshot)
        if snapshot is not None and not resumed:
            spool_leftovers(snapshot, self.sender, from_us, now)
        recorder = Recorder(
            computation, self.spool, self.sender, self._snapshots,
            loss_window_s=self._around.settings.loss_window_s, speed=self._around.speed,
        )  # fmt: skip
        if snapshot is not None and resumed:
            recorder.resume(snapshot)
        self.computation, self._recorder = computation, recorder

    # --- the loop --------------------------------------------------------------------------------------------

    def turn(self, now: float) -> None:
        """Do everything that is due now."""
        if self._coming is not None and not (self._recorder is not None and self._recorder.blocked):
            plan, self._coming = self._coming, None
            try:
                self._adopt(plan, now)
            except SpoolFull:  # no room yet for what the old plan left: exchange first
                self._coming = plan
        if self.computation is not None and self._recorder is not None:
            self._read(self.computation, self._recorder, now)
        for event in self.uplink.step(now):
            self._note(event, now)
        if self._hint_ends is not None and now >= self._hint_ends and self.computation is not None:
            self._hint_ends = None
            self.computation.slow_down({})
        if now >= self._next_publish:
            self._next_publish = now + PUBLISH_S
            if self._recorder is not None:
                self._recorder.expire(self.clock.now_us())
            self.publish()

    def _read(self, computation: Computation, recorder: Recorder, now: float) -> None:
        until_us = self.clock.now_us()
        if not recorder.blocked:
            outputs = computation.read(until_us)
            recorder.take(outputs, read_until_us=until_us, now=now)
            if self._around.on_output is not None:
                for name, batch in outputs:
                    if computation.kinds.get(name) == "subscribe" and len(batch):
                        self._around.on_output(name, batch)
        recorder.commit(now, until_us)

    def append(self, stream: str, **row: object) -> None:
        """Append a row, stamped with event time now, to a stream that the plan declared with `rs.stream`.

        For the thread that runs the node: the program's callbacks, say.
        """
        if self.computation is None:
            raise UsageError(f"there is no plan yet, so no stream {stream!r} to append to", code="append-stream")
        self.computation.append(stream, self.clock.now_us(), row)

    def _note(self, event: object, now: float) -> None:
        if isinstance(event, PlanArrived):
            self._coming = self._decode(event.plan) or self._coming
        elif isinstance(event, HintArrived) and self.computation is not None:
            self.computation.slow_down(event.hint.rates)
            self._hint_ends = now + HINT_LASTS_S
        elif isinstance(event, Refused):
            self.last_refusal = f"{event.text} [{event.code}]"
            if event.code in BEHIND:
                note_behind(self.home)
        elif isinstance(event, Disconnected):
            self.disconnections += 1
        elif isinstance(event, Reconnected):
            self.last_refusal = ""
        if self._around.on_event is not None:
            self._around.on_event(event)

    def run(self, stop: Callable[[], bool]) -> None:
        while not stop():
            now = time.monotonic()
            self.turn(now)
            self.uplink.wait(min(TURN_S, max(0.0, self.uplink.next_wake() - time.monotonic())))

    def drain(self, seconds: float, stop: Callable[[], bool]) -> None:
        """Spool everything, then go on exchanging until nothing waits, at most this long."""
        self._spool_everything()
        self.sender.hurry(time.monotonic())
        end = time.monotonic() + seconds
        while self.spool.statistics().batches and time.monotonic() < end and not stop():
            now = time.monotonic()
            for event in self.uplink.step(now):
                self._note(event, now)
            self.uplink.wait(min(TURN_S, max(0.0, self.uplink.next_wake() - time.monotonic())))

    def _spool_everything(self) -> None:
        if self._recorder is not None:
            self._recorder.commit(time.monotonic(), self.clock.now_us(), everything=True)

    def close(self) -> dict[str, Any]:
        """Leave everything durable and return the account. Takes well under two seconds, whatever the link does."""
        self._spool_everything()
        self.publish(running=False)
        final = self.final_account()
        self.spool.close()
        self.leave()
        return final

    def leave(self) -> None:
        """Let go of the home. Without `close` before it this is what a kill does, and as safe."""
        self.uplink.close()
        self._results.close()
        self._lock.release()

    # --- what it shows -----------------------------------------------------------------------------------------

    def final_account(self) -> dict[str, Any]:
        return self._counts(self.spool.statistics())

    def _counts(self, statistics: SpoolStatistics) -> dict[str, Any]:
        uplink = self.uplink
        return {
            "device": self.device, **account(statistics), "results": self._results.count(),
            "exchanges": uplink.exchanges, "failures": uplink.failures, "bytes_sent": uplink.bytes_sent,
            "disconnections": self.disconnections,
        }  # fmt: skip

    def view(self) -> dict[str, Any]:
        """Everything a person or the fleet page may ask of a node; plain data."""
        statistics, computation, gateway = self.spool.statistics(), self.computation, self._around.gateway
        now_us, anchor = self.clock.now_us(), self.clock.anchor
        rate = 0.0 if self._recorder is None else self._recorder.bytes_per_second(time.monotonic())
        full_in_s = self.spool.time_until_overwrite(rate) if rate > 0 else None
        plan = None if computation is None else {"name": computation.plan.name, "version": computation.plan.version}
        return {
            "name": self._around.settings.name,
            **self._counts(statistics),
            "incarnation": self.spool.incarnation,
            "gateway": None if gateway is None else gateway.url,
            "connected": gateway is not None and not self.sender.disconnected,
            "why_not": self.last_refusal or (self.uplink.last_failure if self.sender.disconnected else ""),
            "time_us": now_us,
            "time_uncertainty_us": anchor.uncertainty_us,
            "boot_id": anchor.boot_id,
            "plan": plan,
            "sensors": {} if computation is None else computation.readings(),
            "missing_sensors": {} if computation is None else computation.missing,
            "edges": edge_states(statistics, self._edges.names()),
            "spool": spool_state(statistics, now_us=now_us, full_in_s=full_in_s),
            "loss_window_s": self._around.settings.loss_window_s,
            "encrypted_at_rest": self._encrypted,
            "key_protection": KEY_PROTECTION,
        }

    def publish(self, *, running: bool = True) -> None:
        """Write the view state for other processes, and what the fleet page should know into the next exchange."""
        view = self.view() | {"running": running}
        publish(self.home / STATUS_FILE, json.dumps(view).encode())
        # `produced` and not what is spooled: by the time this arrives, the same exchange has delivered some of it.
        self.sender.status(
            {
                "name": view["name"], "lane": self._around.lane, "produced": view["produced"],
                "incarnation": view["incarnation"], "spool_bytes": view["spool"]["used_bytes"],
                "missing_sensors": sorted(view["missing_sensors"]), "refusal": self.last_refusal[:200],
            }
        )  # fmt: skip
