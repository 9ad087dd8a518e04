"""Every few seconds, beside the reading: how is the device, what does its policy allow, what should its person know?

It watches battery and network through their sensors, sees from the readings whether the device moves and has a view of
the sky, notices a wall clock that jumped, and turns all of it into a decision for the loop and entries for the health
page. It never touches the spool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from mobile_app.condition.health import Health
from mobile_app.condition.policy import (
    INDOORS_ACCURACY_M,
    MOVING_ACCELERATION,
    MOVING_METRES_PER_SECOND,
    DeviceCondition,
    sampling_shares,
    why_not_exchange,
    why_not_sample,
)
from mobile_app.sensors.readings import Readings
from mobile_app.sensors.source import Samples, SensorMissing, Source
from mobile_app.settings import Settings, area_of
from shared.plan.area import Area, Point
from shared.region.member import Members, Place, Seen

CONDITION_EVERY_US = 30_000_000
OPEN_AGAIN_S = 60.0
CLOCK_JUMP_US = 2_000_000
SEEN_EVERY_S = 30.0
REPORT_WITHIN_S = 60.0  # a device at its battery floor may use the network this long to say so
REBUILD_EVERY_S = 5.0  # between two tries to build a lost link anew
OWN = ""  # the name of the area that settings give: a region of this device alone
SELF = "self"

OpenSource = Callable[[str, int], Source]


class Fix(NamedTuple):
    """Where the device is, and how sure that is."""

    point: Point
    accuracy_m: float


class Ground(NamedTuple):
    """A region that its fleet has."""

    area: Area
    dwell_s: float


@dataclass(frozen=True, slots=True)
class Facts:
    """What the loop knows and the health page needs."""

    paired: bool
    disconnected: bool = False
    link_failure: str = ""
    refusal: str = ""
    refusal_code: str = ""
    blocked: bool = False
    withheld: str = ""  # why the gateway does not send its newest plan
    failure: str = ""  # why the plan is not computed
    exchanges: int = 0
    missing: dict[str, str] = field(default_factory=dict)
    undecided: tuple[str, ...] = ()
    malformed_results: int = 0
    late: str = ""  # the account of rows that windows left out
    all_filtered: tuple[str, ...] = ()  # what to say of edges whose filters let nothing pass
    grounds: Mapping[str, Ground] = field(default_factory=dict)  # by name, the regions of its fleet
    may_locate: bool = False  # its person allows positions


@dataclass(frozen=True, slots=True)
class Decision:
    pause: str = ""  # a health code: read no sensors
    hold: str = ""  # a health code: leave the network alone
    shares: dict[str, float] = field(default_factory=dict)
    condition: DeviceCondition = field(default_factory=DeviceCondition)
    region: str = ""  # what it is to its own area: a `Place`; empty: it has none
    rebuild: bool = False  # the link should be built anew
    places: Mapping[str, str] = field(default_factory=dict)  # by region of its fleet, what it is to that
    fix: Fix | None = None  # where it is, for those who coordinate regions; None: they are not to know


class Upkeep:
    """`wall_us` and `boot_us` are the two clocks, `open_source` the node's way to a sensor."""

    def __init__(
        self,
        health: Health,
        readings: Readings,
        open_source: OpenSource,
        *,
        wall_us: Callable[[], int],
        boot_us: Callable[[], int],
    ) -> None:
        self._health = health
        self._readings = readings
        self._open_source = open_source
        self._wall_us = wall_us
        self._boot_us = boot_us
        self._offset_us = wall_us() - boot_us()
        self._sources: dict[str, Source] = {}
        self._again: dict[str, float] = {}
        self._condition = DeviceCondition()
        self._seen = -SEEN_EVERY_S
        self._floor_since: tuple[float, int] | None = None  # when, and the exchanges answered by then
        self._members: dict[str, tuple[Ground, Members]] = {}  # by name of a region
        self._places: dict[str, Place] = {}
        self._rebuild_at = float("-inf")
        self._told: Fix | None = None

    def look(self, now: float, now_us: int, settings: Settings, facts: Facts) -> Decision:
        self._watch(now, now_us)
        self._watch_clock()
        condition = self._condition
        if settings.adaptive:  # nothing else needs to know
            condition = self._condition = replace(condition, moving=self._moving(), indoors=self._indoors())
        pause = why_not_sample(settings, condition)
        hold = why_not_exchange(settings, condition)
        if hold == "battery-floor" and self._may_report(now, facts):
            hold = ""
        elif not pause:
            self._floor_since = None
        self._health.hold(self._conditions(facts, pause, hold))
        if now >= self._seen + SEEN_EVERY_S:
            self._seen = now
            self._health.note_alive()
        shares = sampling_shares(condition) if settings.adaptive else {}
        places = self._look_at_regions(now, settings, facts)
        own = places.pop(OWN, None)
        return Decision(
            pause, hold, shares, condition, "" if own is None else own.value, self._should_rebuild(own, now),
            {name: place.value for name, place in places.items()}, self._told,
        )  # fmt: skip

    def _look_at_regions(self, now: float, settings: Settings, facts: Facts) -> dict[str, Place]:
        """What the device is to its own area and to each region of its fleet, and what its fleet may know of that."""
        area, grounds = area_of(settings), {**facts.grounds}
        if area is not None:
            grounds[OWN] = Ground(area, settings.dwell_s)
        fix = self._fix()
        for name, ground in grounds.items():
            if name not in self._members or self._members[name][0] != ground:
                self._members[name] = ground, Members(ground.area, ground.dwell_s)
        self._members = {name: each for name, each in self._members.items() if name in grounds}
        before, self._places = self._places, {}
        for name, (_, members) in self._members.items():
            # Only its own link tells it anything of its own area; in a fleet the coordinator knows who is reached.
            lost = name == OWN and facts.disconnected and before.get(name) is not Place.LEAVING
            point, accuracy_m = (None, 0.0) if fix is None else fix
            reached = name != OWN or not facts.disconnected
            seen = Seen(point, hosts=lost, reached=reached, accuracy_m=accuracy_m)
            self._places[name] = members.look(SELF, seen, now)
        if not facts.may_locate or not facts.grounds:
            self._told = None
        elif fix is not None and self._tells_more(fix, facts.grounds):
            self._told = fix
        return dict(self._places)

    def _fix(self) -> Fix | None:
        lat, lon, accuracy = (self._readings.latest("gps", name, 1) for name in ("lat", "lon", "accuracy"))
        if not len(lat) or not len(lon) or not np.isfinite(lat[0]) or not np.isfinite(lon[0]):
            return None
        known = len(accuracy) and np.isfinite(accuracy[0])
        return Fix((float(lat[0]), float(lon[0])), max(0.0, float(accuracy[0])) if known else 0.0)

    def _tells_more(self, fix: Fix, grounds: Mapping[str, Ground]) -> bool:
        """A position is said only when it is on another side of a border: nobody needs the way in between."""
        if self._told is None:
            return True
        sides = [(each.area.side(*fix), each.area.side(*self._told)) for each in grounds.values()]
        return any(side is not None and side is not told for side, told in sides)

    def _should_rebuild(self, own: Place | None, now: float) -> bool:
        if own is not Place.URGENT or now < self._rebuild_at:
            return False
        self._rebuild_at = now + REBUILD_EVERY_S
        return True

    def _may_report(self, now: float, facts: Facts) -> bool:
        """One exchange to say that this device is about to stop; then the network is left alone."""
        if self._floor_since is None:
            self._floor_since = (now, facts.exchanges)
        since, exchanges = self._floor_since
        return facts.paired and facts.exchanges == exchanges and now < since + REPORT_WITHIN_S

    def _watch(self, now: float, now_us: int) -> None:
        for sensor in ("battery", "network"):
            source = self._sources.get(sensor)
            try:
                if source is None and now >= self._again.get(sensor, 0.0):
                    self._again[sensor] = now + OPEN_AGAIN_S
                    source = self._sources[sensor] = self._open_source(sensor, CONDITION_EVERY_US)
                if source is not None:
                    self._note(sensor, source.read(now_us))
            except SensorMissing:
                self._sources.pop(sensor, None)

    def _note(self, sensor: str, samples: Samples) -> None:
        if not len(samples):
            return
        last = {name: np.asarray(column)[-1] for name, column in samples.columns.items()}
        condition = self._condition
        if sensor == "battery":
            level = float(last.get("level", np.nan))
            charging = bool(last["charging"]) if "charging" in last else None
            self._condition = replace(condition, battery=None if np.isnan(level) else level, charging=charging)
        else:
            lane = str(last.get("lane", "unknown"))
            kind = None if lane == "unknown" else lane
            metered = bool(last["metered"]) if "metered" in last else None
            roaming = bool(last["roaming"]) if "roaming" in last else None
            self._condition = replace(condition, network=kind, metered=metered, roaming=roaming)

    def _watch_clock(self) -> None:
        """The wall clock and the clock since boot run side by side; when they part, a hand moved one of them."""
        offset_us = self._wall_us() - self._boot_us()
        jump_us, self._offset_us = offset_us - self._offset_us, offset_us
        if abs(jump_us) > CLOCK_JUMP_US:
            direction = "forward" if jump_us > 0 else "back"
            self._health.happened(
                "clock-jump", f"the device's clock was moved {direction} by {abs(jump_us) / 1e6:.0f} seconds"
            )

    def _moving(self) -> bool | None:
        speeds = self._readings.latest("gps", "speed", 5)
        speeds = speeds[np.isfinite(speeds)] if len(speeds) else speeds
        if len(speeds) and float(np.median(speeds)) > MOVING_METRES_PER_SECOND:
            return True
        shakes = [self._readings.latest("accelerometer", axis, 100) for axis in ("x", "y", "z")]
        if all(len(shake) >= 10 for shake in shakes):
            return bool(max(float(np.std(shake)) for shake in shakes) > MOVING_ACCELERATION)
        return False if len(speeds) else None

    def _indoors(self) -> bool | None:
        accuracy = self._readings.latest("gps", "accuracy", 5)
        accuracy = accuracy[np.isfinite(accuracy)] if len(accuracy) else accuracy
        return bool(float(np.median(accuracy)) > INDOORS_ACCURACY_M) if len(accuracy) else None

    def _conditions(self, facts: Facts, pause: str, hold: str) -> dict[str, str]:
        found: dict[str, str] = {}
        if pause:
            level = self._condition.battery or 0.0
            found[pause] = f"the battery is at {level:.0%}, below the floor: nothing is read or sent"
        if facts.failure:
            found["operator-failed"] = f"readings are not computed now: {facts.failure}"
        for sensor, why in facts.missing.items():
            code = "sensor-permission" if "permission" in why.lower() else "sensor-missing"
            found[code] = f"{found[code]}; {sensor}: {why}" if code in found else f"{sensor}: {why}"
        if facts.undecided:
            found["consent-needed"] = f"the plan wants to read {', '.join(facts.undecided)}; nobody has said yes or no"
        if facts.withheld:
            found["plan-withheld"] = facts.withheld
        if facts.blocked:
            found["spool-full"] = "the spool is full and may give nothing up, so no sensor is read"
        states = self._readings.states()
        if notes := [f"{name}: {state['note']}" for name, state in states.items() if state["note"]]:
            found["rows-unreadable"] = "; ".join(notes)
        if ended := [name for name, state in states.items() if state["over"]]:
            found["recording-over"] = (
                f"{', '.join(ended)}: this home has played its recording to the end; nothing more comes from it"
            )
        if facts.all_filtered:
            found["all-filtered"] = "; ".join(facts.all_filtered)
        if facts.late:
            found["rows-late"] = facts.late
        overruns = {name: lost for name, state in states.items() if (lost := state["overruns"])}
        if overruns:
            lost = ", ".join(f"{count:,} of {name}" for name, count in sorted(overruns.items()))
            found["sensor-overrun"] = f"readings came faster than this device took them and are lost: {lost}"
        if facts.malformed_results:
            found["results-malformed"] = f"{facts.malformed_results:,} results made no sense here and were passed over"
        if not facts.paired:
            found["not-paired"] = "no gateway: everything stays on this device"
        elif hold and hold != pause:
            found[hold] = {
                "no-network": "this device has no network",
                "waiting-wifi": "waiting for Wi-Fi, as Setup says",
                "waiting-unmetered": "the network costs money, and Setup says to wait for another",
                "waiting-home-network": "the device roams, and Setup says to wait",
            }[hold]
        elif facts.refusal:
            revoked = facts.refusal_code in REVOKED
            found["revoked" if revoked else "gateway-refuses"] = facts.refusal
        elif facts.disconnected:
            found["gateway-unreachable"] = facts.link_failure or "the gateway does not answer"
        return found


REVOKED = frozenset({"device-revoked", "device-unknown"})
