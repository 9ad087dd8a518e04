"""Flow: the plan that runs: what is computed on this phone, what goes up, what the cloud makes of it."""

from __future__ import annotations

from typing import Any

from kivy.effects.scroll import ScrollEffect
from kivy.metrics import dp
from kivy.uix.scrollview import ScrollView
from kivy.uix.widget import Widget

from mobile_app.screens.page import Empty, Page, View, sentence
from mobile_app.screens.widgets.diagram import COLUMN_WIDTH, Diagram
from mobile_app.screens.widgets.surfaces import Card, Notice
from mobile_app.screens.widgets.text import Column, Text, replace
from mobile_app.screens.words import number_text

KEPT = "Nothing is read of it here, so nothing is delivered or given up. The gateway is told; change it in Setup."


def _sideways(diagram: Diagram) -> Widget:
    """The diagram, scrolling sideways where its columns need more room than there is."""
    scroll = ScrollView(do_scroll_y=False, size_hint_y=None, bar_width=dp(3), effect_cls=ScrollEffect)
    diagram.bind(height=scroll.setter("height"))
    diagram.size_hint_x = None
    scroll.bind(width=lambda _scroll, width: setattr(diagram, "width", max(width, dp(COLUMN_WIDTH) * diagram.columns)))
    scroll.add_widget(diagram)
    return scroll


class FlowPage(Page):
    name, title, icon = "flow", "Flow", "flow"

    def build(self, body: Column) -> None:
        self._content = Column(gap=12)
        body.add_widget(self._content)
        self._plan: dict[str, Any] | None = None
        self._drawn: object = None
        self._diagram: Diagram | None = None

    def refresh(self) -> None:
        self.app.ask(lambda client: client.plan(), self._take_plan, key="plan")

    def _take_plan(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        if self.app.view is not None:
            self.show(self.app.view)

    def show(self, view: View) -> None:
        plan = self._plan
        if plan is None:
            return
        missing = view.get("missing_sensors", {})
        refused = view.get("refused_sensors", [])
        state = (repr(plan), repr(missing), repr(refused), view.get("gateway"))
        if state != self._drawn:
            self._drawn = state
            self._draw(view, plan, {name: why for name, why in missing.items() if name not in refused})
        if self._diagram is not None:
            for operator, note in notes(view, plan).items():
                self._diagram.note(operator, note)

    def _draw(self, view: View, plan: dict[str, Any], missing: dict[str, str]) -> None:
        self._diagram = None
        if not plan:
            replace(self._content, self._nothing(view))
            return
        here = sum(operator["side"] == "device" for operator in plan["operators"])
        near = sum(operator["side"] == "region" for operator in plan["operators"])
        there = len(plan["operators"]) - here - near
        nearby = f"{near} on nodes nearby, " if near else ""
        mine = number_text.plural(here, "operator")
        text = f"Version {plan['version']}: {mine} on this phone, {nearby}{there} in the cloud"
        self._diagram = Diagram(plan)
        replace(
            self._content,
            Card(Text(str(plan["name"]), size="title", bold=True), Text(text, size="label", colour="soft"), gap=3),
            *(Notice("warn", f"{name} is missing", sentence(why)) for name, why in sorted(missing.items())),
            *(Notice("info", f"You keep {name} from this plan", KEPT) for name in view.get("refused_sensors", [])),
            _sideways(self._diagram),
        )  # fmt: skip

    def _nothing(self, view: View) -> Widget:
        if view.get("gateway") is None:
            return self.pair_first(
                "No plan runs here",
                "A plan says what this phone computes and what it sends. Pair with a gateway and it brings one; "
                "recording works without.",
            )
        return Empty(
            "flow", "Waiting for a plan", "The gateway has not sent one yet. It arrives with the next exchange."
        )


def notes(view: View, plan: dict[str, Any]) -> dict[int, str]:
    """What has passed each place, by operator, where that is known."""
    found: dict[int, str] = {}
    edges = {edge["node"]: edge for edge in plan.get("edges", [])}
    for operator in plan.get("operators", []):
        if operator["kind"] == "sensor":
            sensor = operator["text"].split(" ")[1]
            state = view.get("sensors", {}).get(sensor)
            if sensor in view.get("refused_sensors", []):
                found[operator["id"]] = "kept from it by you"
            elif sensor in view.get("missing_sensors", {}):
                found[operator["id"]] = "missing"
            elif state is not None:
                readings = number_text.plural(state["readings"], "reading")
                found[operator["id"]] = f"{number_text.rate(state['rate_hz'])}, {readings}"
        elif operator["id"] in edges:
            edge = edges[operator["id"]]
            count = view.get("edges", {}).get(edge["name"])
            found[operator["id"]] = edge["promise"]
            if count is not None:
                delivered, waiting = number_text.count(count["delivered"]), number_text.count(count["spooled"])
                found[operator["id"]] += f": {delivered} delivered, {waiting} waiting"
    return found
