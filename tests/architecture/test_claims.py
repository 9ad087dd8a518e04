"""There is one way to claim something, and what was claimed is shown."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from tests.conftest import CASES_MAX, CLAIM, pytest_terminal_summary

TESTS = Path(__file__).resolve().parents[1]


def shown(*reports: SimpleNamespace) -> list[str]:
    lines: list[str] = []
    pytest_terminal_summary(
        SimpleNamespace(stats={"passed": list(reports), "": ["no report"]}, section=lines.append, line=lines.append)
    )
    return lines


def report(nodeid: str, *texts: str, when: str = "call") -> SimpleNamespace:
    return SimpleNamespace(nodeid=nodeid, when=when, user_properties=[("other", 1), *((CLAIM, text) for text in texts)])


def test_claims_are_shown_once_and_many_cases_of_one_test_by_the_first() -> None:
    cases = [report(f"tests/b.py::test_many[{at}]", f"{at} rows") for at in range(CASES_MAX + 1)]
    lines = shown(
        report("tests/a.py::test_one", "3 kills"), report("tests/a.py::test_one", "3 kills", when="teardown"), *cases
    )
    assert lines == ["claims", "test_one: 3 kills", f"test_many: 0 rows (and {CASES_MAX} more cases)"]
    assert shown(report("tests/a.py::test_one")) == []


def test_nothing_is_claimed_by_printing() -> None:
    word = "capsys.dis" + "abled"  # not in this file
    assert [path.name for path in TESTS.rglob("test_*.py") if word in path.read_text()] == []
