"""What a viewer may know of places, also where a column's name does not say that it is one."""

from __future__ import annotations

import math

import pytest

from cloud_backend.coordinator.queries import compile_sql
from cloud_backend.dashboard.privacy.hidden import AllBut, harmless_columns
from cloud_backend.dashboard.privacy.places import coarse, is_place, shown, trail_shown
from tests.cloud_backend.dashboard.house import GPS, program


@pytest.mark.parametrize("name", ["lat", "lon", "lng", "latitude", "start_lat", "avg_longitude", "lat_first", "LAT"])
def test_a_coordinate_is_known_by_its_name(name):
    assert is_place(name)


@pytest.mark.parametrize("name", ["latency", "late", "salon", "plat", "long", "flat_rate", "elongation", "km"])
def test_other_names_are_not_taken_for_coordinates(name):
    assert not is_place(name)


def test_the_grid_is_about_a_kilometre():
    assert coarse(47.376887) == 47.38
    assert [coarse(value) for value in (math.nan, math.inf, "47.376887", True, None)] == [None] * 5


def test_a_viewers_trail_has_each_square_once_in_a_row():
    points = [(1, 47.376, 8.541), (2, 47.377, 8.542), (3, 47.391, 8.542)]
    assert trail_shown(points, exact=False) == [[1, 47.38, 8.54], [3, 47.39, 8.54]]
    assert trail_shown(points, exact=True) == [list(point) for point in points]


def test_what_was_computed_from_a_place_is_not_shown_at_all():
    values = {"lat": 47.376887, "x": 47376.887, "km": 1.5, "nan": math.nan}
    assert shown(values, exact=False, hidden=frozenset({"x"})) == {"lat": 47.38, "x": None, "km": 1.5, "nan": None}
    assert shown(values, exact=True)["x"] == 47376.887


@pytest.mark.parametrize(
    ("sql", "hidden"),
    [
        ("SELECT lat, lon FROM gps", set()),
        ("SELECT lat * 1000 AS x, accuracy FROM gps", {"x"}),
        ("SELECT lat AS north, lon AS east FROM gps", {"north", "east"}),
        ("SELECT avg(lat) AS a, count(*) AS n, avg(accuracy) AS c FROM gps GROUP BY TUMBLE(1 SECOND), device", {"a"}),
        ("SELECT max(lat + accuracy) AS a FROM gps GROUP BY TUMBLE(1 SECOND), device", {"a"}),
        ("SELECT count(DISTINCT lat) AS n FROM gps GROUP BY TUMBLE(1 SECOND), device", set()),
        ("SELECT CASE WHEN lat > 47.4 THEN 1 ELSE 0 END AS side FROM gps", {"side"}),
    ],
)
def test_a_query_cannot_rename_a_place_past_a_viewer(sql, hidden):
    plan = compile_sql(sql, "q", {"gps": GPS})
    harmless = harmless_columns(plan)["q"]
    assert {name for name in plan.sink("q").schema.names if name not in harmless and not is_place(name)} == hidden


def test_the_length_of_a_path_is_no_place():
    assert "km" in harmless_columns(program())["my_trips"]


def test_a_column_that_no_plan_knows_is_hidden():
    assert shown({"km": 1.5, "x": 47376.887}, exact=False, hidden=AllBut(frozenset({"km"}))) == {"km": 1.5, "x": None}
