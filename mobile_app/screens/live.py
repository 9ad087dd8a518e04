"""Live: what each sensor gives now, how fast it really is, and where it was silent."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mobile_app.screens.page import Empty, Page, View, sentence
from mobile_app.screens.widgets.controls import PushButton
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
UNITS = {"accelerometer": "m/s²", "linear_acceleration": "m/s²", "gravity": "m/s²", "gyroscope": "rad/s",
         "magnetometer": "µT", "barometer": "hPa", "light": "lx", "microphone": "dB"}  # fmt: skip


def _newest(sensor: str, after_us: int, client: ServiceClient) -> dict[str, Any]:
    return client.samples(sensor, after_us)


class SensorCard(Card):
    """One sensor: plot, newest values, rate against what was asked, gaps."""

    def __init__(self, sensor: str) -> None:
        self.sensor = sensor
        self._rate = Text("", size="label", colour="soft", align="right", fit=True)
        self._gaps = Text("", size="caption", colour="soft")
        self._plot_place = Column()
        self._values = Wrap(gap=12)
        unit = f"  {UNITS[sensor]}" if sensor in UNITS else ""
        super().__init__(
            Row(Icon(sensor_icon(sensor), side=22, colour="accent"),
                Text(sensor + unit, size="title", bold=True, one_line=True), self._rate, gap=10),
            self._plot_place, self._values, self._gaps, gap=8, padding=(18, 14, 18, 14),
        )  # fmt: skip
        self._times = np.empty(0, np.int64)
        self._columns: dict[str, np.ndarray] = {}
        self._plot: LinePlot | None = None
        self._names: list[str] = []
        self._numbers: dict[str, Text] = {}

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
            self._show_values(samples["columns"])
        self._show_rate(samples)
        self._draw(samples, now_us)

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

    def _show_values(self, columns: dict[str, list[Any]]) -> None:
        names = [name for name, values in columns.items() if values]
        if names != self._names:
            self._names = names
            drawn = self._drawn()
            self._numbers = {}
            parts = []
            for name in names:
                text = self._numbers[name] = Text("", size="label", bold=True, fit=True)
                swatch = [Swatch(f"series-{drawn.index(name)}")] if name in drawn else []
                part = Row(*swatch, Text(name, size="label", colour="soft", fit=True), text, gap=6, size_hint_x=None)
                part.bind(minimum_width=part.setter("width"))
                parts.append(part)
            replace(self._values, *parts)
            self._plot = LinePlot([f"series-{index}" for index in range(len(drawn))], height=128) if drawn else None
            replace(self._plot_place, *([self._plot] if self._plot else []))
        for name in names:
            value = columns[name][-1]
            shown = number_text.number(value) if isinstance(value, float) else str(value)
            if name in ("lat", "lon") and isinstance(value, float):
                shown = f"{value:.5f}°"
            self._numbers[name].text = shown

    def _drawn(self) -> list[str]:
        wanted = DRAWN.get(self.sensor, tuple(self._columns))
        return [name for name in wanted if name in self._columns][:SERIES_MAX]

    def _draw(self, samples: dict[str, Any], now_us: int) -> None:
        if self._plot is None or not len(self._times):
            return
        asked = samples.get("asked_hz") or 0
        span_s = SPAN_S if not asked or asked >= 0.5 else SPAN_S * 20
        end_us = max(now_us, self.newest_us)
        start = int(np.searchsorted(self._times, end_us - int(span_s * 1e6)))
        times = (self._times[start:] - end_us) / 1e6
        series = [self._columns[name][start:] for name in self._drawn()]
        if len(times):
            below = [(0.0, f"{number_text.duration(span_s)} ago"), (1.0, "now")]
            self._plot.show(times, series, (-span_s, 0.0), below, gap=3 / asked if asked else float("inf"))


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
        known = list(view.get("sensors", {}))
        allowed = [sensor for sensor, yes in sorted(view.get("consents", {}).items()) if yes and sensor not in known]
        return [sensor for sensor in known + allowed if sensor not in view.get("missing_sensors", {})]

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
        missing = view.get("missing_sensors", {})
        if missing != self._missing:
            self._missing = dict(missing)
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
