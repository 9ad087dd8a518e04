"""Which sensors a recording takes, and which the gateway's plan gets: two choices that do not touch each other.

A switch of the first list changes what this phone keeps for its person. Switching on a sensor that nobody has allowed
yet allows it to recordings alone. A switch of the second list is the consent that a plan needs: without it the sensor
is not read for the plan, and the phone's status says so to the gateway.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kivy.clock import Clock
from kivy.effects.scroll import ScrollEffect
from kivy.metrics import dp
from kivy.uix.scrollview import ScrollView

from mobile_app.home.consents import RECORDINGS
from mobile_app.screens.disclosure import offer_background
from mobile_app.screens.page import View
from mobile_app.screens.widgets.appearance import look
from mobile_app.screens.widgets.controls import PushButton, SwitchRow
from mobile_app.screens.widgets.icons import sensor_icon
from mobile_app.screens.widgets.sheets import Sheet
from mobile_app.screens.widgets.surfaces import Divider
from mobile_app.screens.widgets.text import Column, Space, Text
from mobile_app.screens.widgets.theme import TOUCH
from mobile_app.screens.words import sensor_words

if TYPE_CHECKING:
    from mobile_app.app import ResurgeApp

MARGIN = 32  # above and below the sheet
KEPT_FROM = (
    "It reads these also while nothing is recorded, and what it makes of them goes to the gateway. One that you switch "
    "off is not read for it: results go without, and the gateway is told that you keep it back."
)


class SensorSheet(Sheet):
    """`found`: what the service said of this device's sensors. `show` is called with each new view."""

    def __init__(self, app: ResurgeApp, found: dict[str, dict[str, Any]], view: View) -> None:
        self._desk, self._view, self._found = app, view, found
        self._mine: dict[str, SwitchRow] = {}
        self._plans: dict[str, SwitchRow] = {}
        rows = Column(gap=2)
        there = sorted(sensor for sensor, state in found.items() if state["available"])
        for sensor in there:
            self._mine[sensor] = SwitchRow(sensor, " ", partial(self._record, sensor), icon=sensor_icon(sensor))
            rows.add_widget(self._mine[sensor])
        if not there:
            rows.add_widget(Text("No sensor was found on this device.", colour="soft"))
        wanted = view["asked_sensors"]
        if wanted:
            name = view["plan"]["name"]
            for part in (Space(8), Divider(), Space(8), Text(f"For the plan “{name}”", size="title", bold=True),
                         Text(KEPT_FROM, size="label", colour="soft"), Space(4)):  # fmt: skip
                rows.add_widget(part)
        for sensor in sorted(wanted):
            self._plans[sensor] = SwitchRow(sensor, " ", partial(self._give, sensor), icon=sensor_icon(sensor))
            rows.add_widget(self._plans[sensor])
        self._scroll = ScrollView(
            do_scroll_x=False, size_hint_y=None, bar_width=dp(3), bar_color=look.colour("faint", 0.6),
            effect_cls=ScrollEffect, bar_inactive_color=look.colour("faint", 0.3), scroll_distance=dp(12),
            scroll_timeout=120,
        )  # fmt: skip
        self._rows = rows
        self._scroll.add_widget(rows)
        super().__init__(
            "What a recording takes",
            "The next one, and those after it. Rates are what is asked of the phone; Live shows the real ones.",
            self._scroll, PushButton("Done", self.dismiss, kind="tonal"),
        )  # fmt: skip
        for part in (self, rows, *(part for part in self.card.children if part is not self._scroll)):
            part.bind(height=self._fit)
        self.show(view)

    def _fit(self, *_: object) -> None:
        """The list takes what is left of the screen, also with large text or in landscape."""
        parts = [part.height for part in self.card.children if part is not self._scroll]
        taken = sum(parts) + self.card.spacing * len(parts) + self.card.padding[1] + self.card.padding[3]
        room = self.height - taken - look.insets[1] - look.insets[3] - dp(MARGIN)
        self._scroll.height = max(dp(TOUCH), min(self._rows.height, room))

    def show(self, view: View) -> None:
        self._view = view
        for sensor, row in self._mine.items():
            row.show(sensor in view["to_record"])
            row.detail.text = sensor_words.recorded(sensor, self._found[sensor]["hz"], view)
        for sensor, row in self._plans.items():
            row.show(view["consents"].get(sensor) is True)
            row.detail.text = sensor_words.of_plan(sensor, view)

    # --- what a person does ---------------------------------------------------------------------------------------

    def _record(self, sensor: str, on: bool) -> None:
        """Take it from now on, or no more."""
        chosen = {each: hz for each, hz in self._view["to_record"].items() if each != sensor}
        if on:
            chosen[sensor] = self._found[sensor]["hz"]
        if not chosen:
            self._mine[sensor].show(True)
            self._desk.say("A recording takes at least one sensor")
            return
        self._view = self._view | {"to_record": chosen}  # the next tap may come before the service has answered
        if on and not self._view["consents"].get(sensor):
            self._allow(sensor, RECORDINGS)
        self._desk.do("policy", record=list(chosen))

    def _give(self, sensor: str, on: bool) -> None:
        """Let the plan read it, or keep it from the plan; recordings may go on taking it."""
        self._allow(sensor, True if on else RECORDINGS if self._view["consents"].get(sensor) else False)

    def _allow(self, sensor: str, allow: bool | str) -> None:
        self._desk.do("consent", sensor=sensor, allow=allow)
        if allow:
            asked = lambda: Clock.schedule_once(lambda _dt: self._asked(sensor), 0)  # noqa: E731
            self._desk.around.ask_permissions([sensor], asked)

    def _asked(self, sensor: str) -> None:
        if sensor == "gps":
            offer_background(self._desk)
