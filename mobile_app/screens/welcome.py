"""The first start, in three screens: what it does, what it promises, what it asks for."""

from __future__ import annotations

from collections.abc import Callable

from kivy.graphics import Color, Rectangle
from kivy.metrics import dp
from kivy.uix.anchorlayout import AnchorLayout
from kivy.uix.boxlayout import BoxLayout
from kivy.uix.scrollview import ScrollView
from kivy.uix.widget import Widget

from mobile_app.screens.widgets.appearance import look
from mobile_app.screens.widgets.controls import PushButton
from mobile_app.screens.widgets.icons import Icon
from mobile_app.screens.widgets.surfaces import paint
from mobile_app.screens.widgets.text import Column, Row, Space, Text, replace

STEPS = (
    ("record", "Record what your phone senses",
     "Motion, place, light, sound level. Start and stop with one button, mark moments as they happen. No account and "
     "no server are needed; everything stays on this phone.",
     (("lock", "Encrypted on this phone"), ("flag", "Named recordings with markers"),
      ("share", "Export as CSV, GPX or zip"))),
    ("offline", "Offline is normal here",
     "Pair with a gateway if you want, and readings flow there by themselves. Without a network they wait on this "
     "phone and catch up later, each one exactly once.",
     (("buffer", "See how much waits, and for how long it fits"), ("list", "Whatever must be given up is written down"),
      ("return", "Results come back to this phone"))),
    ("setup", "You decide what is read",
     "Each sensor needs your yes, and you can take it back at any time. Android asks too, when you allow a sensor that "
     "it guards. Nothing is read before, and nothing runs until you start it.",
     (("check", "Consent for each sensor"), ("battery", "Stops at the battery level you choose"),
      ("trash", "Delete my data, in one place"))),
)  # fmt: skip


class Welcome(BoxLayout):
    def __init__(self, done: Callable[[], None]) -> None:
        super().__init__(orientation="vertical")
        self._done, self.step = done, 0
        with self.canvas.before:
            Color(*look.colour("page"))
            ground = Rectangle()
        self.bind(pos=lambda *_: setattr(ground, "pos", self.pos), size=lambda *_: setattr(ground, "size", self.size))
        left, top, right, bottom = look.insets
        self.padding = [left + dp(28), top + dp(16), right + dp(28), bottom + dp(20)]
        self._words = Column(gap=14, padding=(0, 20, 0, 12))
        scroll = ScrollView(do_scroll_x=False, bar_width=0)
        scroll.add_widget(self._words)
        self._dots = Row(gap=8, size_hint_x=None, pos_hint={"center_x": 0.5})
        self._dots.bind(minimum_width=self._dots.setter("width"))
        self._acts = Row(gap=12)
        self.add_widget(scroll)
        self.add_widget(Column(self._dots, self._acts, gap=24))
        self._show()

    def _show(self) -> None:
        icon, title, text, points = STEPS[self.step]
        replace(
            self._words, _emblem(icon), Space(10), Text(title, size="headline", bold=True),
            Text(text, size="body", colour="soft"), Space(8),
            *(Row(Icon(icon, side=22, colour="accent"), Text(point), gap=14, height_min=40) for icon, point in points),
        )  # fmt: skip
        replace(self._dots, *(_dot(index == self.step) for index in range(len(STEPS))))
        last = self.step == len(STEPS) - 1
        forward = PushButton("Start" if last else "Next", self._forward)
        if self.step:
            replace(self._acts, PushButton("Back", self.back, kind="outlined"), forward)
        else:
            replace(self._acts, forward)

    def _forward(self) -> None:
        if self.step == len(STEPS) - 1:
            self._done()
            return
        self.step += 1
        self._show()

    def back(self) -> bool:
        """True when there was a step to go back to."""
        if self.step == 0:
            return False
        self.step -= 1
        self._show()
        return True


def _emblem(icon: str) -> Widget:
    """A drawing of rings, as water coming up: what sank comes back whole."""
    holder = AnchorLayout(size_hint_y=None, height=dp(220))
    rings = AnchorLayout(size_hint=(None, None), size=(dp(204), dp(204)))
    paint(rings, "accent", corner=102, share=0.07)
    middle = AnchorLayout(size_hint=(None, None), size=(dp(156), dp(156)))
    paint(middle, "accent", corner=78, share=0.16)
    inner = AnchorLayout(size_hint=(None, None), size=(dp(108), dp(108)))
    paint(inner, "accent", corner=54)
    inner.add_widget(Icon(icon, side=52, colour="on_accent", stroke=1.7))
    middle.add_widget(inner)
    rings.add_widget(middle)
    holder.add_widget(rings)
    return holder


def _dot(here: bool) -> Widget:
    dot = Widget(size_hint=(None, None), size=(dp(24 if here else 8), dp(8)))
    paint(dot, "accent" if here else "line", corner=4)
    return dot
