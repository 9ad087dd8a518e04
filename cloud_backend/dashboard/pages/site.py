"""What every page is made from: the sources, the history of the log, the fleet; and how a page is answered.

A form answers with a redirect, so that a reload repeats nothing; what was done is told by a word in the address
that is looked up here, never repeated from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from cloud_backend.coordinator.roster import RosterEntry
from cloud_backend.dashboard.access import Person, asks_for_part, form_fields, require
from cloud_backend.dashboard.attention import Issue, issues
from cloud_backend.dashboard.feed import Feed
from cloud_backend.dashboard.fleet import Device, Fleet
from cloud_backend.dashboard.history import History
from cloud_backend.dashboard.job_facts import JobFacts
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.templating import page
from cloud_backend.gateway.problems import Problem
from shared.errors import UsageError

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
    "resumed": "The query goes on where it stopped.",
    "dropped": "The query is forgotten, with its job and its results.",
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
    jobs: JobFacts
    quarantined: Callable[[], int] = lambda: 0

    def issues(self) -> list[Issue]:
        """What needs attention, from what the other pages show."""
        return issues(self.devices(), self.jobs.all(self.sources.stores()), self.quarantined())

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


def answer(
    request: Request, template: str, person: Person, section: str, *, status: int = 200, **values: Any
) -> HTMLResponse:
    """A page of this section of the navigation."""
    said = SAID.get(request.query_params.get("said", ""), "")
    return page(request, template, person=person, status=status, section=section, said=said, **values)


def part_or_page(request: Request, part: str, whole: str) -> str:
    """The template to answer with: an open page asks again for the part of it that changes, and only for that."""
    return part if asks_for_part(request) else whole


def back(address: str, said: str) -> RedirectResponse:
    return RedirectResponse(f"{address}{'&' if '?' in address else '?'}said={said}", status_code=303)


class Refused(Problem):
    """A refusal as the one who asked can read it: a page for a person, a problem document for a script."""

    def __init__(self, request: Request, code: str, detail: str, *, status: int) -> None:
        super().__init__(code, detail, status=status)
        self._request = request

    def response(self) -> Response:
        headers = self._request.headers
        if "text/html" not in headers.get("accept", "") or asks_for_part(self._request):
            return super().response()
        person = getattr(self._request.state, "person", None)
        return page(
            self._request, "refused.html", person=person, status=self.status, code=self.code, detail=self.detail
        )


@contextmanager
def refusing(request: Request) -> Iterator[None]:
    """Answer a UsageError of an act as a refusal that says what to do, not as our fault."""
    try:
        yield
    except UsageError as error:
        unknown = error.code.endswith(("-not-found", "-unknown", "-no-sink", "-no-plan", "-no-store"))
        raise Refused(request, error.code, error.message, status=404 if unknown else 422) from None


def missing(request: Request, what: str) -> Problem:
    return Refused(request, "not-found", f"there is no such {what}", status=404)


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
