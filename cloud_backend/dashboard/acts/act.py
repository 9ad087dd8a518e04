"""An act: something a person does here, said once. Pages and API read the same table and only differ in how they ask
and answer.

An act names the role it needs, its word in the audit log, its fields with their checks, and its two addresses.
Whoever carries it out calls `attempt.note()` when everything is checked and the next line changes something: the audit
line is durable before the change, and what is refused is never noted as done. A refused attempt is noted as such, with
the code of the refusal. So an act reads like this:

    def revoke(attempt: Attempt[NoFields]) -> None:
        entry = find(attempt.sources, attempt.subject)
        attempt.note()
        attempt.sources.roster.revoke(entry.device, attempt.sources.clock_us())
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Annotated, Any, Generic, Self, TypeVar, Union, get_args, get_origin

from fastapi import Path
from pydantic import BaseModel, ConfigDict

from cloud_backend.coordinator import groups
from cloud_backend.coordinator.people import NAME, Person
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.threads import in_thread, in_turn
from shared.errors import BrokenInvariant, ResurgeError

POSITION_MAX = (1 << 53) - 1  # beyond it a browser's numbers have no such integer

# What an act is done to, as it stands in an address.
DeviceHex = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", description="the device's id in hexadecimal")]
NameInPath = Annotated[str, Path(pattern=r"^[^\x00-\x1f\x7f]{1,200}$")]
NumberInPath = Annotated[int, Path(ge=0, le=POSITION_MAX)]
MAYBE_GROUP = rf"^({groups.NAME.pattern})?$"
PersonName = Annotated[str, Path(pattern=rf"^{NAME.pattern}$")]


class Fields(BaseModel):
    """What an act needs to know: no field too many, no kind bent into another."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def of_form(cls, form: Mapping[str, Any]) -> Self:
        """The same fields as text from a form. A box that is not ticked is not sent, a list is split at spaces, and an
        optional field that was left empty is not there."""
        values: dict[str, Any] = {name: _line_ends(value) for name, value in form.items() if name != "csrf"}
        for name, known in cls.model_fields.items():
            kind = known.annotation
            if kind is bool:
                values.setdefault(name, False)
            elif get_origin(kind) is list and name in values:
                values[name] = values[name].split()
            elif get_origin(kind) in (Union, UnionType) and type(None) in get_args(kind) and not values.get(name):
                values.pop(name, None)
        return cls.model_validate(values, strict=False)


def _line_ends(value: object) -> object:
    return value.replace("\r\n", "\n") if isinstance(value, str) else value


class NoFields(Fields):
    pass


F = TypeVar("F", bound=Fields)


@dataclass(slots=True)
class Attempt(Generic[F]):
    """Somebody tries an act on something."""

    sources: Sources
    person: Person
    word: str
    subject: str
    fields: F
    is_noted: bool = field(default=False)

    def note(self, detail: str = "", *, subject: str = "") -> None:
        """Everything is checked; write the audit line now, durably, and change something after it. `subject` is for
        what gets its name only now."""
        self.sources.access.audit(self.person, self.word, subject or self.subject, detail)
        self.is_noted = True


@dataclass(frozen=True, slots=True, eq=False)
class Act(Generic[F]):
    do: Callable[[Attempt[F]], Any]
    fields: type[F]
    role: str
    word: str  # in the audit log; empty: it changes nothing and tells nobody anything, so it is not noted
    api: str  # method and path
    page: str
    summary: str
    subject: Any = None  # the kind of what it is done to: the first parameter of both paths
    success: str = ""  # what a page says afterwards
    after: str = ""  # where a page goes afterwards; `{subject}` is replaced
    is_question: bool = False  # it compiles a query: one at a time

    @property
    def subject_name(self) -> str:
        return "" if self.subject is None else self.api.partition("{")[2].partition("}")[0]


async def carry_out(act: Act[F], sources: Sources, person: Person, subject: str, fields: F) -> Any:
    """Perform an act in a thread: a question in its turn, everything else beside the others."""
    if act.is_question:
        return await in_turn(person.name, perform, act, sources, person, subject, fields)
    return await in_thread(perform, act, sources, person, subject, fields)


def perform(act: Act[F], sources: Sources, person: Person, subject: str, fields: F) -> Any:
    """Carry an act out for somebody who may; raises what it is refused with, after noting that."""
    attempt = Attempt(sources, person, act.word, subject, fields)
    changes = bool(act.word) and not getattr(fields, "dry_run", False)
    try:
        answer = act.do(attempt)
    except ResurgeError as error:
        if changes:
            refuse(act, sources, person, subject, error.code)
        raise
    if changes:
        if not attempt.is_noted:
            raise BrokenInvariant(f"{act.word} was done without a line in the audit log", code="act-not-noted")
        sources.look_again()
    return answer


def refuse(act: Act[Any], sources: Sources, person: Person, subject: str, code: str) -> None:
    """Note that somebody tried this act in vain."""
    sources.access.audit(person, f"{act.word}-refused", subject, code)
