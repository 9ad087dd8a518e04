"""What came out of a run, and whether it kept every promise."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from resurge.up.account import Account


@dataclass(frozen=True, slots=True)
class Outcome:
    account: Account
    outages: int
    results: int
    results_on_phones: int  # of those, how many had come back to the phone they are about before it stopped
    results_digest: str
    expected_digest: str | None  # None when it cannot be said; `unchecked` says why
    dashboard: str
    kills: list[dict[str, Any]] = field(default_factory=list)
    read_all: bool = True  # Spark had worked off the log when it was stopped
    unchecked: str = ""  # why Spark's results could not be compared with the log

    def as_json(self) -> dict[str, Any]:
        value = asdict(self)
        account: dict[str, Any] = value.pop("account")
        return account | value

    def problems(self) -> list[str]:
        """What is wrong, in words; empty when the run kept every promise."""
        wrong: list[str] = []
        found = self.account
        if not found.adds_up:
            missing = found.produced - found.delivered - found.spooled - found.ledgered
            wrong.append(f"the account does not add up: {missing} elements have no place, {found.duplicates} have two")
        if not found.delivered:
            wrong.append("nothing was delivered")
        if not self.results:
            wrong.append("no result was published; a longer --for lets windows close")
        if self.expected_digest and self.results_digest != self.expected_digest and not self.read_all:
            wrong.append(
                "Spark had not worked off the log when it was stopped, so results are missing; started again on its "
                "--home it goes on"
            )
        elif self.expected_digest and self.results_digest != self.expected_digest:
            wrong.append(
                f"Spark's results ({self.results_digest[:12]}) differ from what the log says they should be "
                f"({self.expected_digest[:12]})"
            )
        return wrong
