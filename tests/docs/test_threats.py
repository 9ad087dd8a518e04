"""`docs/threats.md` says by which test each attack is defended: every one of them is there, and has tests to run."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "threats.md").read_text()


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| attack")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_attack_has_a_limit_and_names_tests_that_are_there() -> None:
    assert len(rows()) >= 40
    for attack, limit, tests in rows():
        assert attack, tests
        assert limit, attack
        named = re.findall(r"`(tests/[^`]+\.py)(?:::(test_\w+))?`", tests)
        assert named, attack
        for path, name in named:
            text = (ROOT / path).read_text() if (ROOT / path).is_file() else ""
            assert re.search(r"^(async )?def test_", text, re.MULTILINE), f"{path} holds no test, for {attack!r}"
            assert f"def {name}(" in text or not name, f"{path} has no {name}"


def test_paths_beyond_the_table_are_there_too() -> None:
    for path in re.findall(r"`(tests/[\w/.]+)`", PAGE):
        assert (ROOT / path).exists(), path
