"""The node's loop. It only sequences: read sensors, compute, spool, exchange, look after the device, publish.

    sources -> Computation -> Spooler -> Spool -> Sender -> Courier (a thread) -> link
                                           ^         |
                      receipts trim -------+         +--> results, plans, hints

Everything durable is behind the modules named here; the loop holds nothing that a kill may not take.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mobile_app.condition.policy import may_wait, pacing_conditions
from mobile_app.condition.upkeep import Decision, Upkeep
from mobile_app.home.clock import boot_time_us, wall_time_us
from mobile_app.home.files import HomeLock
from mobile_app.links.courier import Courier
from mobile_app.links.listener import Listener
from mobile_app.node.computation import Computation, OperatorFailed
from mobile_app.node.gateway_state import GatewayState
from mobile_app.node.hosting import Hosting
from mobile_app.node.plan_runner import PlanBegun, PlanRunner, choose_plan
from mobile_app.node.plans import NO_PLAN
from mobile_app.node.rates import Rates
from mobile_app.node.schedule import TURN_S_MIN, Schedule
from mobile_app.node.stores import open_stores
from mobile_app.node.surroundings import Surroundings
from mobile_app.node.uplink import Uplink
from mobile_app.node.view_state import counts, facts_of, node_view, publish_view
from mobile_app.sensors.access import SensorAccess
from mobile_app.sensors.still import LOOK_EVERY_S
from mobile_app.spool.spooler import Spooler
from shared.hosting.fleet_file import OfferedHost
from shared.hosting.governed import Governed
from shared.plan.graph import Plan
from shared.sync.events import DeploymentArrived, HintArrived, PassArrived, PlanArrived, ResultArrived
from shared.sync.pacing import Pacing
from shared.sync.sender import Sender
from shared.sync.session import DeviceSession
from shared.wire.status import DeviceStatus

UNUSED_S = 60.0
READING_S = 0.25  # between two exchanges
SPEAK_S = 3.0  # that a node which hosts vertices for its gateway is silent at most
POSITION_US = 30_000_000  # so often a phone whose fleet has regions looks where it is
NO_POSITION = "sensor-consent"  # why a phone leaves its regions whose person does not allow positions any more
EXCHANGE_TIMEOUT_S = 30.0  # more than any link takes to give up


class Node:
    """One home, open. `turn` does everything that is due; `run` repeats it until `stop` says so."""

    def __init__(self, home: Path, around: Surroundings) -> None:
        self.home = home
        self.settings = around.settings
        self.around = around
        self._lock = HomeLock(home) if around.lock is None else None
        self.stores = stores = open_stores(
            home, around.settings, around.gateway, speed=around.speed, clock=around.clock
        )  # fmt: skip
        self.access = SensorAccess(
            home, stores.clock, around.sensors,
            own_plan=around.plan, first_start=stores.first_start, ran_unpaired=stores.ran_unpaired,
            open_other=around.open_source, now=around.rest.now,
        )  # fmt: skip
        self.access.readings.tap = stores.recordings.take
        self.upkeep = Upkeep(
            stores.health, self.access.readings, self.access.open, wall_us=wall_time_us, boot_us=boot_time_us
        )
        self.decision = Decision()
        self.gateway = GatewayState(home, wall_time_us)
        self.rest = around.rest
        self.schedule = Schedule(around.speed, self.rest.now)
        self.rates = Rates()
        plan = choose_plan(stores.plans, around.plan, self.gateway.refuse)
        self.sender = self._new_sender(plan)
        self.uplink = Uplink(self.sender, Courier(around.link, lambda: self.decision.hold), stores)
        self.runner = PlanRunner(
            stores, self.access, self.sender, first=plan, new_spooler=self._new_spooler,
            on_output=around.on_output, refuse=self.gateway.refuse,
            on_begun=self._begun, on_failure=self._failed,
        )  # fmt: skip
        self.hosting: Hosting | None = None
        if around.fleet is not None:
            self.hosting = Hosting(
                home, around.fleet, stores, self.access, self.sender, wake=self.uplink.wake, say=around.say,
                news=self.schedule.publish_soon, speed=around.speed,
                loss_window_s=around.settings.loss_window_s, spool_mb=around.settings.fleet_spool_mb,
                now=self.rest.now(),
            )  # fmt: skip
        self.listener = None if around.wait is None else Listener(around.wait, self.uplink.wake)
        self._status = DeviceStatus()  # what this device says of itself, beside what it hosts
        self._lacking = self.runner.lacking()
        self._asked_at = self.rest.now()
        self._left = False
        self.needed = self.hosting is not None  # whether other nodes count on this one being awake
        self._may_ring = True  # there may be alerts that were not shown yet

    @property
    def _governed(self) -> Governed | None:
        """Its share of a fleet, where the gateway coordinates that."""
        return None if self.hosting is None else self.hosting.governed

    def tell(self, status: DeviceStatus) -> None:
        """What the gateway should know of this device. Where it coordinates a fleet, that is said when it is due."""
        self._status = status
        if self._governed is None:
            self.sender.status(status)

    def _new_sender(self, plan: Plan | None) -> Sender:
        stores = self.stores
        return Sender(
            stores.spool,
            DeviceSession(stores.keys, stores.device, stores.spool.incarnation),
            pacing=self._pacing(needed=True),
            rng=random.Random(),
            edges=stores.edges.all(),
            results_through=stores.results.through,
            plan_version=NO_PLAN if plan is None else plan.version,
            reaches=stores.contact.reaches,
            now=self.rest.now(),
        )

    def _pacing(self, *, needed: bool) -> Pacing:
        """How often it speaks with its gateway; often while that coordinates nodes which count on this one."""
        poll_s = max(1.0, self.rest.poll_s / self.around.speed)
        if needed and isinstance(self.around.fleet, OfferedHost):
            poll_s = min(poll_s, SPEAK_S)
        return Pacing(
            poll_s=poll_s,
            timeout_s=EXCHANGE_TIMEOUT_S,
            backoff_s_max=self.rest.backoff_s_max,
            sync_within_s=self.rest.sync_within_s,
        )

    def _new_spooler(self, computation: Computation) -> Spooler:
        return Spooler(
            computation, self.stores.spool, self.sender, self.stores.snapshots,
            loss_window_s=self.around.settings.loss_window_s,
            turn_s=self.schedule.longest_turn_s, speed=self.around.speed,
        )  # fmt: skip

    # --- the loop --------------------------------------------------------------------------------------------

    def turn(self, now: float, within_s: float | None = None) -> None:
        """Do everything that is due now; read sensors for about so long only."""
        if self.around.attend is not None:
            self.around.attend(self)
        if not self.decision.pause:
            self.runner.take_over(now)
            self._read(now, within_s)
        self._keep_recording(now)
        if self._governed is not None:
            self._governed.report(self._status, self.sender, now)
        self._exchange(now)
        if self.hosting is not None:
            self.hosting.step(now)
            self.rest.listen(on=self.hosting.listens)
        self.runner.slow_down(self.rates.now(now))
        if self.schedule.upkeep_due(now):
            self._keep_up(now)
        if self.schedule.publish_due(now):
            self.publish()

    def run(self, stop: Callable[[], bool]) -> None:
        while not stop():
            now = self.rest.now()
            since_s = now - self._asked_at
            asks_s = None if self.hosting is None else self.hosting.asks_s
            if (asks_s is not None and since_s >= asks_s) or self.rest.asks(
                since_s=since_s, watched=self.schedule.watched
            ):
                self._asked_at = now
                self.sender.hurry(now)
            if self.listener is not None and self.listener.heard():
                self.sender.hurry(now)
            self.turn(now, READING_S)
            self._keep_pace(now)
            periods_us = self.periods_us()
            turn_s, asleep = self.schedule.turn_s(), False
            if not self.schedule.watched and not self.uplink.outstanding:
                turn_s = self.rest.turn_s(turn_s, periods_us, self.settings.loss_window_s)
                turn_s = turn_s if self.around.gateway is not None else min(turn_s, UNUSED_S)
                asleep = not self.needed and not self.behind and self.rest.may_sleep(periods_us)
            if asleep:
                self.runner.settle(now)
            if self.listener is not None:
                self._listen(self.listener, asleep=asleep)
            wakes = [self.uplink.next_wake()]
            # While it sleeps, what it says to its fleet waits for the next look: nobody counts on it.
            if not asleep and self.hosting is not None and (due := self.hosting.next_wake()) is not None:
                wakes.append(due)
            pause = 0.0 if self.behind else min(turn_s, min(wakes) - self.rest.now())
            self.rest.wait(max(0.0, pause), self.uplink, asleep=asleep)

    def _keep_pace(self, now: float) -> None:
        """Be heard often while others count on this node, and no more often than its own policy when they do not."""
        needed = self.hosting is not None and not self.hosting.may_sleep(self.decision.places)
        if needed is not self.needed and self.hosting is not None:
            self.sender.pace(self._pacing(needed=needed))
            if needed:
                self.sender.hurry(now)
        self.needed = needed

    def _listen(self, listener: Listener, *, asleep: bool) -> None:
        """Hear of results at once while this device is awake and may use its network; else with the next exchange. One
        that others count on also hears so of what they ask by way of the gateway, on any network."""
        asked = self.needed and self.hosting is not None and self.hosting.is_asked
        allowed = asked or may_wait(self.decision.condition, watched=self.schedule.watched)
        body = None
        if allowed and not asleep and not self.decision.hold:
            if self.uplink.outstanding:
                return  # its answer says through where everything is here
            body = self.sender.wait_for_news(self.rest.now())
        if body is None:
            listener.rest()
        else:
            listener.listen(body)

    @property
    def locates(self) -> bool:
        """Whether its fleet has regions, and its person lets it say where it is."""
        areas = () if self.hosting is None else self.hosting.areas
        return bool(areas) and self.access.consents.of("gps") is True

    def unused(self) -> bool:
        """No plan, no recording, no gateway that could send a plan, and nobody at a screen for a minute."""
        needed = self.around.gateway is not None or self.runner.plan is not None or self.hosting is not None
        return not needed and self.stores.recordings.running is None and self.schedule.unwatched_s > UNUSED_S

    def periods_us(self) -> dict[str, int]:
        """{sensor: microseconds between readings} of everything that is read now."""
        computation = self.runner.computation
        planned = {} if computation is None or self.decision.pause else computation.rates()
        found = planned | self.access.capture.periods_us()
        if self.access.is_still and "gps" in found:
            found["gps"] = max(found["gps"], round(LOOK_EVERY_S * 1e6))  # nothing comes until motion wakes us
        return found

    def decide(self, sensor: str, *, allow: bool | str) -> None:
        """Keep a person's word on a sensor; what reads for a gateway follows it at the next turn."""
        self.access.consents.decide(sensor, allow=allow)
        self.runner.begin_again()
        if self.hosting is not None:
            self.hosting.begin_again()

    def catch_up(self) -> None:
        """Read everything up to this moment, between two turns."""
        if not self.decision.pause:
            self._read(self.rest.now())

    @property
    def behind(self) -> bool:
        """Whether sensors had more to say than there was time to read. While it pauses nothing is read."""
        if self.decision.pause:
            return False
        return self.runner.behind or (self.hosting is not None and self.hosting.behind)

    def _read(self, now: float, within_s: float | None = None) -> None:
        until_us = self.stores.clock.now_us()
        self.runner.read(until_us, now, within_s)
        if (lacking := self.runner.lacking()) != self._lacking:
            self._lacking = lacking
            self.schedule.soon()
        if self.hosting is not None:
            self.hosting.read(until_us, now, within_s)
        capture, running, computation = self.access.capture, self.stores.recordings.running, self.runner.computation
        wanted = capture.looked_at(now)
        if running is not None:
            wanted |= running.about.sensors
        wanted = {sensor: every for sensor, every in wanted.items() if self.access.consents.allows(sensor)}
        if self.locates and not self.decision.pause:
            wanted.setdefault("gps", POSITION_US)
        if wanted or capture.opened:
            capture.want(wanted, {} if computation is None else computation.rates(), self.access.open, now)
            capture.read(until_us, now)

    def _exchange(self, now: float) -> None:
        for event in self.uplink.step(now):
            if isinstance(event, PlanArrived):
                self.runner.arrive(event.plan)
            elif isinstance(event, DeploymentArrived) and self._governed is not None:
                self._governed.take(event.message, self.sender, now)
            elif isinstance(event, HintArrived):
                self.rates.hint(event.hint.rates, now)
                if self._governed is not None:
                    self._governed.order(event.hint, now)
                if self.hosting is not None and event.hint.moves:
                    self.hosting.asked(event.hint.moves, now)
            elif isinstance(event, PassArrived) and self._governed is not None:
                self._governed.passed(event.message, now)
                if self.listener is not None:
                    self.listener.came()
            elif self._governed is not None:
                self._governed.note(event, now)
            if isinstance(event, ResultArrived):
                self._may_ring = True
            self.gateway.note(event)
            self.around.on_event(event)
        if self._may_ring:
            self._ring()

    def _ring(self) -> None:
        """Show alerts, each once. Only a kill between showing and noting it shows one again, under the same number."""
        self._may_ring = False
        for ring in self.stores.results.rings():
            self.around.on_alert(ring)
            self.stores.results.rung(ring)

    def _keep_up(self, now: float) -> None:
        """Every few seconds: the device's condition and policies, and what follows from them."""
        self.stores.clock.follow()
        self.access.pause_when_still = self.settings.pause_when_still
        now_us, before = self.stores.clock.now_us(), self.decision
        self._check_room()
        self.decision = self.upkeep.look(now, now_us, self.settings, facts_of(self))
        self.sender.conditions(pacing_conditions(self.around.lane, self.decision.condition))
        if self.hosting is not None:
            self._say_where(self.hosting)
        if before.hold and not self.decision.hold:
            self.sender.hurry(now)
        if self.decision.rebuild and not self.uplink.outstanding:
            self.around.link.reset()
            self.sender.hurry(now)
        if self.decision.pause and not before.pause:
            self.schedule.publish_soon()  # the gateway should hear of it while it can
            self.runner.pause()
            self.access.capture.close()
            self.sender.hurry(now)
        elif before.pause and not self.decision.pause:
            self.runner.begin_again()
        if not self.decision.pause:
            self.runner.upkeep(now, now_us)
        self.rates.allow(self.decision.shares)

    def _say_where(self, hosting: Hosting) -> None:
        """What a coordinator of regions must know: where this phone is, and whether it goes."""
        host, fix = hosting.host, self.decision.fix
        host.here.leaving = self.decision.pause
        if fix is not None:
            host.here.position, host.here.accuracy_m = fix
        elif host.here.position is not None and not self.locates:
            host.here.leaving = self.decision.pause or NO_POSITION
            if not hosting.is_member:
                host.here.position = host.here.accuracy_m = None

    def _keep_recording(self, now: float) -> None:
        """A disk that refuses ends the recording and nothing else; the spool has its room already."""
        try:
            self.stores.recordings.commit(now)
        except OSError as error:
            self._end_recording("storage-full", f"the disk refused the recording: {error}")

    def _check_room(self) -> None:
        if self.stores.recordings.running is not None:
            why = self.stores.recordings.room(self.settings.recordings_mb, self.settings.free_mb)
            if why:
                self._end_recording("storage-low", why)

    def _end_recording(self, code: str, why: str) -> None:
        name = self.stores.recordings.stop(self.stores.clock.now_us(), ended_by=code)["name"]
        self.stores.health.happened(code, f"the recording {name!r} was ended: {why}")

    def append(self, stream: str, **row: object) -> None:
        """Append a row, stamped with event time now, to a stream that the plan declared with `rs.stream`.

        For the thread that runs the node: the program's callbacks, say.
        """
        self.runner.append(stream, row)

    def _begun(self, begun: PlanBegun) -> None:
        self.schedule.soon()  # what it cannot read should be said while its person still looks
        self.around.on_event(begun)

    def _failed(self, error: OperatorFailed) -> None:
        self.schedule.soon()
        self.around.on_event(error)

    # --- the end -----------------------------------------------------------------------------------------------

    def drain(self, seconds: float, stop: Callable[[], bool]) -> None:
        """Spool everything, then go on exchanging until nothing waits, at most this long."""
        self.runner.spool_everything()
        self.sender.hurry(self.rest.now())
        end = self.rest.now() + seconds
        while self.stores.spool.statistics().batches and self.rest.now() < end and not stop():
            self._exchange(self.rest.now())
            self.uplink.wait(min(TURN_S_MIN, max(0.0, self.uplink.next_wake() - self.rest.now())))

    def close(self) -> dict[str, Any]:
        """Leave everything durable and return the account. Takes well under two seconds, whatever the link does."""
        self.runner.spool_everything()
        self.stores.recordings.close()
        self.publish(running=False)
        final = self.final_account()
        self.stores.spool.close()
        self.stores.health.ended()
        self.leave()
        return final

    def fail(self, code: str, what: str) -> None:
        """Say why this node has to end, where it can still be said; nothing more is written."""
        with contextlib.suppress(OSError):
            self.stores.health.ended(code, what)

    def leave(self) -> None:
        """Let go of the home. Without `close` before it this is what a kill does, and as safe."""
        if self._left:
            return
        self._left = True
        if self.hosting is not None:
            self.hosting.close()
        if self.listener is not None:
            self.listener.close()
        self.uplink.close()
        self.access.capture.close()
        self.runner.close()
        self.stores.close()
        if self._lock is not None:
            self._lock.release()

    # --- what it shows -----------------------------------------------------------------------------------------

    def final_account(self) -> dict[str, Any]:
        return counts(self, self.stores.spool.statistics())

    def view(self) -> dict[str, Any]:
        """Everything a person or the fleet page may ask of a node; plain data."""
        return node_view(self)

    def publish(self, *, running: bool = True) -> None:
        publish_view(self, self.view() | {"running": running})
