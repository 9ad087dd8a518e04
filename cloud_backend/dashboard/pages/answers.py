"""How a page is answered: rendered, refused, or left by a redirect after something was done.

A form answers with a redirect, so that a reload repeats nothing; what was done is told by a word in the address that is
looked up among the acts, never repeated from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from cloud_backend.dashboard.acts.table import ACTS
from cloud_backend.dashboard.drawing.templating import page
from cloud_backend.dashboard.refusals import problem_of
from cloud_backend.dashboard.sign_in.access import Person, asks_for_part, require
from cloud_backend.gateway.http_problems import Problem
from shared.errors import ResurgeError

Viewer = Annotated[Person, Depends(require("viewer"))]
Operator = Annotated[Person, Depends(require("operator"))]
Admin = Annotated[Person, Depends(require("admin"))]
Item = TypeVar("Item")

PAGE_ROWS = 50
PAGE_MAX = 100_000
NOTHING = "nothing-to-roll-back"
SENTENCES = {act.word: act.success for act in ACTS if act.success} | {
    NOTHING: "There was nothing to roll back.",
    "password-changed": "The password is changed.",
}


@dataclass(frozen=True, slots=True)
class Pages:
    """Where one is in a long list."""

    number: int
    count: int
    rows: int


def answer(
    request: Request, template: str, person: Person, section: str, *, part: str = "", status: int = 200, **values: Any
) -> HTMLResponse:
    """A page of this section of the navigation. An open page asks again for the `part` of it that changes, and only for
    that."""
    template = part if part and asks_for_part(request) else template
    sentence = SENTENCES.get(request.query_params.get("done", ""), "")
    return page(request, template, person=person, status=status, section=section, notice=sentence, **values)


def back(address: str, word: str) -> RedirectResponse:
    return RedirectResponse(f"{address}{'&' if '?' in address else '?'}done={word}", status_code=303)


class Refused(Problem):
    """A refusal as the one who asked can read it: a page for a person, a problem document for a script."""

    def __init__(self, request: Request, problem: Problem) -> None:
        super().__init__(problem.code, problem.detail, status=problem.status)
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
    """Answer an error of a view as a refusal that says what to do, not as our fault."""
    try:
        yield
    except ResurgeError as error:
        raise Refused(request, problem_of(error)) from None


def paged(items: Sequence[Item], number: int, rows: int = PAGE_ROWS) -> tuple[Sequence[Item], Pages]:
    """One page of a list, the last one where the number is past the end."""
    count = max((len(items) + rows - 1) // rows, 1)
    number = min(max(number, 1), count)
    return items[(number - 1) * rows : number * rows], Pages(number, count, len(items))


def whole_number(text: str | None, *, lowest: int = 0, highest: int = PAGE_MAX) -> int:
    """A number from an address; the lowest where there is none: no address that a person types is an error page."""
    digits = text or ""
    value = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 18 else lowest
    return min(max(value, lowest), highest)


def chosen(text: str | None, choices: Mapping[str, object] | Sequence[str], otherwise: str) -> str:
    return text if text is not None and text in choices else otherwise
