"""How this device stands with its gateway: what it refused, when it last confirmed something, how often it was away."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from mobile_app.links.outages_seen import OutagesSeen
from mobile_app.spool.opening import BEHIND, note_behind
from shared.sync.events import Disconnected, PlanArrived, PlanWasWithheld, ReceiptReceived, Reconnected, Refused
from shared.wire.messages import PlanWithheld


class GatewayState:
    def __init__(self, home: Path, wall_us: Callable[[], int]) -> None:
        self._home = home
        self._wall_us = wall_us
        self.refusal = ""
        self.refusal_code = ""
        self.withheld = ""  # why it does not send its newest plan
        self.last_receipt_us: int | None = None
        self.disconnections = 0
        self.outages = OutagesSeen(home)

    def refuse(self, why: str) -> None:
        """This device itself cannot do what the gateway wants."""
        self.refusal = why

    def note(self, event: object) -> None:
        if isinstance(event, ReceiptReceived):
            self.last_receipt_us = self._wall_us()
        elif isinstance(event, Refused):
            self.refusal, self.refusal_code = f"{event.text} [{event.code}]", event.code
            if event.code in BEHIND:
                note_behind(self._home)
        elif isinstance(event, PlanWasWithheld):
            self.withheld = _withheld_words(event.withheld)
        elif isinstance(event, PlanArrived):
            self.withheld = ""
        elif isinstance(event, Disconnected):
            self.disconnections += 1
        elif isinstance(event, Reconnected):
            self.refusal = self.refusal_code = ""
            with contextlib.suppress(OSError):  # it only informs; a full disk is told where it matters
                self.outages.note(event.outage_s)


def _withheld_words(withheld: PlanWithheld) -> str:
    lacks = ", ".join(withheld.lacks)
    able = f" Install {withheld.build}, which has it." if withheld.build else ""
    return f"version {withheld.version} of the program needs {lacks}, which this app does not have.{able}"
