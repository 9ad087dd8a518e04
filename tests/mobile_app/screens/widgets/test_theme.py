"""Both palettes can be read."""

from __future__ import annotations

import pytest

from mobile_app.screens.widgets.theme import PALETTES, TOUCH, contrast

TEXT = [
    ("ink", "page"), ("ink", "card"), ("ink", "raised"), ("soft", "page"), ("soft", "card"), ("soft", "raised"),
    ("faint", "card"), ("accent", "card"), ("on_accent", "accent"), ("on_tint", "tint"), ("warn", "card"),
    ("warn", "warn_tint"), ("bad", "bad_tint"), ("bad", "card"), ("good", "card"), ("ink", "tint"), ("ink", "warn_tint"),
    ("ink", "bad_tint"),
]  # fmt: skip


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
@pytest.mark.parametrize(("ink", "ground"), TEXT)
def test_text_stands_out_from_its_ground(palette, ink, ground):
    assert contrast(getattr(palette, ink), getattr(palette, ground)) >= 4.5


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_drawn_lines_stand_out_from_a_card(palette):
    for colour in palette.series:
        assert contrast(colour, palette.card) >= 3.0


def test_contrast_is_that_of_the_standard():
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert TOUCH >= 48
