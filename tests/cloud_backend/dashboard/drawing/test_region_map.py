"""Regions drawn for people: to scale where that can be read, in a row for whoever may not see places."""

from __future__ import annotations

import re
from typing import Any

from cloud_backend.dashboard.drawing.region_map import region_map, region_timeline


def region(name: str, east: float, **changed: Any) -> dict[str, Any]:
    return {
        "name": name, "state": "running", "threshold": 2, "points": [[47.37, 8.54 + east]], "radius_m": 50.0,
        "members": [["a", "hosting"], ["b", "dwelling"]], "after": [],
    } | changed  # fmt: skip


def middles(svg: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r'class="area" cx="([\d.]+)" cy="([\d.]+)"', svg)]


def test_regions_stand_as_they_do_on_the_ground_and_arrows_say_what_feeds_what() -> None:
    drawn = str(
        region_map([region("west", 0.0), region("mid", 0.01), region("east", 0.04, after=["west"])], exact=True)
    )
    (west, mid, east) = (x for x, _ in middles(drawn))
    assert 2.5 < (east - mid) / (mid - west) < 3.5
    assert drawn.count('class="tip"') == 1
    assert "Not to scale" not in drawn
    assert "1<" in drawn, "who only dwells is not counted"


def test_whoever_may_not_see_places_gets_no_map_and_neither_do_regions_that_would_cover_each_other() -> None:
    places = [region("west", 0.0), region("mid", 0.01), region("east", 0.04)]
    west, mid, east = (x for x, _ in middles(str(region_map(places, exact=False))))
    assert round(east - mid) == round(mid - west)
    near = [region("one", 0.0), region("other", 0.0001), region("far", 1.0)]
    assert "Not to scale" in str(region_map(near, exact=True))


def test_names_are_text_and_old_events_are_left_out() -> None:
    now = 10_000_000_000
    events = [
        {"at_us": now - 60_000_000, "region": "<b>", "kind": "failure", "text": "<script>"},
        {"at_us": now - 7_200_000_000, "region": "<b>", "kind": "checkpoint", "text": "long ago"},
    ]
    drawn = str(region_timeline([region("<b>", 0.0)], events, now)) + str(region_map([region("<b>", 0.0)], exact=True))
    assert "<b>" not in drawn
    assert "<script>" not in drawn
    assert "failure: &lt;script&gt;" in drawn
    assert "long ago" not in drawn
