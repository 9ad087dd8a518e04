"""What every screen is: a title, the state of the connection beside it, and a column of cards that scrolls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kivy.effects.scroll import ScrollEffect
from kivy.metrics import dp
from kivy.uix.anchorlayout import AnchorLayout
from kivy.uix.boxlayout import BoxLayout
from kivy.uix.scrollview import ScrollView
from kivy.uix.widget import Widget

from mobile_app.screens.widgets.appearance import look
from mobile_app.screens.widgets.controls import PushButton
from mobile_app.screens.widgets.icons import Icon
from mobile_app.screens.widgets.surfaces import Card, Chip, Swatch, paint
from mobile_app.screens.widgets.text import Column, Row, Space, Text, replace
from mobile_app.screens.widgets.theme import GAP
from mobile_app.screens.words import number_text
from mobile_app.service.connection import ServiceGone
from shared.errors import ResurgeError

if TYPE_CHECKING:
    from mobile_app.app import ResurgeApp

View = dict[str, Any]
WIDEST = 640  # lines longer than this are hard to read


class Page(BoxLayout):
    """One screen. `show` is called with each new view while it is visible, `refresh` before it is asked for."""

    name = ""
    title = ""
    icon = ""

    def __init__(self, app: ResurgeApp) -> None:
        super().__init__(orientation="vertical")
        self.app = app
        self.chip = Chip("Starting", fill="raised", colour="soft")
        self.add_widget(self._header())
        self.scroll = ScrollView(
            do_scroll_x=False, bar_width=dp(3), bar_color=look.colour("faint", 0.6), effect_cls=ScrollEffect,
            bar_inactive_color=look.colour("faint", 0.0), scroll_distance=dp(12), scroll_timeout=120,
        )  # fmt: skip
        self.body = Column(gap=12, padding=(0, 4, 0, 28))
        holder = AnchorLayout(anchor_x="center", anchor_y="top", size_hint_y=None)
        self.body.bind(height=holder.setter("height"))
        self.scroll.bind(width=lambda _scroll, width: self._take_width(width))
        self.body.size_hint_x = None
        holder.add_widget(self.body)
        self.scroll.add_widget(holder)
        self.add_widget(self.scroll)
        self._gone: Column | None = None
        self.build(self.body)

    def _header(self) -> Widget:
        actions = [self.chip]
        return Row(
            Text(self.title, size="headline", bold=True, one_line=True), *actions, gap=8, padding=(20, 10, 20, 10),
            height_min=64,
        )  # fmt: skip

    def _take_width(self, width: float) -> None:
        self.body.width = min(width - 2 * dp(16), dp(WIDEST))

    def build(self, body: Column) -> None:
        """Put the cards into the body; they are filled by `show`."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Ask for what only this screen needs."""

    def show(self, view: View) -> None:
        """Fill the cards."""
        raise NotImplementedError

    def pair_first(self, title: str, text: str) -> Empty:
        """Instead of cards, where a gateway would fill them."""
        offer = PushButton("Pair this phone", lambda: self.app.go("setup"), kind="tonal", icon="link", fit=True)
        return Empty(self.icon, title, text, offer)

    def take(self, view: View) -> None:
        if self._gone is not None:
            self._gone = None
            replace(self.body)
            self.build(self.body)
        text, fill, colour = connection(view)
        self.chip.show(text, fill=fill, colour=colour)
        self.show(view)

    def starting(self) -> None:
        self.chip.show("Starting", fill="raised", colour="soft")

    def lose(self, error: ResurgeError) -> None:
        """The service does not answer: say so instead of showing what may no longer be true."""
        self.chip.show("Not running", fill="bad_tint", colour="bad")
        if self._gone is None:
            self._gone = Empty(
                "alert", "The recorder is not running",
                "No sensor is read. It runs when you start it, until you stop it. What was recorded is safe on this "
                "phone, and is sent when it runs again.",
                PushButton("Start the recorder", self.app.run_recorder, icon="record", fit=True), colour="bad",
            )  # fmt: skip
            text = error.code if isinstance(error, ServiceGone) else f"{error.message} [{error.code}]"
            text = sentence(self.app.around.why_not_running()) or text
            self._gone.add_widget(Text(text, size="caption", colour="faint", align="center"))
            replace(self.body, self._gone)

    def leave(self) -> bool:
        """The back button was pressed; True when this screen had something of its own to go back from."""
        return False


def connection(view: View) -> tuple[str, str, str]:
    """(words, surface, ink) for how this phone stands with its gateway."""
    if view.get("gateway") is None:
        return "On its own", "raised", "soft"
    if view.get("connected"):
        return "Connected", "tint", "on_tint"
    return "Offline", "warn_tint", "warn"


class Empty(Card):
    """Nothing here yet: why, and what to do about it."""

    def __init__(self, icon: str, title: str, text: str, *buttons: Widget, colour: str = "accent") -> None:
        circle = AnchorLayout(size_hint=(None, None), size=(dp(72), dp(72)))
        paint(circle, "bad_tint" if colour == "bad" else "tint", corner=36)
        circle.add_widget(Icon(icon, side=32, colour="bad" if colour == "bad" else "on_tint"))
        super().__init__(
            _centred(circle), Space(2), Text(title, size="title", bold=True, align="center"),
            Text(text, size="body", colour="soft", align="center"), gap=8, padding=(24, 28, 24, 28),
        )  # fmt: skip
        if buttons:
            self.add_widget(Space(4))
            for button in buttons:
                self.add_widget(_centred(button))


def _centred(widget: Widget) -> Widget:
    holder = AnchorLayout(size_hint_y=None, height=widget.height)
    widget.bind(height=holder.setter("height"))
    holder.add_widget(widget)
    return holder


def section(title: str, note: str = "") -> Column:
    """The heading of a card."""
    heading = Column(Text(title, size="title", bold=True), gap=2)
    if note:
        heading.add_widget(Text(note, size="label", colour="soft"))
    return heading


def fact(name: str, value: str, *, swatch: str = "") -> Row:
    """A line of two: what, and how much."""
    words = Text(value, size="label", bold=True, align="right", fit=True)
    parts = [Swatch(swatch)] if swatch else []
    return Row(*parts, Text(name, size="label", colour="soft"), words, gap=10, height_min=26)


def apart(widgets: Iterable[Widget]) -> list[Widget]:
    """Each with the room below it that cards have between them; nothing at all where there is none."""
    return [part for widget in widgets for part in (widget, Space(GAP))]


def sentence(text: str) -> str:
    """The words of an error or a remedy, as they stand alone."""
    first = text.split(" ", 1)[0]
    raised = text if any(sign in first for sign in ".:/") else text[:1].upper() + text[1:]  # names stay as they are
    return raised if not text or text.endswith((".", "!", "?")) else f"{raised}."


def allowed(view: View) -> list[str]:
    """The sensors that a person said yes to."""
    return sorted(sensor for sensor, yes in view.get("consents", {}).items() if yes)


def age(view: View, time_us: int | None) -> str:
    """How long ago on the node's own clock."""
    return number_text.ago(None if time_us is None else max(0.0, (view["time_us"] - time_us) / 1e6))
