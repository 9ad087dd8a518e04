"""Live: what each sensor gives now, how fast it really is, and where it was silent."""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any

import numpy as np

from mobile_app.screens.page import Empty, Page, View, sentence
from mobile_app.screens.widgets.controls import Choices, PushButton
from mobile_app.screens.widgets.derived import Spectrum, magnitude, span_s, spectrum
from mobile_app.screens.widgets.icons import Icon, sensor_icon
from mobile_app.screens.widgets.plots import LinePlot
from mobile_app.screens.widgets.surfaces import Card, Notice, Swatch
from mobile_app.screens.widgets.text import Column, Row, Text, Wrap, replace
from mobile_app.screens.words import number_text
from mobile_app.service.connection import ServiceClient

SPAN_S = 30.0
KEPT = 4096  # readings held per sensor, as many as the service keeps
SERIES_MAX = 3
# What is drawn of sensors whose columns have different units; of others, the first three.
DRAWN = {"gps": ("speed", "accuracy"), "location": ("speed", "accuracy"), "battery": ("level",)}
SLOW_SHARE = 0.8  # a rate below this share of what was asked is pointed out
VECTOR = ("x", "y", "z")
VALUES, MAGNITUDE, SPECTRUM = "Values", "Magnitude", "Spectrum"  # what can be drawn of a sensor
SPECTRUM_EVERY_S = 0.5
TICKS_MAX = 6
UNITS = {"accelerometer": "m/s²", "linear_acceleration": "m/s²", "gravity": "m/s²", "gyroscope": "rad/s",
         "magnetometer": "µT", "barometer": "hPa", "light": "lx", "microphone": "dB"}  # fmt: skip


def _newest(sensor: str, after_us: int, client: ServiceClient) -> dict[str, Any]:
    return client.samples(sensor, after_us)


class SensorCard(Card):
    """One sensor: a plot of what its person chose, newest values, rate against what was asked, gaps."""

    def __init__(self, sensor: str) -> None:
        self.sensor = sensor
        self._unit = UNITS.get(sensor, "")
        self._rate = Text("", size="label", colour="soft", align="right", fit=True)
        self._gaps = Text("", size="caption", colour="soft")
        self._plot_place, self._choice_place, self._note_place = Column(), Column(), Column()
        self._note = Text("", size="label")
        self._values = Wrap(gap=12)
        unit = f"  {self._unit}" if self._unit else ""
        super().__init__(
            Row(Icon(sensor_icon(sensor), side=22, colour="accent"),
                Text(sensor + unit, size="title", bold=True, one_line=True), self._rate, gap=10),
            self._choice_place, self._plot_place, self._values, self._note_place, self._gaps, gap=8,
            padding=(18, 14, 18, 14),
        )  # fmt: skip
        self._times = np.empty(0, np.int64)
        self._columns: dict[str, np.ndarray] = {}
        self._plot: LinePlot | None = None
        self._shows = VALUES
        self._offered: list[str] = []
        self._legend: tuple[object, ...] = ()
        self._numbers: dict[str, Text] = {}
        self._newest: dict[str, Any] = {}
        self._last: tuple[float, int] = (0.0, 0)
        self._spectrum_at = 0.0

    @property
    def newest_us(self) -> int:
        return int(self._times[-1]) if len(self._times) else 0

    def take(self, samples: dict[str, Any], now_us: int) -> None:
        """Add readings that came since the last time, and draw."""
        fresh = np.array(samples["times_us"], np.int64)
        known = int(np.searchsorted(fresh, self.newest_us, side="right"))  # asked twice before the first answer came
        fresh = fresh[known:]
        if len(fresh):
            fresh_columns = {
                name: np.array(values[known:], float)
                for name, values in samples["columns"].items()
                if isinstance(values[0], (int, float))
            }
            if set(fresh_columns) != set(self._columns):
                self._times, self._columns = fresh, fresh_columns
            else:
                self._times = np.concatenate([self._times, fresh])[-KEPT:]
                self._columns = {
                    name: np.concatenate([self._columns[name], values])[-KEPT:]
                    for name, values in fresh_columns.items()
                }
            self._newest = {name: values[-1] for name, values in samples["columns"].items()}
            self._offer(samples.get("asked_hz") or 0.0)
            self._show_values()
        self._show_rate(samples)
        self._last = (samples.get("asked_hz") or 0.0, now_us)
        self._draw(*self._last)

    def _show_rate(self, samples: dict[str, Any]) -> None:
        actual, asked = samples.get("rate_hz"), samples.get("asked_hz")
        text = number_text.rate(actual)
        if asked:
            text += (
                f" of {number_text.rate(asked)}"
                if actual is None or actual >= 0.95
                else f", asked {number_text.rate(asked)}"
            )
        self._rate.text = text
        self._rate.recolour("warn" if actual is not None and asked and actual < SLOW_SHARE * asked else "soft")
        gaps = samples.get("gaps", 0)
        if gaps:
            self._gaps.text = (
                f"{number_text.plural(gaps, 'gap')}, silent for {number_text.duration(samples.get('gap_s', 0))} in all"
            )
        else:
            self._gaps.text = "no gaps since the start" if samples.get("readings") else "no reading yet"
        self._gaps.recolour("warn" if gaps else "soft")

    # --- what is drawn --------------------------------------------------------------------------------------------

    def _offer(self, asked_hz: float) -> None:
        """What can be drawn of this sensor: a vector has a magnitude, and what comes regularly a spectrum."""
        offered = [VALUES]
        if all(name in self._columns for name in VECTOR):
            offered.append(MAGNITUDE)
        if asked_hz and self._drawn():
            offered.append(SPECTRUM)
        if offered == self._offered:
            return
        self._offered = offered
        if self._shows not in offered:
            self._shows = VALUES
        choices = Choices({each: each for each in offered}, self._shows, self._choose)
        replace(self._choice_place, *([choices] if len(offered) > 1 else []))

    def _choose(self, shows: str) -> None:
        self._shows, self._spectrum_at = shows, 0.0
        self._show_values()
        self._draw(*self._last)

    def _show_values(self) -> None:
        """The newest of each, with the colour it is drawn in."""
        if self._shows == MAGNITUDE:
            length = float(magnitude([self._columns[name][-1:] for name in VECTOR])[0])
            shown = {MAGNITUDE.lower(): f"{number_text.number(length)} {self._unit}"}
        else:
            shown = {name: _value_text(name, value) for name, value in self._newest.items()}
        drawn = list(shown) if self._shows == MAGNITUDE else self._drawn()
        if (legend := (self._shows, *shown)) != self._legend:
            self._legend = legend
            self._numbers = {}
            parts = []
            for name in shown:
                text = self._numbers[name] = Text("", size="label", bold=True, fit=True)
                swatch = [Swatch(f"series-{drawn.index(name)}")] if name in drawn else []
                part = Row(*swatch, Text(name, size="label", colour="soft", fit=True), text, gap=6, size_hint_x=None)
                part.bind(minimum_width=part.setter("width"))
                parts.append(part)
            replace(self._values, *parts)
            self._plot = LinePlot([f"series-{index}" for index in range(len(drawn))], height=128) if drawn else None
            replace(self._plot_place, *([self._plot] if self._plot else []))
            replace(self._note_place, *([self._note] if self._shows == SPECTRUM else []))
        for name, value in shown.items():
            self._numbers[name].text = value

    def _drawn(self) -> list[str]:
        wanted = DRAWN.get(self.sensor, tuple(self._columns))
        return [name for name in wanted if name in self._columns][:SERIES_MAX]

    def _draw(self, asked: float, now_us: int) -> None:
        if self._plot is None or not len(self._times):
            return
        if self._shows == SPECTRUM:
            if (now := time.monotonic()) >= self._spectrum_at:
                self._spectrum_at = now + SPECTRUM_EVERY_S
                self._draw_spectrum(self._plot, asked)
            return
        span_shown_s = SPAN_S if not asked or asked >= 0.5 else SPAN_S * 20
        end_us = max(now_us, self.newest_us)
        start = int(np.searchsorted(self._times, end_us - int(span_shown_s * 1e6)))
        times = (self._times[start:] - end_us) / 1e6
        if self._shows == MAGNITUDE:
            series = [magnitude([self._columns[name][start:] for name in VECTOR])]
        else:
            series = [self._columns[name][start:] for name in self._drawn()]
        if len(times):
            below = [(0.0, f"{number_text.duration(span_shown_s)} ago"), (1.0, "now")]
            self._plot.show(times, series, (-span_shown_s, 0.0), below, gap=3 / asked if asked else float("inf"))

    def _draw_spectrum(self, plot: LinePlot, asked_hz: float) -> None:
        start = int(np.searchsorted(self._times, self.newest_us - int(span_s(asked_hz) * 1e6)))
        times = (self._times[start:] - self.newest_us) / 1e6
        found = {name: spectrum(times, self._columns[name][start:]) for name in self._drawn()}
        there = [each for each in found.values() if not each.why]
        self._note.text = spectrum_text(found, self._unit)
        plot.opacity = 1.0 if there else 0.25  # what was drawn before is not of now
        if there:
            hz = there[0].hz
            seen = hz >= there[0].resolution_hz  # what is slower is left of the trend
            same = [
                each.amplitude[seen] if len(each.hz) == len(hz) else np.zeros(seen.sum()) for each in found.values()
            ]
            across = np.log10(hz[seen])
            span = (float(across[0]), float(across[-1]))
            plot.show(across, same, span, _hertz_below(*span))


def _value_text(name: str, value: Any) -> str:
    if name in ("lat", "lon") and isinstance(value, float):
        return f"{value:.5f}°"
    return number_text.number(value) if isinstance(value, float) else str(value)


def _hertz_below(low: float, high: float) -> list[tuple[float, str]]:
    """Round frequencies below an axis that goes by powers of ten: walking and engines both have room."""
    decades = range(math.floor(low), math.ceil(high) + 1)
    finer = [digit * 10.0**power for power in decades for digit in (1, 2, 5)]
    fine = [each for each in finer if low <= math.log10(each) <= high]
    if len(fine) > TICKS_MAX:
        coarser = [digit * 10.0**power for power in decades for digit in (1, 3)]
        fine = [each for each in coarser if low <= math.log10(each) <= high]
    places = [(math.log10(each) - low) / (high - low) for each in fine]
    return [(at, f"{each:g}{' Hz' if each == fine[-1] else ''}") for at, each in zip(places, fine, strict=True)]


def spectrum_text(found: dict[str, Spectrum], unit: str) -> str:
    """What swings strongest, of how long, and how fine that is; or why there is nothing to see."""
    there = {name: each for name, each in found.items() if not each.why}
    if not there:
        return next(each.why for each in found.values())
    first = next(iter(there.values()))
    swinging = {name: each for name, each in there.items() if each.strongest_hz is not None}
    said = "Nothing swings."
    if swinging:
        name, best = max(swinging.items(), key=lambda item: item[1].strongest)
        which = f"{name} at " if len(found) > 1 else ""
        amplitude = f"{best.strongest:.3g} {unit}".strip()
        said = f"Strongest: {which}{number_text.hertz(best.strongest_hz or 0.0, best.resolution_hz)}, {amplitude}."
    return f"{said} Of the last {number_text.duration(first.seconds)}, resolution {first.resolution_hz:.2g} Hz."


class LivePage(Page):
    name, title, icon = "live", "Live", "live"

    def build(self, body: Column) -> None:
        self._notices = Column(gap=12)
        self._cards: dict[str, SensorCard] = {}
        self._holder = Column(gap=12)
        self._missing: object = None
        self._is_empty = False
        body.add_widget(self._holder)
        body.add_widget(self._notices)

    def sensors(self, view: View) -> list[str]:
        """Every sensor there is leave to read, those that are being read first."""
        consents = view.get("consents", {})
        known = [sensor for sensor in view.get("sensors", {}) if consents.get(sensor) is not False]
        allowed = [sensor for sensor, yes in sorted(consents.items()) if yes and sensor not in known]
        return [sensor for sensor in known + allowed if sensor not in self.missing(view)]

    def missing(self, view: View) -> dict[str, str]:
        """Those that cannot be read. One that its person keeps from the plan is no trouble, and may be looked at."""
        refused = view.get("refused_sensors", [])
        return {sensor: why for sensor, why in view.get("missing_sensors", {}).items() if sensor not in refused}

    def refresh(self) -> None:
        for sensor, card in self._cards.items():
            self.app.ask(partial(_newest, sensor, card.newest_us), partial(self._show, card), key=("samples", sensor))

    def _show(self, card: SensorCard, samples: dict[str, Any]) -> None:
        card.take(samples, (self.app.view or {}).get("time_us", 0))

    def show(self, view: View) -> None:
        sensors = self.sensors(view)
        if list(self._cards) != sensors or (not sensors and not self._is_empty):
            self._cards = {sensor: self._cards.get(sensor) or SensorCard(sensor) for sensor in sensors}
            self._is_empty = not sensors
            replace(self._holder, *(self._cards.values() or [self._nothing()]))
            self.refresh()
        if (missing := self.missing(view)) != self._missing:
            self._missing = missing
            replace(
                self._notices,
                *(Notice("warn", f"{name} is missing", sentence(why)) for name, why in sorted(missing.items())),
            )

    def _nothing(self) -> Empty:
        return Empty(
            "live", "No sensor is being read",
            "Choose in Setup which sensors this app may read. You will see each one here, with the rate it really has.",
            PushButton("Choose sensors", lambda: self.app.go("setup"), kind="tonal", icon="setup", fit=True),
        )  # fmt: skip
