"""The account of late rows: which operator of a plan left out how many, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared.language.durations import duration_text
from shared.plan.graph import Node


def late_account(nodes: Iterable[Node], late: Mapping[int, int]) -> list[dict[str, Any]]:
    """One entry for each operator that left rows out, in the order of the plan; `late` has counts by node."""
    return [
        {
            "operator": node.operator.describe(), "line": f"{node.line.file}:{node.line.line}", "rows": late[node.id],
            "reason": _reason(getattr(node.operator, "lateness_us", 0)),
        }
        for node in nodes if late.get(node.id)
    ]  # fmt: skip


def late_words(account: Iterable[Mapping[str, Any]]) -> str:
    """The account in one line, for pages and terminals."""
    return "; ".join(
        f"{each['rows']:,} rows too late, {each['reason']}: {each['operator']} ({each['line']})" for each in account
    )


def _reason(lateness_us: int) -> str:
    return f"more than {duration_text(lateness_us)} behind the frontier" if lateness_us else "behind the frontier"
