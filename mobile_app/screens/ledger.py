"""The ledger: what was given up, the sum by reason and each range."""

from __future__ import annotations

from typing import Any

from kivy.uix.widget import Widget

from mobile_app.screens.page import Empty, View, fact, section
from mobile_app.screens.widgets.surfaces import Card, Divider
from mobile_app.screens.widgets.text import Column, Row, Space, Text
from mobile_app.screens.words import number_text

REASONS = {
    "evicted": "evicted: the spool was full",
    "expired": "expired: it was too old to be of use",
    "rejected": "rejected: it did not fit, or was refused",
    "quarantined": "quarantined: it could not be worked on",
}


def ledger_cards(view: View, entries: list[dict[str, Any]]) -> list[Widget]:
    lost, produced = view["ledgered"], view["produced"]
    if not lost and not entries:
        return [
            Empty(
                "list", "Nothing was given up",
                "When the spool is full or readings grow too old, something has to go. Which, how many and why is "
                "written here, and told to the gateway: no loss is silent.",
            )
        ]  # fmt: skip
    share = f"of {number_text.plural(produced, 'reading')} ({lost / max(1, produced):.1%})"
    total = Card(
        section("Given up"), Text(number_text.count(lost), size="display", bold=True), Text(share, colour="soft"),
        *(
            fact(REASONS.get(reason, reason), number_text.count(count))
            for reason, count in view["spool"]["ledger"].items()
        ),
    )  # fmt: skip
    ranges = Card(section("Which ones"), Space(2), gap=0)
    for index, entry in enumerate(entries):
        if index:
            ranges.add_widget(Divider())
        ranges.add_widget(_range_row(entry))
    return [total, ranges] if entries else [total]


def _range_row(entry: dict[str, Any]) -> Widget:
    readings = number_text.plural(entry["hi"] - entry["lo"], "reading")
    numbers = f"no. {number_text.count(entry['lo'])} – {number_text.count(entry['hi'] - 1)}"
    return Column(
        Row(Text(entry["edge"], bold=True, one_line=True), Text(readings, size="label", fit=True)),
        Text(f"{numbers}  ·  {entry['reason']}", size="label", colour="soft"), gap=2, padding=(0, 10, 0, 10),
    )  # fmt: skip
