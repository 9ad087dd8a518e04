"""Record: one big button. Works on its own; a gateway is not needed for anything here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from kivy.graphics import Color, SmoothEllipse, SmoothRoundedRectangle
from kivy.metrics import dp
from kivy.uix.anchorlayout import AnchorLayout
from kivy.uix.behaviors import ButtonBehavior
from kivy.uix.widget import Widget

from mobile_app.screens.page import Page, View, apart, section, sentence
from mobile_app.screens.recording_sheet import RecordingSheet
from mobile_app.screens.sensor_sheet import SensorSheet
from mobile_app.screens.widgets.appearance import look
from mobile_app.screens.widgets.controls import Field, IconButton, Pressed, PushButton
from mobile_app.screens.widgets.icons import Icon, sensor_icon
from mobile_app.screens.widgets.surfaces import Card, Chip, Divider, Notice
from mobile_app.screens.widgets.text import Column, Row, Space, Text, Wrap, replace
from mobile_app.screens.words import number_text

STOPS = {"storage-full", "storage-low", "disk-failed", "battery-floor", "killed", "crashed"}  # what ends a recording
QUICK_LABELS = ("start", "turn", "stop", "event")


class RecordButton(ButtonBehavior, Widget):
    """A circle to start, a square to stop; as large as a thumb likes it."""

    SIDE = 148

    def __init__(self, press: Any) -> None:
        super().__init__(size_hint=(None, None), size=(dp(self.SIDE), dp(self.SIDE)))
        self._press = press
        self.recording = False
        self.bind(pos=self._draw, size=self._draw, state=self._draw)

    def show(self, recording: bool) -> None:
        self.recording = recording
        self._draw()

    def on_release(self) -> None:
        self._press()

    def _draw(self, *_: object) -> None:
        self.canvas.clear()
        colour = "bad" if self.recording else "accent"
        held = 0.92 if self.state == "down" else 1.0
        with self.canvas:
            for part, strength in ((1.0, 0.10), (0.87, 0.24), (0.74, 1.0)):
                side = self.width * part * held
                Color(*look.blend(colour, "card", strength))
                SmoothEllipse(pos=(self.center_x - side / 2, self.center_y - side / 2), size=(side, side))
            side = self.width * 0.26 * held
            Color(*look.colour("on_accent" if not self.recording or look.palette.name == "light" else "page"))
            SmoothRoundedRectangle(
                pos=(self.center_x - side / 2, self.center_y - side / 2), size=(side, side),
                radius=[side / 2 if not self.recording else dp(6)],
            )  # fmt: skip


class RecordPage(Page):
    name, title, icon = "record", "Record", "record"

    def build(self, body: Column) -> None:
        self._hero = Card(gap=8, padding=(22, 20, 22, 22))
        self._markers = Card()
        self._kept = Card(gap=0, padding=(18, 16, 10, 10))
        self._notices = Column()
        self._top = Column(self._notices, self._hero)
        for part in (self._top, self._markers, self._kept):
            body.add_widget(part)
        self._filled: object = None
        self._noticed: tuple[str, ...] = ()
        self._listed: object = None
        self._marked: object = None
        self._field = Field("Name this recording (optional)")
        self._label = Field("Label this moment", enter=lambda _text: self._add_marker())
        self._button = RecordButton(self._toggle)
        self._clock = Text("00:00:00", size="display", align="center", bold=True)
        self._counts = Text("", size="label", colour="soft", align="center")
        self._recordings: list[dict[str, Any]] = []
        self._chooser: SensorSheet | None = None

    def refresh(self) -> None:
        self.app.ask(lambda client: client.do("recordings"), self._take_recordings, key="recordings")

    # --- what is so ----------------------------------------------------------------------------------------------

    def show(self, view: View) -> None:
        recording = view.get("recording")
        if self._chooser is not None and self._chooser.parent is not None:
            self._chooser.show(view)
        lacks = {} if recording is None else recording["missing"]
        shown = dict(view.get("to_record", {})) if recording is None else recording["id"]
        filled = (shown, _where_it_stays(view), dict(lacks))
        if self._filled != filled:
            self._filled = filled
            self._button.show(recording is not None)
            self._fill_hero(view)
        if recording is not None:
            self._clock.text = number_text.stopwatch((view["time_us"] - recording["started_us"]) / 1e6)
            readings = sum(recording["readings"].values())
            self._counts.text = f"{number_text.plural(readings, 'reading')}  ·  {number_text.size(recording['bytes'])}"
        self._show_markers(recording)
        self._show_notices(view)

    def _fill_hero(self, view: View) -> None:
        recording = view.get("recording")
        button = AnchorLayout(size_hint_y=None, height=dp(RecordButton.SIDE + 8))
        if self._button.parent is not None:
            self._button.parent.remove_widget(self._button)
        button.add_widget(self._button)
        if recording is not None:
            replace(
                self._hero, Text(recording["name"], size="title", bold=True, align="center"), self._clock, self._counts,
                Space(4), button, _chips(dict.fromkeys(recording["sensors"])),
            )  # fmt: skip
            for sensor, why in sorted(recording["missing"].items()):
                self._hero.add_widget(Text(f"Without {sensor}: {why}", size="label", colour="warn", align="center"))
            return
        stays = Text(_where_it_stays(view), colour="soft", align="center")
        replace(self._hero, button, stays, Space(2), self._field)
        if view.get("to_record"):
            self._hero.add_widget(Text("Will be recorded", size="caption", colour="faint", align="center"))
            self._hero.add_widget(_chips(view["to_record"]))
        else:
            self._hero.add_widget(
                Notice("info", "No sensor may be recorded yet", "Choose which ones. None is read before.")
            )
        self._hero.add_widget(PushButton("Choose sensors", self._choose, kind="tonal", icon="setup"))

    def _choose(self) -> None:
        self.app.ask(lambda client: client.do("sensors"), self._open_chooser, key="sensors")

    def _open_chooser(self, found: dict[str, dict[str, Any]]) -> None:
        if self.app.view is not None and self.app.view.get("recording") is None:
            self._chooser = SensorSheet(self.app, found, self.app.view)
            self.app.open_sheet(self._chooser)

    def _show_markers(self, recording: dict[str, Any] | None) -> None:
        marked = None if recording is None else (recording["id"], len(recording["markers"]))
        if marked == self._marked and marked is not None:
            return
        self._marked = marked
        replace(self._markers)
        shown = recording is not None
        self._markers.opacity, self._markers.disabled = (1, False) if shown else (0, True)
        if not shown or recording is None:
            if self._markers.parent is not None:
                self.body.remove_widget(self._markers)
            return
        if self._markers.parent is None:
            self.body.add_widget(self._markers, index=self.body.children.index(self._top))
        if self._label.parent is not None:
            self._label.parent.remove_widget(self._label)
        quick = Wrap(
            *(PushButton(word, partial(self._add_marker, word), kind="tonal", fit=True) for word in QUICK_LABELS)
        )
        self._markers.add_widget(section("Mark this moment"))
        self._markers.add_widget(
            Row(self._label, IconButton("flag", self._add_marker, label="mark", colour="accent"), gap=6)
        )
        self._markers.add_widget(quick)
        for marker in recording["markers"][-4:][::-1]:
            after = number_text.stopwatch((marker["time_us"] - recording["started_us"]) / 1e6)
            self._markers.add_widget(
                Row(Icon("flag", side=16, colour="accent"), Text(marker["label"], one_line=True),
                    Text(after, size="label", colour="soft", mono=True, fit=True), gap=10, height_min=28)
            )  # fmt: skip

    def _show_notices(self, view: View) -> None:
        text = [item for item in view.get("health", []) if item["code"] in STOPS]
        key = tuple(item["what"] for item in text)
        if key != self._noticed:
            self._noticed = key
            replace(
                self._notices, *apart(Notice("bad", sentence(item["what"]), sentence(item["remedy"])) for item in text)
            )

    def _take_recordings(self, recordings: list[dict[str, Any]]) -> None:
        ended = [one for one in recordings if not one["running"]]
        if ended == self._listed:
            return
        self._listed = ended
        replace(self._kept, section("Recordings"), Space(6))
        if not ended:
            self._kept.add_widget(
                Text("None yet. Each one is kept here, ready to export as CSV, GPX or zip, until you delete it.",
                     colour="soft")
            )  # fmt: skip
            self._kept.add_widget(Space(8))
        for index, one in enumerate(ended):
            if index:
                self._kept.add_widget(Divider())
            self._kept.add_widget(self._recording_row(one))

    def _recording_row(self, one: dict[str, Any]) -> Widget:
        seconds = max(0.0, ((one["ended_us"] or one["started_us"]) - one["started_us"]) / 1e6)
        facts = [number_text.moment(one["started_us"]), number_text.duration(seconds)]
        readings = number_text.plural(sum(one["readings"].values()), "reading")
        more = [readings, number_text.size(one["bytes"])]
        if one["markers"]:
            more.insert(1, number_text.plural(len(one["markers"]), "marker"))
        words = Column(
            Text(one["name"], bold=True, one_line=True), Text("  ·  ".join(facts), size="label", colour="soft"),
            Text("  ·  ".join(more), size="label", colour="soft"), gap=2,
        )  # fmt: skip
        if one["ended_by"]:
            words.add_widget(Chip("ended early", fill="warn_tint", colour="warn", icon="alert"))
        return Pressed(
            words, Icon("more", side=22, colour="soft"),
            act=lambda: self.app.open_sheet(RecordingSheet(self.app, one)), padding=(0, 12, 6, 12), gap=10,
        )  # fmt: skip

    # --- what a person does ---------------------------------------------------------------------------------------

    def _toggle(self) -> None:
        if self._button.recording:
            self.app.do("stop_recording", self._stopped)
        else:
            self.app.do("start_recording", name=self._field.text.strip())
            self._field.text = ""

    def _stopped(self, summary: dict[str, Any]) -> None:
        readings = number_text.plural(sum(summary["readings"].values()), "reading")
        self.app.say(f"Kept “{summary['name']}”: {readings}")

    def _add_marker(self, label: str = "") -> None:
        self.app.do("marker", lambda marker: self.app.say(f"Marked “{marker['label']}”"),
                     label=label or self._label.text.strip())  # fmt: skip
        self._label.text = ""


def _where_it_stays(view: View) -> str:
    if view.get("gateway") is None:
        return "Stays on this phone. No account, no server."
    plan = view.get("plan")
    if plan is None:
        return "A recording stays on this phone. The gateway has sent no plan, so nothing goes there."
    refused = ", ".join(view.get("refused_sensors", []))
    without = f", without {refused}: you keep that from it, and the gateway is told" if refused else ""
    return (
        f"A recording stays on this phone. What goes to the gateway is what the plan “{plan['name']}” reads{without}."
    )


def _chips(sensors: Mapping[str, float | None]) -> Widget:
    """The sensors, each with its rate where that is to be said."""
    words = {
        sensor: sensor if hertz is None else f"{sensor}  {number_text.rate(hertz)}" for sensor, hertz in sensors.items()
    }
    return Wrap(*(Chip(text, icon=sensor_icon(sensor)) for sensor, text in words.items()), gap=6, centred=True)
