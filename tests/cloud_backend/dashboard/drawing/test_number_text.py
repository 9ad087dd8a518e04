"""Numbers and times as pages say them."""

from __future__ import annotations

import pytest

from cloud_backend.dashboard.drawing import number_text


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "unknown"), (0.25, "250 ms"), (4, "4.0 s"), (59, "59 s"), (90, "1 min"), (5400, "1 h 30 min"), (86400, "24 h"), (7e5, "8 days")],
)  # fmt: skip
def test_a_duration_is_said_in_its_largest_units(seconds, said):
    assert number_text.duration(seconds) == said


@pytest.mark.parametrize(
    ("share", "said"), [(None, "none"), (0, "0 %"), (1, "100 %"), (0.5, "50 %"), (0.99999, "99.9 %"), (1e-9, "0.1 %")]
)
def test_what_is_not_complete_is_never_called_complete(share, said):
    assert number_text.percent(share) == said


def test_bytes_are_said_with_three_digits_at_most():
    assert [number_text.size(value) for value in (None, 12, 1234, 123_456, 8_000_000)] == [
        "unknown", "12 B", "1.2 KB", "123 KB", "8.0 MB",
    ]  # fmt: skip


def test_a_moment_is_for_the_browser_to_put_into_its_zone():
    assert (
        number_text.moment(1_794_816_000_000_000)
        == '<time datetime="2026-11-16T08:00:00.000+00:00">2026-11-16 08:00:00 UTC</time>'
    )
    assert "never" in number_text.moment(None)
    assert "unknown" in number_text.moment(1 << 62)


def test_ago_counts_from_now():
    assert number_text.ago(None, 0) == "never"
    assert number_text.ago(0, 1_000_000) == "just now"
    assert number_text.ago(0, 120_000_000) == "2 min ago"
