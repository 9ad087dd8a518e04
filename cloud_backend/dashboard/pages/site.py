"""What every page is made from: the sources, the history of the log, the fleet; and how a page is answered.

A form answers with a redirect, so that a reload repeats nothing; what was done is told by a word in the address
that is looked up here, never repeated from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from cloud_backend.coordinator.roster import RosterEntry
from cloud_backend.dashboard.access import Person, form_fields, require
from cloud_backend.dashboard.attention import Issue, issues
from cloud_backend.dashboard.feed import Feed
from cloud_backend.dashboard.fleet import Device, Fleet
from cloud_backend.dashboard.history import History
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.templating import page
from cloud_backend.gateway.problems import Problem

Viewer = Annotated[Person, Depends(require("viewer"))]
Operator = Annotated[Person, Depends(require("operator"))]
Admin = Annotated[Person, Depends(require("admin"))]
Fields = Annotated[dict[str, str], Depends(form_fields)]
Item = TypeVar("Item")

PAGE_ROWS = 50
PAGE_MAX = 100_000
SAID = {
    "renamed": "The device has its new name.",
    "revoked": "The device is revoked: it is refused from now on, and what it delivered stays.",
    "configured": "The settings are saved; the device gets them with its next exchange.",
    "deleted": "The device's data is deleted.",
    "submitted": "The query was submitted; its job starts within seconds.",
    "stopped": "The query stops; what it published stays.",
    "rolled-back": "Rolled back. The vertices of the rollback set run again from there; everything else goes on.",
    "undone": "The rollback was undone.",
    "nothing": "There was nothing to roll back.",
    "password": "The password is changed.",
    "saved": "Saved.",
    "removed": "Removed.",
    "tested": "A test message was sent.",
}


@dataclass(frozen=True, slots=True)
class Pages:
    """Where one is in a long list."""

    number: int
    count: int
    rows: int


@dataclass(slots=True)
class Site:
    sources: Sources
    history: History
    fleet: Fleet
    feed: Feed
    quarantined: Callable[[], int] = lambda: 0

    def issues(self) -> list[Issue]:
        """What needs attention, from what the other pages show."""
        return issues(self.devices(), {}, self.quarantined())

    def now_us(self) -> int:
        return self.sources.clock_us()

    def entries(self) -> list[RosterEntry]:
        return self.sources.roster.entries()

    def devices(self) -> list[Device]:
        """Every device ever enrolled, by name, with the log taken in up to now."""
        self.history.follow(seconds_max=0.2)
        return self.fleet.devices(self.entries(), self.now_us())

    def device_names(self) -> dict[str, str]:
        return {entry.device.hex(): entry.name for entry in self.entries()}

    def edge_names(self) -> dict[str, str]:
        """By number in hex, as the ledger has it."""
        with self.history.lock:
            return {f"{edge:016x}": name for edge, name in self.history.names.items()}


def answer(request: Request, template: str, person: Person, section: str, **values: Any) -> HTMLResponse:
    """A page of this section of the navigation."""
    said = SAID.get(request.query_params.get("said", ""), "")
    return page(request, template, person=person, section=section, said=said, **values)


def back(address: str, said: str) -> RedirectResponse:
    return RedirectResponse(f"{address}{'&' if '?' in address else '?'}said={said}", status_code=303)


def missing(what: str) -> Problem:
    return Problem("not-found", f"there is no such {what}", status=404)


def paged(items: Sequence[Item], number: int, rows: int = PAGE_ROWS) -> tuple[Sequence[Item], Pages]:
    """One page of a list, the last one where the number is past the end."""
    count = max((len(items) + rows - 1) // rows, 1)
    number = min(max(number, 1), count)
    return items[(number - 1) * rows : number * rows], Pages(number, count, len(items))


def whole_number(text: str | None, *, lowest: int = 0, highest: int = PAGE_MAX) -> int:
    """A number from an address or a form; the lowest where there is none: nothing a person types is an error page."""
    digits = text or ""
    value = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 18 else lowest
    return min(max(value, lowest), highest)


def chosen(text: str | None, choices: Mapping[str, object] | Sequence[str], otherwise: str) -> str:
    return text if text is not None and text in choices else otherwise
