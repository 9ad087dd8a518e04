"""Alerts on their way to a phone: results of a sink that no program can have.

An alert is one identity, its number: revision 1 says that it began, revision 2 that it is over. So what carries results
once and in order carries alerts, and an app that does not know them shows them among its results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ALERT_SINK = "!alerts"  # no name of a sink begins so
BEGAN, OVER = 1, 2  # revisions


@dataclass(frozen=True, slots=True)
class AlertNews:
    number: int
    rule: str
    text: str
    began_us: int
    is_over: bool

    def values(self) -> dict[str, str | int | bool]:
        return {"rule": self.rule, "text": self.text, "began_us": self.began_us, "over": self.is_over}

    @classmethod
    def of(cls, key: object, values: Mapping[str, object]) -> AlertNews | None:
        """None where a part is missing or of another kind."""
        number = key[0] if isinstance(key, list) and len(key) == 1 else None
        rule, text, began_us, over = (values.get(name) for name in ("rule", "text", "began_us", "over"))
        if type(number) is not int or type(began_us) is not int or not isinstance(over, bool):
            return None
        if not isinstance(rule, str) or not isinstance(text, str):
            return None
        return cls(number, rule, text, began_us, over)
