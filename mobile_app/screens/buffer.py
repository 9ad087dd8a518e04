"""Buffer: what waits on this phone, how long it still fits, what was given up and why, and why it stopped."""

from __future__ import annotations

from typing import Any

from kivy.uix.widget import Widget

from mobile_app import wording
from mobile_app.screens.controls import Choices, PushButton
from mobile_app.screens.icons import Icon
from mobile_app.screens.page import Empty, Page, View, age, apart, fact, section, sentence
from mobile_app.screens.surfaces import Card, Divider, Figure, Meter, Notice
from mobile_app.screens.text import Column, Row, Space, Text, replace

LEDGER_ROWS = 50
REASONS = {
    "evicted": "evicted: the spool was full",
    "expired": "expired: it was too old to be of use",
    "rejected": "rejected: it did not fit, or was refused",
    "quarantined": "quarantined: it could not be worked on",
}
WAITS = {
    "waiting-wifi": "Waits for Wi-Fi", "waiting-unmetered": "Waits for a free network", "no-network": "No network",
    "waiting-home-network": "Waits until roaming ends", "gateway-unreachable": "The gateway does not answer",
}  # fmt: skip
HARMLESS = {"not-paired", "no-network", "waiting-wifi", "waiting-unmetered", "waiting-home-network", "rebooted",
            "clock-jump", "gateway-unreachable"}  # fmt: skip


class BufferPage(Page):
    name, title, icon = "buffer", "Buffer", "buffer"

    def build(self, body: Column) -> None:
        self.part = getattr(self, "part", "held")
        self._choices = Choices({"held": "Held", "ledger": "Ledger", "health": "Health"}, self.part, self.turn_to)
        self._content = Column(gap=12)
        body.add_widget(self._choices)
        body.add_widget(self._content)
        self._held = Held()
        self._ledger: list[dict[str, Any]] | None = None
        self._drawn: object = None

    def turn_to(self, part: str) -> None:
        self.part = part
        self._choices.show(part)
        self._drawn = None
        self.refresh()
        if self.desk.view is not None:
            self.show(self.desk.view)

    def leave(self) -> bool:
        if self.part == "held":
            return False
        self.turn_to("held")
        return True

    def refresh(self) -> None:
        if self.part == "ledger":
            self.desk.ask(lambda client: client.ledger(LEDGER_ROWS), self._take_ledger, key="ledger")

    def _take_ledger(self, entries: list[dict[str, Any]]) -> None:
        self._ledger = entries
        if self.desk.view is not None:
            self.show(self.desk.view)

    def show(self, view: View) -> None:
        if self.part == "held":
            if self._drawn != "held":
                self._drawn = "held"
                replace(self._content, self._held)
            self._held.show(view)
        elif self.part == "ledger":
            key = ("ledger", None if self._ledger is None else len(self._ledger), repr(view["spool"].get("ledger")))
            if key != self._drawn:
                self._drawn = key
                replace(self._content, *ledger_cards(view, self._ledger or []))
        else:
            entries = view.get("health", [])
            key = ("health", repr([(entry["code"], entry["what"], entry["since"]) for entry in entries]))
            if key != self._drawn:
                self._drawn = key
                replace(self._content, *self._health_cards(view, entries))

    def _health_cards(self, view: View, entries: list[dict[str, Any]]) -> list[Widget]:
        serious = [entry for entry in entries if entry["code"] not in HARMLESS]
        if not entries or (not serious and all(entry["code"] == "not-paired" for entry in entries)):
            return [
                Empty("check", "Nothing is in its way", "Sensors are read, the disk takes what they give, and nobody "
                      "stopped the recorder. If that changes, the reason is written here, also when the app was closed.")
            ]  # fmt: skip
        return [section_card(len(serious)), *(self._health_card(view, entry) for entry in entries)]

    def _health_card(self, view: View, entry: dict[str, Any]) -> Card:
        harmless = entry["code"] in HARMLESS
        colour = "soft" if harmless else "warn" if entry.get("over") else "bad"
        since = max(0.0, (view["time_us"] - entry["since"]) / 1e6)
        when = (
            f"{wording.moment(entry['since'])}, {wording.ago(since)}"
            if entry.get("over")
            else f"for {wording.duration(since)}"
        )
        card = Card(
            Row(Icon("info" if harmless else "alert", side=24, colour=colour),
                Column(Text(sentence(entry["what"]), bold=True), Text(when, size="label", colour="soft"), gap=2), gap=14),
            Column(Text("What to do", size="caption", colour="faint", bold=True), Text(sentence(entry["remedy"])), gap=2),
            Text(entry["code"], size="caption", colour="faint", mono=True), gap=10,
        )  # fmt: skip
        if entry.get("over"):
            card.add_widget(
                PushButton("Dismiss", lambda: self.desk.do("dismiss", code=entry["code"]), kind="outlined", fit=True)
            )
        return card


class Held(Column):
    """What waits, how long it fits, and where every reading went."""

    def __init__(self) -> None:
        super().__init__(gap=12)
        self._waiting = Text("0", size="display", bold=True)
        self._told = Text("", colour="soft")
        self._meter = Meter(14)
        self._room = Text("", size="label", colour="soft")
        self._oldest, self._lasts = Figure("the oldest has waited"), Figure("until something is overwritten")
        self._account_meter = Meter(14)
        self._account = Column(gap=2)
        self._first = Column(gap=4)
        self._receipt = Column(gap=2)
        self._notice = Column()
        held = Card(
            section("Held on this phone"), Column(self._waiting, self._told, gap=0), self._meter, self._room, Divider(),
            Row(self._oldest, self._lasts, gap=14),
        )  # fmt: skip
        self.add_widget(Column(self._notice, held))
        self.add_widget(Card(section("Every reading, accounted for"), self._account_meter, self._account))
        self.add_widget(Card(section("What would go first"), self._first))
        self.add_widget(Card(section("Last receipt"), self._receipt))
        self._paused: object = None

    def show(self, view: View) -> None:
        spool = view["spool"]
        self._waiting.text = wording.count(view["spooled"])
        paired = view.get("gateway") is not None
        self._told.text = (
            ("reading waits" if view["spooled"] == 1 else "readings wait") + (" for a receipt" if paired else "; no gateway is paired")
            if view["spooled"]
            else "Nothing waits: every reading has its receipt" if view["delivered"] else "Nothing waits: no plan sends readings yet"
        )  # fmt: skip
        used, room = spool["used_bytes"], max(1, spool["capacity_bytes"])
        self._meter.show(("spooled", used / room))
        self._room.text = (
            f"{wording.size(used)} of {wording.size(room)}, {wording.plural(spool['batches'], 'batch', 'batches')}"
        )
        self._oldest.value.text = wording.duration(spool["oldest_s"])
        self._lasts.value.text = _lasting(spool.get("full_in_s"))
        self._show_account(view)
        self._show_first(view)
        replace(
            self._receipt, fact("Came", age(view, view.get("last_receipt_us"))),
            fact("Exchanges", wording.count(view["exchanges"])), fact("Failed", wording.count(view["failures"])),
            fact("Sent", wording.size(view["bytes_sent"])), fact("Lane", str(view.get("lane", "none"))),
        )  # fmt: skip
        self._show_notice(view)

    def _show_account(self, view: View) -> None:
        produced = max(1, view["produced"])
        parts = [("Delivered", "delivered"), ("Waiting here", "spooled"), ("Given up", "ledgered")]
        self._account_meter.show(*((key, view[key] / produced) for _, key in parts))
        replace(
            self._account, *(fact(name, wording.count(view[key]), mark=key) for name, key in parts), Divider(),
            fact("Produced", wording.count(view["produced"])),
        )  # fmt: skip

    def _show_first(self, view: View) -> None:
        order = view.get("goes_first", [])
        if not order:
            replace(self._first, Text("Nothing is held, so nothing would go.", colour="soft"))
            return
        edges = view.get("edges", {})
        rows = [
            Row(Text(f"{place}", size="label", colour="faint", fit=True), Text(edge, one_line=True),
                Text(wording.size(edges.get(edge, {}).get("bytes", 0)), size="label", colour="soft", fit=True), gap=12,
                height_min=28)
            for place, edge in enumerate(order, start=1)
        ]  # fmt: skip
        replace(
            self._first,
            *rows,
            Text("Only when the spool is full; each loss is written in the ledger.", size="label", colour="soft"),
        )

    def _show_notice(self, view: View) -> None:
        code = view.get("paused") or ""
        offline = view.get("gateway") is not None and not view.get("connected")
        damage = spool_damage(view)
        state = (code, offline, view.get("why_not"), damage)
        if state == self._paused:
            return
        self._paused = state
        if damage:
            replace(self._notice, *apart([Notice("bad", "A part of the spool was damaged", damage)]))
        elif code or offline:
            why = sentence(view["why_not"]) if view.get("why_not") else ""
            told = Notice("warn", WAITS.get(code, "Offline"), f"Readings are kept and sent later. {why}", icon="offline")
            replace(self._notice, *apart([told]))
        else:
            replace(self._notice)


def spool_damage(view: View) -> str:
    damage = view["spool"].get("damage")
    if not damage:
        return ""
    return f"{damage}" if isinstance(damage, str) else "; ".join(map(str, damage)) if isinstance(damage, list) else ""


def ledger_cards(view: View, entries: list[dict[str, Any]]) -> list[Widget]:
    """What was given up: the sum by reason, then each range."""
    sums = view["spool"].get("ledger", {})
    if not view["ledgered"] and not entries:
        return [
            Empty("list", "Nothing was given up", "When the spool is full or readings grow too old, something has to go. "
                  "Which, how many and why is written here, and told to the gateway: no loss is silent.")
        ]  # fmt: skip
    total = Card(
        section("Given up"), Text(wording.count(view["ledgered"]), size="display", bold=True),
        Text(f"of {wording.plural(view['produced'], 'reading')} ({view['ledgered'] / max(1, view['produced']):.1%})", colour="soft"),
        *(fact(REASONS.get(reason, reason), wording.count(count)) for reason, count in sums.items()),
    )  # fmt: skip
    ranges = Card(section("Which ones"), Space(2), gap=0)
    for index, entry in enumerate(entries):
        if index:
            ranges.add_widget(Divider())
        ranges.add_widget(_ledger_row(view, entry))
    return [total, ranges] if entries else [total]


def _ledger_row(view: View, entry: dict[str, Any]) -> Widget:
    numbers = f"{wording.count(entry['lo'])} – {wording.count(entry['hi'] - 1)}"
    return Column(
        Row(Text(entry["edge"], bold=True, one_line=True), Text(wording.plural(entry["hi"] - entry["lo"], "reading"), size="label",
            fit=True), gap=8),
        Text(f"no. {numbers}", size="label", colour="soft"),
        Text(REASONS.get(entry["reason"], entry["reason"]), size="label", colour="soft"), gap=2, padding=(0, 10, 0, 10),
    )  # fmt: skip


def section_card(serious: int) -> Widget:
    if serious:
        return Notice(
            "bad", f"{wording.plural(serious, 'thing')} to look at", "Each says what happened and what helps."
        )
    return Notice("info", "It runs; this is in its way", "Nothing is lost by these.")


def _lasting(seconds: float | None) -> str:
    if seconds is None:
        return "\u2013"
    return "full now" if seconds <= 0 else wording.duration(seconds)
