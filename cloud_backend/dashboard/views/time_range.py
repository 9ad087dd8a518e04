"""A chosen time of a sink's results: the rows whose window ends in it, both ends included.

The API says it in microseconds, as rows do; the address of a page in a form that a person reads and may send to others.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self
from urllib.parse import urlencode

from cloud_backend.dashboard.acts.act import POSITION_MAX
from shared.errors import UsageError

# What the API's parameters say.
FROM = "only rows whose window ends at this time or later, in microseconds since 1970"
TO = "only rows whose window ends at this time or earlier, in microseconds since 1970"
LENGTH_MAX = 40
_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """From one moment to another; an end that is None is open."""

    from_us: int | None = None
    to_us: int | None = None

    def __post_init__(self) -> None:
        if self.from_us is not None and self.to_us is not None and self.from_us > self.to_us:
            raise UsageError("the chosen time ends before it begins: from must not be after to", code="results-range")

    @classmethod
    def of_text(cls, first: str | None, last: str | None) -> Self:
        """As an address has it: times of ISO 8601, in UTC where no zone is said; nothing is an open end."""
        return cls(_moment(first, "from"), _moment(last, "to"))

    @property
    def is_open(self) -> bool:
        """Whether nothing was chosen."""
        return self.from_us is None and self.to_us is None

    @property
    def first(self) -> str:
        return _text(self.from_us)

    @property
    def last(self) -> str:
        return _text(self.to_us)

    @property
    def address(self) -> str:
        """What a page's address has of it; empty where nothing was chosen."""
        return urlencode({name: text for name, text in (("from", self.first), ("to", self.last)) if text}, safe=":")

    @property
    def numbers(self) -> str:
        """What the API's addresses have of it."""
        named = (("from_us", self.from_us), ("to_us", self.to_us))
        return urlencode({name: value for name, value in named if value is not None})


ANY_TIME = TimeRange()


def _moment(text: str | None, name: str) -> int | None:
    if not text or not text.strip():
        return None
    try:
        at = datetime.fromisoformat(text.strip()) if len(text) <= LENGTH_MAX else None
    except ValueError:
        at = None
    if at is None:
        raise UsageError(f"{name} is no time: write it like 2026-11-18T08:00:00Z", code="results-range")
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    us = (at - _EPOCH) // timedelta(microseconds=1)
    if not 0 <= us <= POSITION_MAX:
        raise UsageError(f"{name} lies before 1970 or after 2255", code="results-range")
    return us


def _text(us: int | None) -> str:
    if us is None:
        return ""
    return (_EPOCH + timedelta(microseconds=us)).isoformat().replace("+00:00", "Z")
