"""Results: what came back from the cloud, as a chart, as a trace on the ground, or as a list."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from kivy.uix.widget import Widget

from mobile_app import wording
from mobile_app.screens.controls import Choices, PushButton
from mobile_app.screens.page import Empty, Page, View, section
from mobile_app.screens.plots import BarPlot, TracePlot
from mobile_app.screens.surfaces import Card, Chip, Divider, Figure
from mobile_app.screens.text import Column, Row, Text, Wrap, replace

BARS_MAX = 40
ROWS_MAX = 30
Identity = tuple[str, str, int, int]


class ResultsPage(Page):
    name, title, icon = "results", "Results", "results"

    def build(self, body: Column) -> None:
        self._rows: dict[Identity, dict[str, Any]] = {}
        self._through = 0
        self._sink = ""
        self._column = ""
        self._shape = "chart"
        self._drawn: object = None
        self._choices, self._content = Column(gap=12), Column(gap=12)
        self._offered: object = None
        body.add_widget(self._choices)
        body.add_widget(self._content)

    def refresh(self) -> None:
        self.desk.ask(lambda client, after=self._through: client.results(after), self._take, key="results")

    def _take(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            identity = (row["sink"], repr(row["key"]), row["window_start_us"], row["window_end_us"])
            kept = self._rows.get(identity)
            if kept is None or row["revision"] > kept["revision"]:
                self._rows[identity] = row
            self._through = max(self._through, row["number"])
        self._draw()

    def show(self, _view: View) -> None:
        self._draw()

    # --- what there is --------------------------------------------------------------------------------------------

    def _of(self, sink: str) -> list[dict[str, Any]]:
        rows = [row for row in self._rows.values() if row["sink"] == sink and not row.get("retract")]
        return sorted(rows, key=lambda row: (row["window_end_us"], row["number"]))

    def _draw(self) -> None:
        sinks = sorted({row["sink"] for row in self._rows.values()})
        view = self.desk.view or {}
        state = (tuple(sinks), self._sink, self._column, self._shape, self._through, view.get("gateway"))
        if state == self._drawn:
            return
        self._drawn = state
        if self._sink not in sinks:
            self._sink = sinks[0] if sinks else ""
        rows = self._of(self._sink)
        self._offer(sinks, rows)
        if not sinks:
            replace(self._content, self._nothing(view))
        elif not rows:
            replace(self._content, Empty("results", "Taken back", "Every result of this kind was corrected away."))
        else:
            drawing = {"chart": self._chart, "trace": self._trace, "list": self._list}[self._shape]
            replace(self._content, *drawing(rows))

    def _offer(self, sinks: list[str], rows: list[dict[str, Any]]) -> None:
        """The choices above; they stay under the finger while rows come in."""
        shapes = {"chart": "Chart", "trace": "Trace", "list": "List"}
        if not any(_placed(row) for row in rows):
            del shapes["trace"]
        if self._shape not in shapes:
            self._shape = "chart"
        if (offered := (tuple(sinks), self._sink, tuple(shapes), bool(rows))) == self._offered:
            return
        self._offered = offered
        parts: list[Widget] = []
        if len(sinks) > 1:
            parts.append(Choices({sink: sink.replace("_", " ") for sink in sinks}, self._sink, self._choose_sink))
        if rows:
            parts.append(Choices(shapes, self._shape, self._choose_shape))
        replace(self._choices, *parts)

    def _nothing(self, view: View) -> Widget:
        if view.get("gateway") is None:
            return Empty(
                "results", "Results come from a gateway",
                "Pair this phone and its readings are worked on there. What comes out returns here, and stays here "
                "when you are offline.",
                PushButton("Pair this phone", lambda: self.desk.go("setup"), kind="tonal", icon="link", fit=True),
            )  # fmt: skip
        return Empty(
            "results", "Nothing has come back yet",
            "Results appear here once the running plan sends some back to this phone.",
            PushButton("See what is computed", lambda: self.desk.go("flow"), kind="tonal", icon="flow", fit=True),
        )  # fmt: skip

    # --- the three shapes -------------------------------------------------------------------------------------------

    def _chart(self, rows: list[dict[str, Any]]) -> list[Widget]:
        columns = [
            name for name, value in rows[-1]["values"].items() if _is_number(value) and name not in ("lat", "lon")
        ]
        if not columns:
            return [Card(Text("These results hold no numbers to draw; see the list.", colour="soft"))]
        if self._column not in columns:
            self._column = columns[0]
        keys = sorted({repr(row["key"]) for row in rows})
        mine = [row for row in rows if repr(row["key"]) == keys[0]] if len(keys) > 1 else rows
        shown = mine[-BARS_MAX:]
        values = [_number(row["values"].get(self._column)) for row in shown]
        plot = BarPlot(height=200)
        below = [(0.0, _when(shown[0])), (1.0, _when(shown[-1]))] if len(shown) > 1 else [(0.5, _when(shown[0]))]
        plot.show(values, [bool(row["complete"]) for row in shown], below)
        finite = [value for value in values if math.isfinite(value)]
        figures = Row(
            Figure("latest", wording.number(values[-1])),
            Figure("highest", wording.number(max(finite, default=float("nan")))),
            Figure("sum of these", wording.number(sum(finite))), gap=10,
        )  # fmt: skip
        card = Card(section(f"{self._column} per window", self._told(shown)), figures, plot)
        if len(columns) > 1:
            chips = Wrap()
            for column in columns:
                kind = "filled" if column == self._column else "outlined"
                chips.add_widget(
                    PushButton(column, lambda column=column: self._choose_column(column), kind=kind, fit=True)
                )
            card.add_widget(chips)
        return [card]

    def _told(self, rows: list[dict[str, Any]]) -> str:
        partial = sum(not row["complete"] for row in rows)
        told = wording.plural(len(rows), "window")
        return f"{told}, {partial} of them incomplete (lighter)" if partial else told

    def _trace(self, rows: list[dict[str, Any]]) -> list[Widget]:
        placed = [row for row in rows if _placed(row)]
        plot = TracePlot(height=340)
        latitude = np.array([row["values"]["lat"] for row in placed], float)
        longitude = np.array([row["values"]["lon"] for row in placed], float)
        plot.show(latitude, longitude)
        ends = f"{_when(placed[0])} to {_when(placed[-1])}"
        note = f"{wording.plural(len(placed), 'place')}, {ends}. North is up; the ring is where it began."
        return [Card(section("The way", note), plot)]

    def _list(self, rows: list[dict[str, Any]]) -> list[Widget]:
        card = Card(gap=0, padding=(18, 8, 18, 8))
        for index, row in enumerate(reversed(rows[-ROWS_MAX:])):
            if index:
                card.add_widget(Divider())
            card.add_widget(_result_row(row))
        if len(rows) > ROWS_MAX:
            card.add_widget(Text(f"and {wording.count(len(rows) - ROWS_MAX)} older", size="label", colour="faint"))
        return [card]

    def _choose_sink(self, sink: str) -> None:
        self._sink = sink
        self._draw()

    def _choose_shape(self, shape: str) -> None:
        self._shape = shape
        self.scroll.scroll_y = 1
        self._draw()

    def _choose_column(self, column: str) -> None:
        self._column = column
        self._draw()


def _result_row(row: dict[str, Any]) -> Widget:
    values = "  ·  ".join(f"{name}\u00a0{_shown(name, value)}" for name, value in row["values"].items())
    marks = Row(gap=6, size_hint_x=None)
    marks.bind(minimum_width=marks.setter("width"))
    if not row["complete"]:
        marks.add_widget(Chip("incomplete", fill="warn_tint", colour="warn"))
    head = Row(Text(_span(row), bold=True, one_line=True), marks, gap=8, height_min=26)
    return Column(head, Text(values, size="label", colour="soft"), gap=2, padding=(0, 10, 0, 10))


def _span(row: dict[str, Any]) -> str:
    start, end = row["window_start_us"], row["window_end_us"]
    if not end:
        return ", ".join(map(str, row["key"])) or f"result {row['number']}"
    seconds = end - start < 600_000_000
    return f"{wording.clock_time(start, seconds=seconds)} – {wording.clock_time(end, seconds=seconds)}"


def _when(row: dict[str, Any]) -> str:
    return wording.clock_time(row["window_end_us"]) if row["window_end_us"] else f"no. {row['number']}"


def _placed(row: dict[str, Any]) -> bool:
    return _is_number(row["values"].get("lat")) and _is_number(row["values"].get("lon"))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(value: object) -> float:
    return float(value) if _is_number(value) else float("nan")  # type: ignore[arg-type]


def _shown(name: str, value: object) -> str:
    if name in ("lat", "lon") and isinstance(value, float):
        return f"{value:.5f}°"
    return wording.number(value) if isinstance(value, float) else str(value)
