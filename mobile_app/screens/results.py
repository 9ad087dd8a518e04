"""Results: what came back from the cloud, as a chart, as a trace on the ground, or as a list."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from kivy.uix.widget import Widget

from mobile_app.screens.page import Empty, Page, View, section
from mobile_app.screens.result_rows import listed
from mobile_app.screens.widgets.controls import Choices, PushButton
from mobile_app.screens.widgets.plots import BarPlot, TracePlot
from mobile_app.screens.widgets.surfaces import Card, Figure, figures
from mobile_app.screens.widgets.text import Column, Text, Wrap, replace
from mobile_app.screens.words import number_text, result_words
from mobile_app.screens.words.quantities import quantity

BARS_MAX = 40
CHARTED_MAX = 6  # columns that can be chosen for the chart; the list has them all
Identity = tuple[str, str, int, int, int]


class ResultsPage(Page):
    name, title, icon = "results", "Results", "results"

    def build(self, body: Column) -> None:
        self._rows: dict[Identity, dict[str, Any]] = {}
        self._through = 0
        self._sink = ""
        self._column = ""
        self._shape = ""  # what the person chose; until then, what suits the rows
        self._drawing = "chart"
        self._drawn: object = None
        self._choices, self._content = Column(gap=12), Column(gap=12)
        self._offered: object = None
        body.add_widget(self._choices)
        body.add_widget(self._content)

    def refresh(self) -> None:
        after = self._through
        self.app.ask(lambda client: client.results(after), self._take, key="results")

    def _take(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            identity = (
                row["sink"], repr(row["key"]), row["window_start_us"], row["window_end_us"], row.get("row", 0),
            )  # fmt: skip
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
        view = self.app.view or {}
        today = number_text.moment(self._now_us()).partition(",")[0]  # tomorrow it is called yesterday
        state = (tuple(sinks), self._sink, self._column, self._shape, self._through, view.get("gateway"), today)
        if state == self._drawn:
            return
        self._drawn = state
        if self._sink not in sinks:
            newest = max(self._rows.values(), key=lambda row: row["number"], default={"sink": ""})
            self._sink = newest["sink"]
        rows = self._of(self._sink)
        self._offer(sinks, rows)
        if not sinks:
            replace(self._content, self._nothing(view))
        elif not rows:
            replace(self._content, Empty("results", "Taken back", "Every result of this kind was corrected away."))
        else:
            drawing = {"chart": self._chart, "trace": self._trace, "list": self._list}[self._drawing]
            replace(self._content, *drawing(rows))

    def _offer(self, sinks: list[str], rows: list[dict[str, Any]]) -> None:
        """The choices above; they stay under the finger while rows come in."""
        shapes = {"chart": "Chart", "trace": "Trace", "list": "List"}
        if not any(result_words.has_position(row) for row in rows):
            del shapes["trace"]
        self._drawing = self._shape if self._shape in shapes else _suits(rows)
        if (offered := (tuple(sinks), self._sink, tuple(shapes), bool(rows))) == self._offered:
            return
        self._offered = offered
        parts: list[Widget] = []
        if len(sinks) > 1:
            parts.append(Choices({sink: number_text.words(sink) for sink in sinks}, self._sink, self._choose_sink))
        if rows:
            parts.append(Choices(shapes, self._drawing, self._choose_shape))
        replace(self._choices, *parts)

    def _nothing(self, view: View) -> Widget:
        if view.get("gateway") is None:
            return self.pair_first(
                "Results come from a gateway",
                "Pair this phone and its readings are worked on there. What comes out returns here, and stays here "
                "when you are offline.",
            )
        return Empty(
            "results", "Nothing has come back yet",
            "Results appear here once the running plan sends some back to this phone.",
            PushButton("See what is computed", lambda: self.app.go("flow"), kind="tonal", icon="flow", fit=True),
        )  # fmt: skip

    # --- the three shapes -------------------------------------------------------------------------------------------

    def _chart(self, rows: list[dict[str, Any]]) -> list[Widget]:
        columns = result_words.leading(rows, CHARTED_MAX)
        if not columns:
            return [Card(Text("These results hold no numbers to draw; see the list.", colour="soft"))]
        if self._column not in columns:
            self._column = columns[0]
        keys = sorted({repr(row["key"]) for row in rows})
        mine = [row for row in rows if repr(row["key"]) == keys[0]] if len(keys) > 1 else rows
        shown = mine[-BARS_MAX:]
        given = [row["values"].get(self._column) for row in shown]
        values = [float(value) if result_words.is_number(value) else math.nan for value in given]
        measured = quantity(self._column, given[-1])
        plot = BarPlot(height=200)
        below = [(0.0, self._when(shown[0])), (1.0, self._when(shown[-1]))]
        plot.show(values, [bool(row["complete"]) for row in shown], below if len(shown) > 1 else [(0.5, below[0][1])])
        finite = [value for value in given if result_words.is_number(value) and math.isfinite(value)]
        three = {"latest": given[-1], "highest": max(finite, default=None), "sum of these": sum(finite)}
        numbers = figures([Figure(name, measured.value(value)) for name, value in three.items()])
        title = f"{measured.label} in {measured.unit}" if measured.unit else measured.label
        card = Card(section(title, self._summary(shown)), numbers, plot)
        if len(columns) > 1:
            chips = Wrap()
            for column in columns:
                kind = "filled" if column == self._column else "outlined"
                label = quantity(column).label
                chips.add_widget(PushButton(label, partial(self._choose_column, column), kind=kind, fit=True))
            card.add_widget(chips)
        return [card]

    def _summary(self, rows: list[dict[str, Any]]) -> str:
        partial = sum(not row["complete"] for row in rows)
        text = number_text.plural(len(rows), "result")
        return f"{text}, {partial} of them incomplete (lighter)" if partial else text

    def _trace(self, rows: list[dict[str, Any]]) -> list[Widget]:
        positions = [row for row in rows if result_words.has_position(row)]
        plot = TracePlot(height=340)
        latitude = np.array([row["values"]["lat"] for row in positions], float)
        longitude = np.array([row["values"]["lon"] for row in positions], float)
        plot.show(latitude, longitude)
        ends = f"{self._when(positions[0])} to {self._when(positions[-1])}"
        note = f"{number_text.plural(len(positions), 'place')}, {ends}. North is up; the ring is where it began."
        return [Card(section("The way", note), plot)]

    def _list(self, rows: list[dict[str, Any]]) -> list[Widget]:
        return listed(rows, self._now_us(), self.app.open_sheet)

    def _now_us(self) -> int:
        return int((self.app.view or {}).get("time_us", 0))

    def _when(self, row: dict[str, Any]) -> str:
        """Below a plot there is little room."""
        end_us = row["window_end_us"]
        noon_us = end_us - result_words.DAY_US // 2  # of its last day: in UTC it has the same date
        return number_text.day(noon_us) if result_words.is_report(row) else number_text.clock_time(end_us)

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


def _suits(rows: list[dict[str, Any]]) -> str:
    """Rows that have a name, and reports on whole days, are read; measurements one after the other are looked at."""
    newest = rows[-1] if rows else None
    named = newest is not None and any(isinstance(value, str) and value for value in newest["values"].values())
    return "list" if newest is not None and (named or result_words.is_report(newest)) else "chart"
