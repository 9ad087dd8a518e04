"""Setup: whom this phone talks to, what it may read, when it sends, how it looks, and a person's own data."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from kivy.clock import Clock
from kivy.core.clipboard import Clipboard
from kivy.uix.widget import Widget

from mobile_app.home.consents import RECORDINGS
from mobile_app.home.preferences import APPEARANCES, TEXT_SIZES
from mobile_app.screens.disclosure import offer_background
from mobile_app.screens.page import Page, View, fact, section
from mobile_app.screens.recording_sheet import MIMES
from mobile_app.screens.widgets.controls import Choices, PushButton, SwitchRow
from mobile_app.screens.widgets.icons import Icon, sensor_icon
from mobile_app.screens.widgets.sheets import Entry, Question, Sheet, buttons
from mobile_app.screens.widgets.surfaces import Card, Divider, Notice
from mobile_app.screens.widgets.text import Column, Row, Space, Text, replace
from mobile_app.screens.words import number_text, sensor_words

LANES = (
    ("wifi_only", "Only over Wi-Fi",
     "Mobile data is never used; readings wait on this phone. Costs the least battery."),
    ("metered", "Metered networks too",
     "Send also where data costs money. Each time keeps the mobile radio on for some ten seconds."),
    ("roaming", "While roaming too", "Send also in foreign networks, at their price."),
    ("adaptive", "Spare the battery",
     "Read less often when the phone lies still, is indoors or runs low. Positions cost most, then sensors above 25 "
     "Hz, which keep the processor awake."),
    ("pause_when_still", "No positions while it lies still",
     "After five minutes without motion positioning stops; the phone's motion sensor starts it again, so the first "
     "steps of a way may be missing. Saves most of what positions cost at home and at work."),
)  # fmt: skip
SHARING = {"no": "Off", "feeds": "Feed", "hosts": "Compute"}
SHARES = {
    "no": "This phone sends its readings to the gateway and has nothing to do with other devices. Costs nothing.",
    "feeds": "Queries that several devices share may read its sensors, each only with your yes below. Those readings "
             "go to other devices of this gateway. Costs battery: while it takes part the phone does not sleep, and it "
             "speaks with the gateway every three seconds.",
    "hosts": "It feeds queries, and computes for others on the same network: their readings arrive here, and copies of "
             "what others computed are kept here in case those fail. Costs the most battery, and storage: best while "
             "it is plugged in, on Wi-Fi. When it leaves, others go on with its work.",
}  # fmt: skip
FLOORS = {"0": "Never", "0.05": "5 %", "0.15": "15 %", "0.3": "30 %"}
ROOMS = {"250": "250 MB", "1000": "1 GB", "4000": "4 GB"}


class SetupPage(Page):
    name, title, icon = "setup", "Setup", "setup"

    def build(self, body: Column) -> None:
        self._gateway, self._sensors, self._policies = Card(), Card(gap=2), Card(gap=4)
        self._sharing: Card | None = None
        self._shared: object = None
        self._data, self._about = Card(), Card(gap=4)
        self._paired: object = self
        self._consents: dict[str, str] | None = None  # what is said beside each sensor
        self._available: dict[str, dict[str, Any]] = {}
        self._switches: dict[str, SwitchRow] = {}
        self._floor: Choices | None = None
        self._room: Choices | None = None
        self._body = body
        for part in (self._gateway, self._sensors, self._policies, self._looks(), self._data, self._about):
            body.add_widget(part)
        self._fill_data()
        self._about_shows: object = None

    def refresh(self) -> None:
        if not self._available:
            self.app.ask(lambda client: client.do("sensors"), self._take_available, key="sensors")

    def _take_available(self, sensors: dict[str, dict[str, Any]]) -> None:
        self._available = sensors
        self._consents = None
        if self.app.view is not None:
            self._show_consents(self.app.view)

    def show(self, view: View) -> None:
        self._show_gateway(view)
        self._show_sharing(view)
        self._show_consents(view)
        self._show_policies(view.get("policies", {}))
        self._show_about(view)

    # --- the gateway --------------------------------------------------------------------------------------------

    def _show_gateway(self, view: View) -> None:
        paired = (view.get("gateway"), view.get("connected"), view.get("why_not"), repr(view.get("pairing")))
        if paired == self._paired:
            return
        self._paired = paired
        if view.get("pairing"):
            self._ask_to_compare(view["pairing"])
            return
        if view.get("gateway") is None:
            replace(
                self._gateway, section("Pair with a gateway", "Not needed to record. With one, readings go there by "
                "themselves and results come back."),
                PushButton("Scan the QR code", self._scan, icon="qr"),
                PushButton("Paste the link", self._paste, kind="outlined", icon="link"),
            )  # fmt: skip
            return
        state = "Connected" if view.get("connected") else "Offline; everything is kept here until it answers"
        replace(
            self._gateway, section("Gateway"),
            Row(Icon("cloud", side=24, colour="accent"), Column(Text(view["gateway"], bold=True),
                Text(state, size="label", colour="good" if view.get("connected") else "warn"), gap=1), gap=14),
        )  # fmt: skip
        if view.get("why_not") and not view.get("connected"):
            self._gateway.add_widget(Text(view["why_not"], size="label", colour="soft"))
        self._gateway.add_widget(PushButton("Unpair", self._ask_unpair, kind="outlined"))

    def _scan(self) -> None:
        self.app.open_sheet(
            Sheet(
                "Scan with the camera",
                "Open the phone's camera and point it at the QR code that `resurge device pair` or the dashboard "
                "shows. Tap the link it finds: this app opens and asks you to compare a number.",
                buttons(PushButton("Paste the link instead", self._paste, kind="tonal", icon="link")),
            )
        )  # fmt: skip

    def _paste(self) -> None:
        link = (Clipboard.paste() or "").strip()
        self.app.open_sheet(
            Entry(
                "Pair with a link", "resurge://…", "Pair", self.pair, lines=3,
                value=link if link.startswith("resurge://") else "",
                text="Copy it from the dashboard or from `resurge device pair`. It is good for ten minutes, once.",
            )
        )  # fmt: skip

    def pair(self, link: str) -> None:
        self.app.say("Asking the gateway")
        self.app.do("pair", self.confirm_pairing, link=link)

    def confirm_pairing(self, _answer: dict[str, Any] | None = None) -> None:
        """The service holds the pairing until the person has compared; the card at the top asks."""
        self.scroll.scroll_y = 1

    def _ask_to_compare(self, pairing: dict[str, Any]) -> None:
        digits = str(pairing["confirmation"])
        replace(
            self._gateway,
            section("Is this the number on the other screen?", f"Compare it with what {pairing['gateway']} shows. If "
                    "it differs, somebody is in between. Nothing is sent before you say yes."),
            Text(f"{digits[:3]} {digits[3:]}", size="display", bold=True, align="center"),
            buttons(PushButton("It differs", lambda: self._confirm(False), kind="danger"),
                    PushButton("It is the same", lambda: self._confirm(True))),
        )  # fmt: skip

    def _confirm(self, yes: bool) -> None:
        text = "Paired" if yes else "Not paired; nothing was sent"
        self.app.do("confirm_pair", lambda _done: self.app.say(text), yes=yes)

    def _ask_unpair(self) -> None:
        self.app.open_sheet(
            Question(
                "Unpair this phone?", "Nothing more is sent. What waits stays on this phone.", "Unpair",
                lambda: self.app.do("unpair", lambda _done: self.app.say("Unpaired")), danger=True,
            )
        )  # fmt: skip

    # --- other devices --------------------------------------------------------------------------------------------

    def _show_sharing(self, view: View) -> None:
        """Only where there is a gateway: it says which devices these are."""
        chosen = str(view.get("policies", {}).get("hosting", "no"))
        fleet = view.get("fleet") or {}
        runs, keeps = len(fleet.get("instances", ())), len(fleet.get("kept", ()))
        shows = None if view.get("gateway") is None or view.get("pairing") else (chosen, runs, keeps, bool(fleet))
        if shows == self._shared:
            return
        self._shared = shows
        if shows is None:
            if self._sharing is not None:
                self._body.remove_widget(self._sharing)
                self._sharing = None
            return
        if self._sharing is None:
            self._sharing = Card()
            self._body.add_widget(self._sharing, index=len(self._body.children) - 1)  # below the gateway
        now = []
        if chosen != "no" and fleet:
            parts, copies = number_text.plural(runs, "part"), number_text.plural(keeps, "copy", "copies")
            now = [Text(f"Now it runs {parts} of queries and keeps {copies} for others.", size="label", colour="good")]
        replace(
            self._sharing, section("Work with other devices"),
            Choices(SHARING, chosen, lambda share: self._policy("hosting", share)),
            Text(SHARES.get(chosen, ""), size="label", colour="soft"), *now,
        )  # fmt: skip

    # --- what may be read -----------------------------------------------------------------------------------------

    def _show_consents(self, view: View) -> None:
        consents = dict(view.get("consents", {}))
        for sensor, state in self._available.items():
            if state.get("available"):
                consents.setdefault(sensor, None)
        said = {sensor: _consent_text(sensor, view) for sensor in consents}
        if said == self._consents:
            for sensor, allowed in consents.items():
                self._switches[sensor].show(bool(allowed))
            return
        self._consents = said
        self._switches = {}
        replace(
            self._sensors,
            section("Sensors", "Each needs your yes. Take it back at any time; reading stops at once."),
            Space(4),
        )
        if not consents:
            self._sensors.add_widget(Text("No sensor was found on this device.", colour="soft"))
        for sensor in sorted(consents):
            row = SwitchRow(
                sensor, said[sensor], partial(self._consent, sensor),
                on=bool(consents[sensor]), icon=sensor_icon(sensor),
            )  # fmt: skip
            self._switches[sensor] = row
            self._sensors.add_widget(row)
        for sensor, state in sorted(self._available.items()):
            if not state.get("available"):
                self._sensors.add_widget(
                    Text(f"{sensor}: {state.get('why') or 'not on this device'}", size="caption", colour="faint")
                )

    def _consent(self, sensor: str, allow: bool) -> None:
        self.app.do("consent", sensor=sensor, allow=allow)
        if allow:
            self.app.around.ask_permissions([sensor], lambda: Clock.schedule_once(lambda _dt: self._allowed(sensor), 0))

    def _allowed(self, sensor: str) -> None:
        if sensor == "gps":
            offer_background(self.app)

    # --- when it sends, how long it goes on ---------------------------------------------------------------------------

    def _show_policies(self, policies: dict[str, Any]) -> None:
        if self._floor is None:
            self._policy_rows: dict[str, SwitchRow] = {}
            replace(self._policies, section("When it sends, and how long it reads"), Space(2))
            for key, title, text in LANES:
                row = SwitchRow(title, text, partial(self._policy, key), on=bool(policies.get(key)))
                self._policy_rows[key] = row
                self._policies.add_widget(row)
            self._floor = Choices(FLOORS, "", lambda floor: self._policy("battery_floor", float(floor)))
            self._room = Choices(ROOMS, "", lambda room: self._policy("recordings_mb", int(room)))
            for title, choices in (
                ("Stop reading below this battery level", self._floor),
                ("Room for recordings", self._room),
            ):
                self._policies.add_widget(Space(6))
                self._policies.add_widget(Text(title))
                self._policies.add_widget(choices)
        for key, row in self._policy_rows.items():
            row.show(bool(policies.get(key)))
        floor, room = policies.get("battery_floor"), policies.get("recordings_mb")
        self._floor.show(_nearest(floor, FLOORS))
        if self._room is not None:
            self._room.show(_nearest(room, ROOMS))

    def _policy(self, key: str, value: Any) -> None:
        self.app.do("policy", **{key: value})

    # --- the look ---------------------------------------------------------------------------------------------------

    def _looks(self) -> Widget:
        preferences = self.app.preferences
        return Card(
            section("Appearance"),
            Choices({name: name.capitalize() for name in APPEARANCES}, preferences.appearance, self._choose_appearance),
            Text("Text size", size="label", colour="soft"),
            Choices({name: name.capitalize() for name in TEXT_SIZES}, preferences.text_size, self._choose_text_size),
        )  # fmt: skip

    def _choose_appearance(self, name: str) -> None:
        self.app.preferences.appearance = name
        self.app.prefer()

    def _choose_text_size(self, name: str) -> None:
        self.app.preferences.text_size = name
        self.app.prefer()

    # --- a person's own data ------------------------------------------------------------------------------------------

    def _fill_data(self) -> None:
        replace(
            self._data,
            section("Recorder and data", "Recordings are exported one by one from Record; these are about all of it."),
            PushButton("Stop the recorder", self._ask_stop, kind="outlined", icon="stop"),
            PushButton("Save diagnostics", self._diagnose, kind="outlined", icon="share"),
            PushButton("Delete my data", self._ask_delete, kind="danger", icon="trash"),
        )  # fmt: skip

    def _ask_stop(self) -> None:
        self.app.open_sheet(
            Question(
                "Stop the recorder?",
                "No sensor is read and nothing is sent until you start it again, also after a restart of the phone. "
                "What it holds is kept.",
                "Stop", lambda: self.app.do("stop"), danger=True,
            )
        )  # fmt: skip

    def _diagnose(self) -> None:
        self.app.say("Collecting; readings are not part of it")
        self.app.do("diagnostics", lambda answer: self.app.share(Path(answer["path"]), MIMES["zip"]))

    def _ask_delete(self) -> None:
        self.app.open_sheet(
            Question(
                "Delete everything of mine?",
                "Recordings, readings that wait, results and this phone's key are removed for good. You are told what "
                "a gateway already has.",
                "Delete everything", lambda: self.app.do("delete_my_data", self._deleted), danger=True,
            )
        )  # fmt: skip

    def _deleted(self, answer: dict[str, Any]) -> None:
        cloud = answer.get("cloud_has") or {}
        delivered = sum((cloud.get("delivered") or {}).values())
        text = "Nothing of yours is left on this phone."
        if delivered:
            readings = number_text.plural(delivered, "reading")
            text += f" The gateway {cloud.get('gateway', '')} holds {readings}. {answer.get('remedy', '')}"
        self.app.open_sheet(Sheet("Deleted", text, PushButton("Close", self.app.close_sheet, kind="tonal")))

    def _show_about(self, view: View) -> None:
        own = ", ".join(view.get("operators", ()))
        shows = (view["device"], view.get("name"), view.get("encrypted_at_rest"), view.get("build"), own)
        if shows == self._about_shows:
            return
        self._about_shows = shows
        replace(
            self._about, section("This device"), fact("Name", str(view.get("name", ""))),
            fact("Device", view["device"][:16]), fact("Incarnation", str(view.get("incarnation", ""))),
            fact("At rest", "encrypted" if view.get("encrypted_at_rest") else "not encrypted"),
            *([fact("App", str(view["build"]))] if view.get("build") else []),
            *([Text(f"Its own operators: {own}", size="label", colour="soft")] if own else []), Divider(),
            PushButton("Rename this device", self._rename, kind="outlined", icon="edit"),
            Notice("info", "Where the key lies", str(view.get("key_protection", "")), icon="key"),
        )  # fmt: skip

    def _rename(self) -> None:
        name = str((self.app.view or {}).get("name", ""))
        text = "This is what the operator of a gateway sees."
        self.app.open_sheet(
            Entry("Name of this device", "Name", "Rename", lambda new: self._policy("name", new), value=name, text=text)
        )


def _consent_text(sensor: str, view: View) -> str:
    """What the gateway's plan has to do with a sensor, or whether a plan could have it."""
    text = sensor_words.of_plan(sensor, view)
    only = "For recordings alone; a plan would not get it"
    return text or (only if view.get("consents", {}).get(sensor) == RECORDINGS else "")


def _nearest(value: float | None, words: dict[str, str]) -> str:
    if value is None:
        return ""
    return min(words, key=lambda word: abs(float(word) - float(value)))
