"""The node's way to a sensor: which source stands behind its name, who may read it, and what it gave.

Plan, recording and Live screen all open sensors here, so that every reading passes `Readings` once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from weakref import WeakSet

from mobile_app.home.clock import EventClock
from mobile_app.home.consents import Consents
from mobile_app.sensors.capture import Capture
from mobile_app.sensors.capture import every_us as recorded_every_us
from mobile_app.sensors.choose import Choice, open_source
from mobile_app.sensors.mqtt import KINDS
from mobile_app.sensors.readings import Readings
from mobile_app.sensors.source import SensorMissing, Source
from mobile_app.sensors.still import Pausable, PausesWhenStill
from shared.language.schema import Schema
from shared.plan.graph import Plan


class SensorAccess:
    """`chosen` are the sources that a person named by hand, `own_plan` the program that they started by hand."""

    def __init__(
        self,
        home: Path,
        clock: EventClock,
        chosen: Mapping[str, Choice],
        *,
        own_plan: Plan | None,
        first_start: bool,
        ran_unpaired: bool = False,
        open_other: Callable[..., Source] | None = None,
        now: Callable[[], float],
    ) -> None:
        """`now` counts while the processor sleeps."""
        self._clock = clock
        self._chosen = chosen
        self._own_plan = own_plan
        self._open_source = open_other or open_source
        self._ran_unpaired = ran_unpaired
        self._now = now
        self.first_start = first_start
        self.readings = Readings()
        self.consents = Consents(home, named=chosen)
        self.capture = Capture(self.readings)
        self.pause_when_still = False  # as its person chose in Setup
        self._pausing: WeakSet[PausesWhenStill] = WeakSet()

    @property
    def chosen(self) -> list[str]:
        """Sensors that a person chose a source for by hand."""
        return sorted(self._chosen)

    def to_record(self, chosen: Collection[str]) -> list[str]:
        """What a recording takes: of those that its person chose, or else of all, the ones that they allow."""
        return [sensor for sensor in chosen or self.consents.states(()) if self.consents.allows(sensor)]

    def hertz_recorded(self, sensor: str, plan: Plan | None) -> float:
        """How often a recording asks for it; a plan that reads it oftener sets the pace of both."""
        planned_us = _every_us(plan).get(sensor, 0) if plan is not None and self.may_read(plan, sensor) else 0
        own_us = recorded_every_us(sensor)
        return round(1e6 / (min(own_us, planned_us) if planned_us else own_us), 3)

    def from_us(self, plan: Plan) -> int:
        """Where a plan's sensors are read from: now, or at the very first start where a file's beginning was put.

        A gateway's plan begins there only on a device that was paired from the beginning: what could be read before
        its person paired it is not the gateway's.
        """
        if self.first_start and (plan is self._own_plan or not self._ran_unpaired):
            return self._clock.anchor.origin_us
        return self._clock.now_us()

    def open(self, sensor: str, every_us: int, from_us: int | None = None, schema: Schema | None = None) -> Source:
        """The sensor, read from now on: a recording or a screen that asks again must not get the same readings.
        `schema`: the columns that a program wants of it."""
        wanted = {} if sensor not in self._chosen or self._chosen[sensor].kind not in KINDS else {"schema": schema}
        source = self._open_source(
            sensor, self._chosen, every_us=every_us, origin_us=self._clock.anchor.origin_us,
            from_us=self._clock.now_us() if from_us is None else from_us, event_time=self._clock.at, **wanted,
        )  # fmt: skip
        if not isinstance(source, Pausable):
            return source
        pausing = PausesWhenStill(source, is_wanted=lambda: self.pause_when_still, now=self._now)
        self._pausing.add(pausing)
        return pausing

    @property
    def is_still(self) -> bool:
        """Whether positions pause: nothing comes from them until the phone moves, or for a quarter of an hour."""
        return any(each.is_paused for each in self._pausing)

    def open_for(self, plan: Plan, sensor: str, every_us: int, from_us: int | None = None) -> Source:
        """The sensor for a plan that may read it. `from_us`: what `from_us(plan)` said when the plan began."""
        if not self.may_read(plan, sensor):
            waits = self.consents.of(sensor) is None
            why = "waits for its person's consent" if waits else "is kept from this plan by its person"
            raise SensorMissing(f"{sensor!r} {why}", code="sensor-consent")
        schema = next((each.schema for each in plan.sensors if each.name == sensor), None)
        source = self.open(sensor, every_us, self.from_us(plan) if from_us is None else from_us, schema)
        return self.readings.watch(sensor, source, every_us)

    def may_read(self, plan: Plan, sensor: str) -> bool:
        """A program that a person started by hand speaks for them; a gateway's plan does not."""
        return plan is self._own_plan or self.consents.of(sensor) is True

    def undecided(self, plan: Plan | None) -> list[str]:
        """Sensors that the plan wants and nobody has allowed or refused."""
        return sorted(sensor for sensor in self.asked(plan) if self.consents.of(sensor) is None)

    def refused(self, plan: Plan | None) -> list[str]:
        """Sensors that the plan wants and its person keeps from it."""
        return sorted(sensor for sensor in self.asked(plan) if self.consents.of(sensor) not in (True, None))

    def asked(self, plan: Plan | None) -> dict[str, float | None]:
        """{sensor: readings a second, None on request} that a gateway's plan asks its person for."""
        if plan is None or plan is self._own_plan:
            return {}
        return {sensor: round(1e6 / every, 3) if every else None for sensor, every in _every_us(plan).items()}


def _every_us(plan: Plan) -> dict[str, int]:
    """Microseconds between readings, of each sensor where the plan reads it most often; 0: on request only."""
    found: dict[str, int] = {}
    for sensor in plan.sensors:
        known = found.get(sensor.name, 0)
        found[sensor.name] = min(known or sensor.every_us, sensor.every_us or known)
    return found
