"""A plan, drawn: operators below what they read, lines between, the phone's and the cloud's on their own ground."""

from __future__ import annotations

import re
from typing import Any

from kivy.clock import Clock
from kivy.graphics import Color, InstructionGroup, SmoothLine, SmoothRoundedRectangle
from kivy.metrics import dp
from kivy.uix.boxlayout import BoxLayout
from kivy.uix.widget import Widget

from mobile_app.screens.widgets.appearance import look
from mobile_app.screens.widgets.icons import Icon, sensor_icon
from mobile_app.screens.widgets.surfaces import paint
from mobile_app.screens.widgets.text import Column, Row, Text

KIND_ICONS = {
    "where": "filter", "select": "list", "significant": "filter", "sync": "up", "sync_back": "return", "timer": "clock",
    "window_aggregate": "window", "key_by": "key", "apply": "box", "union": "flow", "join": "flow",
    "combine": "flow", "latest": "flow", "state": "buffer", "subscribe": "phone",
}  # fmt: skip
UNBREAKABLE = re.compile(r"(?<=\d) (?=[a-zµ%])|(?<=[<>=]) (?=\S)")  # a number stays on one line with its unit or sign
COLUMN_WIDTH = 168  # no box is narrower; more columns scroll sideways
SIDES = {
    "device": ("phone", "On this phone"), "region": ("box", "On nodes nearby"), "cloud": ("cloud", "In the cloud"),
}  # fmt: skip


class Operator(Row):
    """One operator: its icon, and what it does in a few words."""

    def __init__(self, operator: dict[str, Any]) -> None:
        self.id = operator["id"]
        kind, text = operator["kind"], operator["text"]
        icon = sensor_icon(text.split(" ")[1]) if kind == "sensor" and " " in text else KIND_ICONS.get(kind, "box")
        bold = kind in ("sensor", "gather", "sync", "sync_back")
        self._words = Column(Text(UNBREAKABLE.sub("\u00a0", text), size="label", bold=bold), gap=1)
        self._note: Text | None = None
        here = operator["side"] == "device"
        super().__init__(
            Icon(icon, side=20, colour="accent" if here else "soft"),
            self._words,
            gap=10,
            padding=(12, 11, 12, 11),
            height_min=46,
        )
        paint(self, "card", corner=12, border="line")

    def note(self, text: str) -> None:
        """A line below, about what passes here."""
        if self._note is None:
            self._note = Text(text, size="caption", colour="soft")
            self._words.add_widget(self._note)
        elif self._note.text != text:
            self._note.text = text


class Diagram(Column):
    """Operators in layers, each below what it reads, with lines between; the cloud's on their own ground."""

    def __init__(self, plan: dict[str, Any]) -> None:
        super().__init__(gap=0)
        self._operators = {operator["id"]: operator for operator in plan["operators"]}
        self._boxes: dict[int, Operator] = {}
        self._lines = InstructionGroup()
        self._trigger = Clock.create_trigger(self._draw, 0)
        self.canvas.before.add(self._lines)
        self._grounds: list[tuple[Widget, str]] = []
        self.columns = 1
        for side in SIDES:
            mine = [operator for operator in plan["operators"] if operator["side"] == side]
            if not mine:
                continue
            if self._grounds:
                self.add_widget(Widget(size_hint_y=None, height=dp(40)))
            rows, columns = arrange(mine)
            self.columns = max(self.columns, columns)
            self.add_widget(self._zone(side, rows, columns))
        self.bind(pos=self._later, size=self._later)

    def _zone(self, side: str, rows: list[dict[int, dict[str, Any]]], columns: int) -> Column:
        icon, title = SIDES[side]
        zone = Column(
            Row(Icon(icon, side=18, colour="on_tint" if side == "device" else "soft"),
                Text(title, size="label", colour="on_tint" if side == "device" else "soft", bold=True), gap=8),
            gap=20, padding=(14, 14, 14, 16),
        )  # fmt: skip
        self._grounds.append((zone, "tint" if side == "device" else "raised"))
        for row in rows:
            layer = BoxLayout(spacing=dp(10), size_hint_y=None)
            layer.bind(minimum_height=layer.setter("height"))
            for column in range(columns):
                operator = row.get(column)
                if operator is None:
                    layer.add_widget(Widget(size_hint_y=None, height=0))
                    continue
                box = self._boxes[operator["id"]] = Operator(operator)
                box.pos_hint = {"center_y": 0.5}
                box.bind(pos=self._later)
                layer.add_widget(box)
            zone.add_widget(layer)
        return zone

    def note(self, operator: int, text: str) -> None:
        self._boxes[operator].note(text)

    def _later(self, *_: object) -> None:
        """Boxes move one after the other; the lines are drawn once they are all in place."""
        self._trigger()

    def _draw(self, _dt: float = 0) -> None:
        self._lines.clear()
        for zone, fill in self._grounds:
            self._lines.add(Color(*look.blend(fill, "page", 0.8)))
            self._lines.add(SmoothRoundedRectangle(pos=zone.pos, size=zone.size, radius=[dp(18)]))
        for operator in self._operators.values():
            bend = min(
                (self._boxes[source].y for source in operator["inputs"] if source in self._boxes), default=0
            ) - dp(26)
            for source in operator["inputs"]:
                if source in self._boxes and operator["id"] in self._boxes:
                    self._connect(self._boxes[source], self._boxes[operator["id"]], bend)

    def _connect(self, upper: Operator, lower: Operator, bend: float) -> None:
        start_x, start_y, end_x, end_y = upper.center_x, upper.y, lower.center_x, lower.top
        if start_y < end_y:  # back up: a feedback edge runs along the side
            side = max(upper.right, lower.right) + dp(8)
            points = [
                upper.right,
                upper.center_y,
                side,
                upper.center_y,
                side,
                lower.center_y,
                lower.right,
                lower.center_y,
            ]
        elif abs(start_x - end_x) < 1:
            points = [start_x, start_y, end_x, end_y]
        else:
            bend = max(bend, end_y + dp(8))
            points = [start_x, start_y, start_x, bend, end_x, bend, end_x, end_y]
        self._lines.add(Color(*look.colour("accent")))
        self._lines.add(SmoothLine(points=points, width=dp(0.9)))
        tip = dp(4.5)
        if start_y >= end_y:
            self._lines.add(
                SmoothLine(
                    points=[end_x - tip, end_y + tip, end_x, end_y + dp(1), end_x + tip, end_y + tip], width=dp(0.9)
                )
            )


def arrange(operators: list[dict[str, Any]]) -> tuple[list[dict[int, dict[str, Any]]], int]:
    """Rows of {column: operator}, each operator below what it reads and in the column of it.

    What leaves this side waits for the last row, so that everything that goes up stands side by side. A feedback edge
    is cut where it comes back: a plan lists inputs before their readers, feedback aside.
    """
    depth: dict[int, int] = {}
    for operator in operators:
        depth[operator["id"]] = 1 + max((depth.get(source, -1) for source in operator["inputs"]), default=-1)
    last = max(depth.values(), default=0)
    for operator in operators:
        if operator["kind"] == "sync":
            depth[operator["id"]] = last
    rows: list[dict[int, dict[str, Any]]] = [{} for _ in range(last + 1)]
    columns: dict[int, int] = {}
    for operator in sorted(operators, key=lambda one: (depth[one["id"]], one["id"])):
        row = rows[depth[operator["id"]]]
        wanted = sorted({columns[source] for source in operator["inputs"] if source in columns})
        column = (
            wanted[0]
            if wanted and wanted[0] not in row
            else next(free for free in range(len(operators)) if free not in row)
        )
        columns[operator["id"]] = column
        row[column] = operator
    return [row for row in rows if row], 1 + max(columns.values(), default=0)
