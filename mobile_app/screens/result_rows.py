"""Results as a person reads them: days under their dates, reports on whole days as reports, the rest behind a tap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from kivy.effects.scroll import ScrollEffect
from kivy.metrics import dp
from kivy.uix.anchorlayout import AnchorLayout
from kivy.uix.scrollview import ScrollView
from kivy.uix.widget import Widget

from mobile_app.screens.page import fact
from mobile_app.screens.widgets.controls import Pressed
from mobile_app.screens.widgets.icons import WORDS, Icon
from mobile_app.screens.widgets.sheets import Sheet
from mobile_app.screens.widgets.surfaces import Card, Chip, Divider, Figure, Notice, figures, paint
from mobile_app.screens.widgets.text import Column, Row, Space, Text, Wrap
from mobile_app.screens.words import number_text
from mobile_app.screens.words import result_words as words
from mobile_app.screens.words.quantities import COUNTS, quantity

ROWS_MAX = 30
REPORTED_MAX = 4  # figures of a report
FACTS_HIGH = 360  # of a sheet: more than this scrolls

Result = dict[str, Any]
Open = Callable[[Sheet], None]


def listed(rows: Sequence[Result], now_us: int, show: Open) -> list[Widget]:
    """The newest rows, the newest first; a tap opens all that a row says."""
    shown, parts = list(reversed(rows[-ROWS_MAX:])), []
    reports = [row for row in shown if words.is_report(row)]
    if reports:
        parts.append(_report(reports[0], rows, now_us))
        shown = shown[1:] if shown[0] is reports[0] else shown
    tell = _Teller(rows, now_us, show)
    for day, rows_of_day in groupby(shown, key=lambda row: "" if words.is_report(row) else words.day(row, now_us)):
        if day:
            parts.append(Column(Text(day, size="label", bold=True, colour="soft"), padding=(4, 6, 4, 0)))
        card = Card(gap=0, padding=(18, 6, 14, 6))
        for index, row in enumerate(rows_of_day):
            if index:
                card.add_widget(Divider())
            card.add_widget(tell(row))
        parts.append(card)
    if len(rows) > ROWS_MAX:
        parts.append(Text(f"and {number_text.count(len(rows) - ROWS_MAX)} older", size="label", colour="faint"))
    return parts


class _Teller:
    """Makes the lines of one sink's rows; they all tell the same columns."""

    def __init__(self, rows: Sequence[Result], now_us: int, show: Open) -> None:
        self._rows, self._now_us, self._show = rows, now_us, show
        self._columns = words.leading(rows)

    def __call__(self, row: Result) -> Widget:
        name = words.name(row, self._rows)
        when = words.day(row, self._now_us) if words.is_report(row) else words.times(row)
        head = Row(Text(name or when, bold=True, one_line=True), gap=8, height_min=26)
        column = Column(head, Text(words.line(row["values"], self._columns), size="label", colour="soft"), gap=2)
        before = words.former(row, self._columns)
        if before:
            column.add_widget(Text(f"was {before}", size="caption", colour="faint"))
        chips = _chips(row)
        if name:
            head.add_widget(Text(when, size="label", colour="soft", fit=True))
            if chips:
                column.add_widget(Space(3))
                column.add_widget(Wrap(*chips, gap=6))
        for chip in () if name else chips:
            head.add_widget(chip)
        parts = [_badge(WORDS[name.lower()]), column] if name.lower() in WORDS else [column]
        return Pressed(*parts, act=lambda: self._show(_details(row, self._rows, self._now_us)), gap=14,
                       padding=(0, 10, 0, 10))  # fmt: skip


def _badge(icon: str) -> Widget:
    circle = AnchorLayout(size_hint=(None, None), size=(dp(40), dp(40)))
    paint(circle, "tint", corner=20)
    circle.add_widget(Icon(icon, side=22, colour="on_tint"))
    return circle


def _chips(row: Result) -> list[Widget]:
    chips: list[Widget] = []
    if times := row.get("corrections"):
        chips.append(Chip("corrected" if times == 1 else f"corrected {times}x", fill="tint", colour="on_tint"))
    if not row["complete"]:
        chips.append(Chip("incomplete", fill="warn_tint", colour="warn"))
    return chips


def _report(row: Result, rows: Sequence[Result], now_us: int) -> Widget:
    """The newest report on whole days, written out."""
    columns = words.leading(rows, REPORTED_MAX, rank_max=COUNTS) or words.leading(rows)
    card = Card(Row(Text(words.day(row, now_us), size="title", bold=True), *_chips(row), gap=8), gap=14)
    if name := words.name(row, rows):
        card.add_widget(Text(name, size="label", colour="soft"))
    card.add_widget(figures([_figure(column, row["values"].get(column)) for column in columns]))
    if before := words.former(row, columns):
        card.add_widget(Text(f"was {before}", size="caption", colour="faint"))
    facts = words.facts(row, columns)
    if facts:
        card.add_widget(Divider())
        card.add_widget(Column(*(fact(*one) for one in facts), gap=2))
    return card


def _figure(column: str, value: object) -> Figure:
    measured = quantity(column, value)
    return Figure(measured.label, measured.value(value))


def _details(row: Result, rows: Sequence[Result], now_us: int) -> Sheet:
    """Everything that a row says."""
    name, day = words.name(row, rows), words.day(row, now_us)
    when = day if words.is_report(row) else f"{day}, {words.times(row)}"
    facts = Column(*(fact(*one) for one in words.facts(row)), gap=2)
    scroll = ScrollView(do_scroll_x=False, size_hint_y=None, effect_cls=ScrollEffect, bar_width=dp(3))
    facts.bind(height=lambda _facts, height: setattr(scroll, "height", min(height, dp(FACTS_HIGH))))
    scroll.height = min(facts.height, dp(FACTS_HIGH))
    scroll.add_widget(facts)
    parts: list[Widget] = [scroll]
    if row.get("corrections"):
        often = "" if row["corrections"] == 1 else f", for the {_th(row['corrections'])} time"
        before = words.former(row, list(words.measured([row, {"values": row.get("former") or {}}])))
        text = f"Before that it said {before}." if before else ""
        parts.append(Notice("info", f"Corrected {number_text.moment(row['corrected_us'])}{often}", text))
    if not row["complete"]:
        parts.append(Notice("warn", "Incomplete", "Something that belongs to it had not come in when it was made."))
    return Sheet(name or when, when if name else "", *parts)


def _th(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
