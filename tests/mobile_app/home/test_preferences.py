"""A person's tastes are kept, and never in the way."""

from __future__ import annotations

import pytest

from mobile_app.home.preferences import PREFERENCES_FILE, Preferences, load_preferences


def test_preferences_come_back(tmp_path):
    Preferences(welcomed=True, appearance="dark", text_size="large").save(tmp_path)
    assert load_preferences(tmp_path) == Preferences(welcomed=True, appearance="dark", text_size="large")


@pytest.mark.parametrize("kept", ["", "[]", "{", '{"appearance": "purple"}', '{"unknown": 1}'])
def test_a_damaged_file_means_the_defaults(tmp_path, kept):
    (tmp_path / PREFERENCES_FILE).write_text(kept)
    assert load_preferences(tmp_path) == Preferences()
