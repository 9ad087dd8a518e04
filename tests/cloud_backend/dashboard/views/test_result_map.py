"""A sink's points coloured by a column: the scale, its ends, what has no value, and what a viewer sees of it."""

from __future__ import annotations

import math

import pytest

from cloud_backend.dashboard.views import result_map
from cloud_backend.dashboard.views.result_map import scale_of, share_of
from cloud_backend.results.rows import ResultRow
from tests.cloud_backend.dashboard.house import LAT, LON, House, cheap_passwords

SINK = "levels"


def row(minute: int, level: object, key: str = "pump") -> ResultRow:
    return ResultRow(
        sink=SINK, device="", key=(key,), window_start_us=minute * 60_000_000, window_end_us=(minute + 1) * 60_000_000,
        revision=1, retract=False, complete=True,
        values={"level": level, "name": "a", "lat": LAT + minute / 1e4, "lon": LON},
    )  # fmt: skip


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        cheap_passwords(patch)
        made = House(tmp_path_factory.mktemp("house"))
        wild = [row(minute, 1e9 if minute == 60 else float(minute)) for minute in range(100)]
        made.gateway.results.publish(2, [*wild, row(200, math.nan), row(201, -math.inf, "well"), row(202, 50, "well")])
        yield made
        made.close()


def points(answer) -> dict[int, dict]:
    found = (each["properties"] for each in answer.json()["features"] if each["geometry"]["type"] == "Point")
    return {each["at_us"] // 60_000_000 - 1: each for each in found}


def test_one_wild_value_does_not_leave_all_others_in_one_colour():
    scale = scale_of([float(each) for each in range(100)] + [1e9, -1e9])
    assert (scale["low"], scale["high"], scale["least"], scale["most"]) == (1, 98, -1e9, 1e9)
    assert (scale["below"], scale["above"], scale["missing"], scale["points"]) == (2, 2, 0, 102)
    assert [share_of(each, scale) for each in (-1e9, 1, 49.5, 98, 1e9)] == [0, 0, 0.5, 1, 1]


@pytest.mark.parametrize(
    ("values", "low", "high", "missing"),
    [
        ([], None, None, 0),
        ([None, math.nan, math.inf, "7", True], None, None, 5),
        ([4, 4, None], 4, 4, 1),
        ([0.0] * 99 + [7.0], 0, 7, 0),
        ([-1.7e308, 1.7e308], -1.7e308, 1.7e308, 0),
        ([10**400, 2, 3], 2, 3, 1),
    ],
)
def test_a_scale_of_anything(values, low, high, missing):
    scale = scale_of(values)
    assert (scale["low"], scale["high"], scale["missing"]) == (low, high, missing)
    shares = [share_of(each, scale) for each in values]
    assert shares.count(None) == missing
    known = [each for each in shares if each is not None]
    assert all(0 <= each <= 1 for each in known)
    if low is not None and low < high:
        assert (min(known), max(known)) == (0, 1)


def test_every_row_is_a_point_with_its_share_and_the_legend_knows_the_rest(house, monkeypatch):
    answer = house.browser("operator").get(f"/results/{SINK}/map.json?colour=level")
    found = points(answer)
    assert len(found) == 103
    assert (found[60]["value"], found[60]["share"]) == (1e9, 1)
    assert found[50]["share"] == pytest.approx(0.5, abs=0.02)
    assert (found[200]["value"], found[200]["share"], found[201]["share"]) == (None, None, None)
    assert [minute for minute, each in found.items() if "earlier" not in each] == [200, 202]
    scale = answer.json()["scale"]
    assert (scale["column"], scale["missing"], scale["most"], scale["points"]) == ("level", 2, 1e9, 103)
    assert scale["high"] < 100
    assert scale["above"] >= 1
    ways = [each for each in answer.json()["features"] if each["geometry"]["type"] == "LineString"]
    assert [each["properties"]["faint"] for each in ways] == [True, True]
    monkeypatch.setattr(result_map, "WAYS_MAX", 100)
    assert "LineString" not in house.browser("operator").get(f"/results/{SINK}/map.json?colour=level").text


def test_without_a_column_it_is_each_keys_way_and_last_place(house):
    answer = house.browser("operator").get(f"/results/{SINK}/map.json").json()
    assert "scale" not in answer
    assert [each["geometry"]["type"] for each in answer["features"]] == ["Point", "LineString"] * 2
    assert all("share" not in each["properties"] for each in answer["features"])


def test_the_api_says_the_same_and_refuses_a_column_that_is_not_there(house):
    operator = house.browser("operator")
    page, api = f"/results/{SINK}/map.json", f"/v1/api/results/{SINK}/map"
    chosen = "from=1970-01-01T00:10:00Z&to=1970-01-01T00:20:00Z&colour=level"
    first = operator.get(f"{page}?{chosen}").json()
    assert operator.get(f"{api}?from_us=600000000&to_us=1200000000&colour=level").json() == first
    assert first["scale"]["points"] == 11
    for address in (page, api):
        answer = operator.get(f"{address}?colour=nothing%3Cb%3E")
        assert (answer.status_code, answer.json()["code"]) == (404, "results-no-column")
        assert "<b>" not in answer.text
    words = operator.get(f"{api}?colour=name").json()["scale"]
    assert (words["low"], words["missing"]) == (None, 103)


def test_the_address_of_the_page_chooses_the_column_and_other_times_keep_it(house):
    operator = house.browser("operator")
    text = operator.get(f"/results/{SINK}?colour=level").text
    assert '<option value="level" selected>level</option>' in text
    assert '<option value="lat"' not in text, "a place is no value"
    assert '<input type="hidden" id="range-colour" name="colour" value="level">' in text
    other = operator.get(f"/results/{SINK}?colour=%22%3E%3Cscript%3E").text
    assert "<script>" not in other.partition("<main")[2]
    assert '<option value="">nothing</option>' in operator.get(f"/results/{SINK}").text


def test_a_viewer_gets_no_value_of_what_is_computed_from_places(house):
    viewer, operator = house.browser("viewer"), house.browser("operator")
    answer = viewer.get(f"/results/{SINK}/map.json?colour=level")  # no plan says where this comes from
    assert {each["value"] for each in points(answer).values()} == {None}
    assert answer.json()["scale"]["least"] is None
    assert str(LAT) not in answer.text
    assert viewer.get("/results/my_trips/map.json?colour=points").json()["scale"]["most"] == 6
    assert operator.get("/results/my_trips/map.json?colour=points").json()["scale"]["most"] == 6
