"""Acts on people: who may sign in, as what, and links that sign in once."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from cloud_backend.coordinator.people import NAME, PASSWORD_CHARACTERS_MAX, PASSWORD_CHARACTERS_MIN
from cloud_backend.dashboard.acts.act import Act, Attempt, Fields, NoFields, PersonName

Role = Literal["viewer", "operator", "admin"]
NAME_PATTERN = rf"^{NAME.pattern}$"
NAME_WORDS = "up to 40 of a-z, 0-9, dot, dash and underscore"


class PutPerson(Fields):
    name: str = Field(pattern=NAME_PATTERN, description=NAME_WORDS)
    role: Role = Field(description="viewer, operator or admin")
    password: str | None = Field(
        None, min_length=PASSWORD_CHARACTERS_MIN, max_length=PASSWORD_CHARACTERS_MAX,
        description="12 to 256 characters; left out: a one-time link is enough to begin with",
    )  # fmt: skip


class MakeLink(Fields):
    name: str = Field(pattern=NAME_PATTERN, description=NAME_WORDS)
    role: Role = Field("viewer", description="of a new person; one who is there keeps theirs")


def put_person(attempt: Attempt[PutPerson]) -> None:
    """Add a person, or change their role or password; ends their sessions."""
    sources, fields = attempt.sources, attempt.fields
    sources.access.people.check_an_admin_stays(fields.name, fields.role)
    attempt.note(fields.role, subject=fields.name)
    sources.access.people.put(fields.name, fields.role, sources.clock_us(), fields.password)


def remove_person(attempt: Attempt[NoFields]) -> None:
    people = attempt.sources.access.people
    people.check_known(attempt.subject)
    people.check_an_admin_stays(attempt.subject, "")
    attempt.note()
    people.remove(attempt.subject)


def make_link(attempt: Attempt[MakeLink]) -> dict[str, Any]:
    """A link that signs this person in once."""
    sources, fields = attempt.sources, attempt.fields
    attempt.note(fields.role, subject=fields.name)
    secret = sources.access.people.new_link(sources.clock_us(), name=fields.name, role=fields.role)
    return {"path": f"/signin/once/{secret}"}


PUT_PERSON = Act(
    put_person, PutPerson, "admin", "person-put", "POST /v1/api/accounts", "POST /people",
    "Add a person, or change their role or password; ends their sessions", success="Saved.", after="/people",
)  # fmt: skip
REMOVE_PERSON = Act(
    remove_person, NoFields, "admin", "person-removed", "DELETE /v1/api/accounts/{name}",
    "POST /people/{name}/remove", "Remove a person", PersonName, "Removed; their sessions have ended.", "/people",
)  # fmt: skip
MAKE_LINK = Act(
    make_link, MakeLink, "admin", "sign-in-link-made", "POST /v1/api/accounts/link", "POST /people/link",
    "A link that signs this person in once",
)  # fmt: skip
ACTS = (PUT_PERSON, REMOVE_PERSON, MAKE_LINK)
