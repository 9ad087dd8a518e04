"""The pictures in docs/shots show the pages as they are."""

from __future__ import annotations

import json

import pytest

from tests.user_interface.shots import BYTES_MAX, OTHERS, SCHEMES, SHOTS, SIZES, SOURCES, source_hash
from tests.user_interface.test_dashboard_pages import NAMES


def test_shots_were_taken_from_these_sources():
    assert json.loads(SOURCES.read_text())["dashboard"] == source_hash(), "a page has changed: run make shots"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [*NAMES, *OTHERS])
def test_each_shot_is_there_and_small_enough_for_a_repository(name, size, scheme):
    path = SHOTS / f"dashboard-{name}-{size}-{scheme}.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    assert 3_000 < path.stat().st_size < BYTES_MAX
