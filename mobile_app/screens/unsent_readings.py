"""What waits on this phone, how long it still fits, what would go first, and where every reading went."""

from __future__ import annotations

from mobile_app.screens.page import View, age, apart, fact, section, sentence
from mobile_app.screens.promises import promise_lines
from mobile_app.screens.widgets.surfaces import Card, Divider, Figure, Meter, Notice
from mobile_app.screens.widgets.text import Column, Row, Text, replace
from mobile_app.screens.words import number_text
from mobile_app.screens.words.advice_text import buffer_words

WAITS = {
    "waiting-wifi": "Waits for Wi-Fi", "waiting-unmetered": "Waits for a free network", "no-network": "No network",
    "waiting-home-network": "Waits until roaming ends", "gateway-unreachable": "The gateway does not answer",
    "battery-floor": "Stopped to spare the battery", "revoked": "This phone was revoked",
}  # fmt: skip
ACCOUNT = (("Delivered", "delivered"), ("Waiting here", "spooled"), ("Given up", "ledgered"))


class WaitingCards(Column):
    def __init__(self) -> None:
        super().__init__(gap=12)
        self._waiting = Text("0", size="display", bold=True)
        self._text = Text("", colour="soft")
        self._meter = Meter(14)
        self._room = Text("", size="label", colour="soft")
        self._oldest, self._lasts = Figure("the oldest has waited"), Figure("until something is overwritten")
        self._advice = Text("", size="label", colour="soft")
        self._account_meter = Meter(14)
        self._account, self._first, self._receipt = Column(gap=2), Column(gap=4), Column(gap=2)
        self._notice = Column()
        self._noticed: object = None
        self._promised: object = None
        waiting = Card(
            section("Held on this phone"), Column(self._waiting, self._text), self._meter, self._room, Divider(),
            Row(self._oldest, self._lasts, gap=14), self._advice,
        )  # fmt: skip
        self.add_widget(Column(self._notice, waiting))
        self._promises = Column(gap=10)
        self.add_widget(Card(section("Every reading, accounted for"), self._account_meter, self._account))
        self.add_widget(Card(section("What would go first"), self._first))
        self.add_widget(Card(section("What is promised"), self._promises))
        self.add_widget(Card(section("Last receipt"), self._receipt))

    def show(self, view: View) -> None:
        spool = view["spool"]
        self._waiting.text = number_text.count(view["spooled"])
        self._text.text = waiting_text(view)
        used, room = spool["used_bytes"], max(1, spool["capacity_bytes"])
        self._meter.show(("spooled", used / room))
        batches = number_text.plural(spool["batches"], "batch", "batches")
        self._room.text = f"{number_text.size(used)} of {number_text.size(room)}, {batches}"
        self._oldest.value.text = number_text.duration(spool["oldest_s"])
        full_in_s = spool.get("full_in_s")
        self._lasts.value.text = "full now" if full_in_s == 0 else number_text.duration(full_in_s)
        self._advice.text = buffer_words(view)
        self._show_promises(view)
        self._show_account(view)
        self._show_first(view)
        self._show_receipt(view)
        self._show_notice(view)

    def _show_promises(self, view: View) -> None:
        told = view.get("promises", [])
        if told != self._promised:
            self._promised = told
            replace(self._promises, *promise_lines(view))

    def _show_account(self, view: View) -> None:
        produced = max(1, view["produced"])
        self._account_meter.show(*((key, view[key] / produced) for _, key in ACCOUNT))
        replace(
            self._account, *(fact(name, number_text.count(view[key]), swatch=key) for name, key in ACCOUNT), Divider(),
            fact("Produced", number_text.count(view["produced"])),
        )  # fmt: skip

    def _show_first(self, view: View) -> None:
        order, edges = view.get("goes_first", []), view.get("edges", {})
        if not order:
            replace(self._first, Text("Nothing is held, so nothing would go.", colour="soft"))
            return
        rows = [
            Row(Text(str(place), size="label", colour="faint", fit=True), Text(edge, one_line=True),
                Text(number_text.size(edges.get(edge, {}).get("bytes", 0)), size="label", colour="soft", fit=True),
                gap=12, height_min=28)
            for place, edge in enumerate(order, start=1)
        ]  # fmt: skip
        note = "Only when the spool is full; each loss is written in the ledger."
        replace(self._first, *rows, Text(note, size="label", colour="soft"))

    def _show_receipt(self, view: View) -> None:
        if view.get("gateway") is None:
            replace(self._receipt, Text("No gateway is paired, so no receipts come.", colour="soft"))
            return
        replace(
            self._receipt, fact("Came", age(view, view.get("last_receipt_us"))),
            fact("Exchanges", number_text.count(view["exchanges"])),
            fact("Failed", number_text.count(view["failures"])),
            fact("Sent", number_text.size(view["bytes_sent"])), fact("Lane", str(view.get("lane", "none"))),
        )  # fmt: skip

    def _show_notice(self, view: View) -> None:
        code = view.get("paused") or view.get("held") or ""
        offline = view.get("gateway") is not None and not view.get("connected")
        damaged = view["spool"].get("damage", 0)
        state = (code, offline, view.get("why_not"), damaged)
        if state == self._noticed:
            return
        self._noticed = state
        notices = []
        if damaged:
            places = number_text.plural(damaged, "place")
            notices.append(Notice("bad", "The disk has damaged the spool", f"{places} did not read back as written."))
        if code or offline:
            why = sentence(view["why_not"]) if view.get("why_not") else ""
            text = f"Readings are kept and sent later. {why}"
            notices.append(Notice("warn", WAITS.get(code, "Offline"), text, icon="offline"))
        replace(self._notice, *apart(notices))


def waiting_text(view: View) -> str:
    """What the number of waiting readings means here."""
    if not view["spooled"]:
        return (
            "Nothing waits: all has its receipt" if view["delivered"] else "Nothing waits: no plan sends readings yet"
        )
    waits = "reading waits" if view["spooled"] == 1 else "readings wait"
    return f"{waits} for a receipt" if view.get("gateway") is not None else f"{waits}; no gateway is paired"
