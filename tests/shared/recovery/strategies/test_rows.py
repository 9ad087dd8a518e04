"""The table of docs/recovery.md and the rows are one."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from pathlib import Path

from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Row

PAGE = Path(__file__).resolve().parents[4] / "docs" / "recovery.md"


def cells(row: Row) -> list[str]:
    values = [getattr(row, each.name) for each in fields(row)]
    return [
        value.value
        if isinstance(value, Enum)
        else {True: "yes", False: "no"}[value]
        if isinstance(value, bool)
        else str(value)
        for value in values
    ]


def test_the_page_shows_every_row_as_it_is() -> None:
    lines = PAGE.read_text().splitlines()
    head = next(place for place, line in enumerate(lines) if line.startswith("| strategy | trigger"))
    names = [each.name for each in fields(Row)]
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[head : head + 2 + len(STRATEGIES)]]
    assert shown[0] == ["strategy", *names[1:]]
    assert shown[2:] == [cells(strategy.row) for strategy in STRATEGIES.values()]
    assert not lines[head + 2 + len(STRATEGIES)], "the table ends there"
