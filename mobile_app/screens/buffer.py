"""Buffer: what waits on this phone and how long it still fits; beside it what was given up, and why it stopped."""

from __future__ import annotations

from typing import Any

from mobile_app.home.crashes import crashes
from mobile_app.screens.fleet import fleet_cards, fleet_key
from mobile_app.screens.health import health_cards
from mobile_app.screens.ledger import ledger_cards
from mobile_app.screens.page import Page, View, allowed
from mobile_app.screens.unsent_readings import WaitingCards
from mobile_app.screens.widgets.controls import Choices
from mobile_app.screens.widgets.text import Column, replace

LEDGER_ROWS = 50


class BufferPage(Page):
    name, title, icon = "buffer", "Buffer", "buffer"
    part = "held"

    def build(self, body: Column) -> None:
        self._choices = Choices({"held": "Held", "ledger": "Ledger", "health": "Health"}, self.part, self.turn_to)
        self._content = Column(gap=12)
        body.add_widget(self._choices)
        body.add_widget(self._content)
        self._waiting = WaitingCards()
        self._ledger: list[dict[str, Any]] = []
        self._drawn: object = None

    def turn_to(self, part: str) -> None:
        self.part = part
        self._choices.show(part)
        self._drawn = None
        self.scroll.scroll_y = 1
        self.refresh()
        if self.app.view is not None:
            self.show(self.app.view)

    def leave(self) -> bool:
        if self.part == "held":
            return False
        self.turn_to("held")
        return True

    def refresh(self) -> None:
        if self.part == "ledger":
            self.app.ask(lambda client: client.ledger(LEDGER_ROWS), self._take_ledger, key="ledger")

    def _take_ledger(self, entries: list[dict[str, Any]]) -> None:
        self._ledger = entries
        if self.app.view is not None:
            self.show(self.app.view)

    def show(self, view: View) -> None:
        if self.part == "held":
            if self._drawn != "held":
                self._drawn = "held"
                replace(self._content, self._waiting)
            self._waiting.show(view)
        elif self.part == "ledger":
            key: object = ("ledger", repr(self._ledger), repr(view["spool"].get("ledger")))
            if key != self._drawn:
                self._drawn = key
                replace(self._content, *ledger_cards(view, self._ledger))
        else:
            denied = [one["name"] for one in self.app.around.missing_permissions(allowed(view))]
            key = (
                "health",
                denied,
                crashes(self.app.home),
                [(entry["code"], entry["what"], entry["since"]) for entry in view.get("health", [])],
                fleet_key(view),
            )
            if key != self._drawn:
                self._drawn = key
                replace(self._content, *health_cards(view, self.app), *fleet_cards(view))
