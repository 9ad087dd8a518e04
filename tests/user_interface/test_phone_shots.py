"""The phone's pictures in docs/shots show the screens as they are."""

from __future__ import annotations

import hashlib
import json

import pytest
from PIL import Image

from tests.user_interface.phone_shots import BYTES_MAX, MANIFEST, SCHEMES, SCREENS, Shot, path_of, source_hash

ONE_COLOUR_MAX = 0.95
SHOTS = [pytest.param(shot, scheme, id=f"{shot.name}-{scheme}") for shot in SCREENS for scheme in SCHEMES]


@pytest.fixture(scope="module")
def manifest():
    return json.loads(MANIFEST.read_text())


def test_shots_were_taken_from_these_sources(manifest):
    assert manifest["sources"] == source_hash(), "a screen has changed: run make shots"


@pytest.mark.parametrize(("shot", "scheme"), SHOTS)
def test_each_shot_is_the_one_that_was_read(manifest, shot: Shot, scheme: str):
    picture = path_of(shot, scheme).read_bytes()
    assert len(picture) < BYTES_MAX
    assert hashlib.sha256(picture).hexdigest() == manifest["shots"][f"{shot.name}-{scheme}"]["sha256"]


@pytest.mark.parametrize(("shot", "scheme"), SHOTS)
def test_each_shot_says_what_it_should(manifest, shot: Shot, scheme: str):
    texts = manifest["shots"][f"{shot.name}-{scheme}"]["texts"]
    assert not [text for text in shot.says if not any(text in one for one in texts)]


@pytest.mark.parametrize(("shot", "scheme"), SHOTS)
def test_no_shot_is_nearly_one_colour(shot: Shot, scheme: str):
    image = Image.open(path_of(shot, scheme))  # a palette of 256 colours
    most = max(count for count, _ in image.getcolors())
    assert most / (image.width * image.height) < ONE_COLOUR_MAX


def test_every_screen_is_shown_with_data_empty_offline_and_in_trouble():
    states = {(shot.screen, shot.state) for shot in SCREENS}
    for screen in ("record", "live", "flow", "buffer", "results", "setup"):
        shown = {state for name, state in states if name == screen}
        assert {"ride", "empty", "offline"} <= shown
        assert shown & {"trouble", "gone"}
