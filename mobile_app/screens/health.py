"""Why did it stop? What is in the recorder's way, what happened to it, and what helps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kivy.uix.widget import Widget

from mobile_app.home.crashes import crashes, forget_crashes
from mobile_app.screens.disclosure import BACKGROUND, BackgroundLocation
from mobile_app.screens.fleet import failed_here
from mobile_app.screens.page import Empty, View, allowed, sentence
from mobile_app.screens.widgets.controls import PushButton
from mobile_app.screens.widgets.icons import Icon
from mobile_app.screens.widgets.surfaces import Card, Notice
from mobile_app.screens.widgets.text import Column, Row, Text, Wrap
from mobile_app.screens.words import number_text

if TYPE_CHECKING:
    from mobile_app.app import ResurgeApp

# These lose nothing and pass by themselves; everything else wants a person.
HARMLESS = {"not-paired", "no-network", "waiting-wifi", "waiting-unmetered", "waiting-home-network", "rebooted",
            "clock-jump", "gateway-unreachable"}  # fmt: skip


# Where a tap leads to what helps.
SETTINGS = {"killed": "battery", "sensor-permission": "permissions"}


def health_cards(view: View, app: ResurgeApp) -> list[Widget]:
    """What the service says is wrong, and what the system does not allow the app."""
    entries, denied = view.get("health", []), app.around.missing_permissions(allowed(view))
    crashed = crashes(app.home)
    failed = failed_here(view)
    if not denied and not crashed and not failed and all(entry["code"] == "not-paired" for entry in entries):
        return [
            Empty(
                "check", "Nothing is in its way",
                "Sensors are read, the disk takes what they give, and nobody stopped the recorder. If that changes, "
                "the reason is written here, also when the app was closed.",
            )
        ]  # fmt: skip
    serious = bool(crashed) + len(denied) + failed + sum(entry["code"] not in HARMLESS for entry in entries)
    if serious:
        title = f"{number_text.plural(serious, 'thing')} to look at"
        head = Notice("bad", title, "Each says what happened and what helps.")
    else:
        head = Notice("info", "It runs; this is in its way", "Nothing is lost by it.")
    report = [_report(crashed, app)] if crashed else []
    return [head, *report, *(_denied(one, app) for one in denied), *(_card(view, entry, app) for entry in entries)]


def _report(crashed: list[Path], app: ResurgeApp) -> Card:
    """What a defect of ours left: its last line, and the way to send all of it."""
    newest = crashed[0].read_text(encoding="utf-8", errors="replace").strip().splitlines()
    title = "The recorder crashed" if crashed[0].stem.endswith("service") else "The app crashed"
    words = Column(Text(title, bold=True), Text(newest[-1] if newest else "", size="label", mono=True), gap=4)

    def forget() -> None:
        forget_crashes(app.home)
        app.go("buffer")

    return Card(
        Row(Icon("alert", side=24, colour="bad"), words, gap=14),
        Text(
            "What was recorded is safe. The report names places in the code; its last line may hold a value that was "
            "read.",
            colour="soft",
        ),
        Wrap(
            PushButton("Send the report", lambda: app.share(crashed[0], "text/plain"), kind="tonal", fit=True),
            PushButton("Dismiss", forget, kind="outlined", fit=True),
        ),
    )


def _denied(permission: dict[str, str], app: ResurgeApp) -> Card:
    """A permission that is missing, and the way to give it."""
    settings = lambda: app.open_settings("permissions")  # noqa: E731

    def ask() -> None:
        if permission["name"] == BACKGROUND:
            app.open_sheet(BackgroundLocation(app))
        else:
            app.around.ask_permission(permission["name"])

    act = (
        PushButton("Allow", ask)
        if permission["how"] == "ask"
        else PushButton("Open the settings", settings, kind="tonal")
    )
    words = Column(Text(f"Not allowed: {permission['name']}", bold=True), Text(sentence(permission["why"])), gap=4)
    return Card(Row(Icon("lock", side=24, colour="bad"), words, gap=14), act)


def _card(view: View, entry: dict[str, Any], app: ResurgeApp) -> Card:
    harmless = entry["code"] in HARMLESS
    colour = "soft" if harmless else "warn" if entry["over"] else "bad"
    seconds = max(0.0, (view["time_us"] - entry["since"]) / 1e6)
    when = (
        f"{number_text.moment(entry['since'])}, {number_text.ago(seconds)}"
        if entry["over"]
        else f"for {number_text.duration(seconds)}"
    )
    what = Column(Text(sentence(entry["what"]), bold=True), Text(when, size="label", colour="soft"), gap=2)
    remedy = Column(
        Text("What to do", size="caption", colour="faint", bold=True), Text(sentence(entry["remedy"])), gap=2
    )
    card = Card(
        Row(Icon("info" if harmless else "alert", side=24, colour=colour), what, gap=14), remedy,
        Text(entry["code"], size="caption", colour="faint", mono=True),
    )  # fmt: skip
    acts: list[Widget] = []
    if entry["code"] in SETTINGS:
        act = lambda: app.open_settings(SETTINGS[entry["code"]])  # noqa: E731
        acts.append(PushButton("Open the settings", act, kind="tonal", fit=True))
    if entry["over"]:
        act = lambda: app.do("dismiss", code=entry["code"])  # noqa: E731
        acts.append(PushButton("Dismiss", act, kind="outlined", fit=True))
    if acts:
        card.add_widget(Wrap(*acts))
    return card
