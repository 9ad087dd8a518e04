"""Each story gives its whole transcript, line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.scenarios import DIRECTORY, parse, play

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("path", sorted(DIRECTORY.glob("*.txt")), ids=lambda path: path.stem)
def test_a_story_unfolds_as_written(path: Path) -> None:
    text = path.read_text()
    outcome = play(text)
    assert outcome.violation is None
    assert outcome.lines == parse(text)[1].splitlines(), "run python -m tests.simulation.scenarios and read the change"


def test_there_are_stories() -> None:
    assert len(list(DIRECTORY.glob("*.txt"))) >= 5
