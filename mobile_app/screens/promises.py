"""What each stream promised, with a light: how it is now, and how old what waits is against what was promised."""

from __future__ import annotations

from typing import Any

from kivy.uix.widget import Widget

from mobile_app.screens.page import View
from mobile_app.screens.widgets.icons import Icon
from mobile_app.screens.widgets.surfaces import Divider, Meter
from mobile_app.screens.widgets.text import Column, Row, Text
from mobile_app.screens.words import number_text
from mobile_app.screens.words.promise_words import LIGHTS, light_text, state_text


def promise_lines(view: View) -> list[Widget]:
    """One block for each stream of the plan; a sentence where there is none."""
    promises = view.get("promises", [])
    if not promises:
        return [Text("No plan runs, so nothing is promised.", colour="soft")]
    lines: list[Widget] = []
    for place, promise in enumerate(promises):
        lines += [Divider(), _block(promise)] if place else [_block(promise)]
    return lines


def _block(promise: dict[str, Any]) -> Column:
    icon, colour = LIGHTS[promise["verdict"]]
    head = Row(
        Icon(icon, side=20, colour=colour, stroke=2.2), Text(promise["name"], bold=True, one_line=True),
        Text(light_text(promise), size="label", colour=colour, bold=True, fit=True), gap=10, height_min=28,
    )  # fmt: skip
    block = Column(head, Text(state_text(promise), size="label", colour="soft"), gap=4)
    bound_s = promise["bound_s"]
    if bound_s:
        meter = Meter(8)
        meter.show((colour, min(1.0, promise["delay_s"] / bound_s)))
        against = f"{number_text.duration(promise['delay_s'])} of {number_text.duration(bound_s)}"
        block.add_widget(Row(meter, Text(against, size="caption", colour="soft", fit=True), gap=10))
    return block
