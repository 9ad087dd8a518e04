"""Flow: the plan that runs, drawn: what is computed on this phone, what goes up, what the cloud makes of it."""

from __future__ import annotations

import re
from typing import Any

from kivy.clock import Clock
from kivy.effects.scroll import ScrollEffect
from kivy.graphics import Color, InstructionGroup, SmoothLine, SmoothRoundedRectangle
from kivy.metrics import dp
from kivy.uix.boxlayout import BoxLayout
from kivy.uix.scrollview import ScrollView
from kivy.uix.widget import Widget

from mobile_app import wording
from mobile_app.screens.controls import PushButton
from mobile_app.screens.icons import Icon, sensor_icon
from mobile_app.screens.look import look
from mobile_app.screens.page import Empty, Page, View, sentence
from mobile_app.screens.surfaces import Card, Notice, paint
from mobile_app.screens.text import Column, Row, Text, replace

KIND_ICONS = {
    "where": "filter", "select": "list", "significant": "filter", "sync": "up", "sync_back": "return", "timer": "clock",
    "window_aggregate": "window", "aggregate": "window", "key_by": "key", "apply": "box", "union": "flow", "join": "flow",
    "combine": "flow", "latest": "flow", "state": "buffer", "subscribe": "phone",
}  # fmt: skip
UNIT = re.compile(r"(\d) (?=[a-zµ%])")  # a number and its unit stay on one line
LANE = 168  # no box is narrower; more lanes scroll sideways
SIDES = {"device": ("phone", "On this phone"), "cloud": ("cloud", "In the cloud")}


class Operator(Row):
    """One operator: its icon, and what it does in a few words."""

    def __init__(self, operator: dict[str, Any], note: str = "") -> None:
        self.id = operator["id"]
        kind, text = operator["kind"], operator["text"]
        icon = sensor_icon(text.split(" ")[1]) if kind == "sensor" and " " in text else KIND_ICONS.get(kind, "box")
        words = Column(
            Text(UNIT.sub("\\1\u00a0", text), size="label", bold=kind in ("sensor", "sync", "sync_back")), gap=1
        )
        if note:
            words.add_widget(Text(note, size="caption", colour="soft"))
        here = operator["side"] == "device"
        super().__init__(
            Icon(icon, side=20, colour="accent" if here else "soft"),
            words,
            gap=10,
            padding=(12, 11, 12, 11),
            height_min=46,
        )
        paint(self, "card", corner=12, border="line")


class Diagram(Column):
    """Operators in layers, each below what it reads, with lines between; the cloud's on their own ground."""

    def __init__(self, plan: dict[str, Any], notes: dict[int, str]) -> None:
        super().__init__(gap=0)
        self._operators = {operator["id"]: operator for operator in plan["operators"]}
        self._boxes: dict[int, Operator] = {}
        self._lines = InstructionGroup()
        self._trigger = Clock.create_trigger(self._draw, 0)
        self.canvas.before.add(self._lines)
        self._grounds: list[tuple[Widget, str]] = []
        self.lanes = 1
        for side in SIDES:
            mine = [operator for operator in plan["operators"] if operator["side"] == side]
            if not mine:
                continue
            if self._grounds:
                self.add_widget(Widget(size_hint_y=None, height=dp(40)))
            rows, lanes = placed(mine)
            self.lanes = max(self.lanes, lanes)
            self.add_widget(self._zone(side, rows, lanes, notes))
        self.bind(pos=self._later, size=self._later)

    def _zone(self, side: str, rows: list[dict[int, dict[str, Any]]], lanes: int, notes: dict[int, str]) -> Column:
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
            for lane in range(lanes):
                operator = row.get(lane)
                if operator is None:
                    layer.add_widget(Widget(size_hint_y=None, height=0))
                    continue
                box = self._boxes[operator["id"]] = Operator(operator, notes.get(operator["id"], ""))
                box.pos_hint = {"center_y": 0.5}
                box.bind(pos=self._later)
                layer.add_widget(box)
            zone.add_widget(layer)
        return zone

    def _later(self, *_: object) -> None:
        """Boxes move one after the other; the lines are drawn once they are all in place."""
        self._trigger()

    def _draw(self, _dt: float = 0) -> None:
        self._lines.clear()
        for zone, fill in self._grounds:
            self._lines.add(Color(*look.colour(fill, 0.8)))
            self._lines.add(SmoothRoundedRectangle(pos=zone.pos, size=zone.size, radius=[dp(18)]))
        for operator in self._operators.values():
            for source in operator["inputs"]:
                if source in self._boxes and operator["id"] in self._boxes:
                    self._connect(self._boxes[source], self._boxes[operator["id"]])

    def _connect(self, upper: Operator, lower: Operator) -> None:
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
            middle = (start_y + end_y) / 2
            points = [start_x, start_y, start_x, middle, end_x, middle, end_x, end_y]
        self._lines.add(Color(*look.colour("accent")))
        self._lines.add(SmoothLine(points=points, width=dp(0.9)))
        tip = dp(4.5)
        if start_y >= end_y:
            self._lines.add(
                SmoothLine(
                    points=[end_x - tip, end_y + tip, end_x, end_y + dp(1), end_x + tip, end_y + tip], width=dp(0.9)
                )
            )


def placed(operators: list[dict[str, Any]]) -> tuple[list[dict[int, dict[str, Any]]], int]:
    """Rows of {lane: operator}, each operator below what it reads and in the lane of it.

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
    lanes: dict[int, int] = {}
    for operator in sorted(operators, key=lambda one: (depth[one["id"]], one["id"])):
        row = rows[depth[operator["id"]]]
        wanted = sorted({lanes[source] for source in operator["inputs"] if source in lanes})
        lane = (
            wanted[0]
            if wanted and wanted[0] not in row
            else next(free for free in range(len(operators)) if free not in row)
        )
        lanes[operator["id"]] = lane
        row[lane] = operator
    return [row for row in rows if row], 1 + max(lanes.values(), default=0)


def _sideways(diagram: Diagram) -> Widget:
    """The diagram, scrolling sideways where its lanes need more room than there is."""
    scroll = ScrollView(do_scroll_y=False, size_hint_y=None, bar_width=dp(3), effect_cls=ScrollEffect)
    diagram.bind(height=scroll.setter("height"))
    diagram.size_hint_x = None
    scroll.bind(width=lambda _scroll, width: setattr(diagram, "width", max(width, dp(LANE) * diagram.lanes)))
    scroll.add_widget(diagram)
    return scroll


class FlowPage(Page):
    name, title, icon = "flow", "Flow", "flow"

    def build(self, body: Column) -> None:
        self._content = Column(gap=12)
        body.add_widget(self._content)
        self._plan: dict[str, Any] | None = None
        self._drawn: object = None

    def refresh(self) -> None:
        self.desk.ask(lambda client: client.plan(), self._take_plan, key="plan")

    def _take_plan(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        if self.desk.view is not None:
            self.show(self.desk.view)

    def show(self, view: View) -> None:
        plan = self._plan
        if plan is None:
            return
        notes = self._notes(view, plan) if plan else {}
        state = (repr(plan), tuple(notes.items()), repr(view.get("missing_sensors")), view.get("gateway"))
        if state == self._drawn:
            return
        self._drawn = state
        if not plan:
            replace(self._content, self._nothing(view))
            return
        here = sum(operator["side"] == "device" for operator in plan["operators"])
        there = len(plan["operators"]) - here
        replace(
            self._content,
            Card(Text(str(plan["name"]), size="title", bold=True),
                 Text(f"Version {plan['version']}: {wording.plural(here, 'operator')} on this phone, {there} in the cloud", size="label",
                      colour="soft"), gap=3),
            *(Notice("warn", f"{name} is missing", sentence(why)) for name, why in sorted(view.get("missing_sensors", {}).items())),
            _sideways(Diagram(plan, notes)),
        )  # fmt: skip

    def _notes(self, view: View, plan: dict[str, Any]) -> dict[int, str]:
        """What has passed each place, where that is known."""
        notes: dict[int, str] = {}
        promises = {edge["name"]: edge.get("promise", "") for edge in plan.get("edges", [])}
        nodes = {edge.get("node"): edge["name"] for edge in plan.get("edges", [])}
        for operator in plan["operators"]:
            words = operator["text"].split(" ")
            if operator["kind"] == "sensor" and len(words) > 1:
                state = view.get("sensors", {}).get(words[1])
                if isinstance(state, dict):
                    notes[operator["id"]] = (
                        f"{wording.rate(state.get('rate_hz'))}, {wording.plural(state['readings'], 'reading')}"
                    )
            elif operator["id"] in nodes:
                name = nodes[operator["id"]]
                edge = view.get("edges", {}).get(name)
                if edge:
                    told = f"{wording.count(edge['delivered'])} delivered, {wording.count(edge['spooled'])} waiting"
                    notes[operator["id"]] = f"{promises[name]}: {told}" if promises.get(name) else told
        return notes

    def _nothing(self, view: View) -> Widget:
        if view.get("gateway") is None:
            return Empty(
                "flow", "No plan runs here",
                "A plan says what this phone computes and what it sends. Pair with a gateway and it brings one; recording "
                "works without.",
                PushButton("Pair this phone", lambda: self.desk.go("setup"), kind="tonal", icon="link", fit=True),
            )  # fmt: skip
        return Empty(
            "flow", "Waiting for a plan", "The gateway has not sent one yet. It arrives with the next exchange."
        )
