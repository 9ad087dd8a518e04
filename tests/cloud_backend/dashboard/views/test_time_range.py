"""A chosen time of a sink's results: what an address may say, and that pages, API and exports all keep to it."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cloud_backend.dashboard.views.time_range import TimeRange
from cloud_backend.results.rows import ResultRow
from shared.errors import UsageError
from tests.cloud_backend.dashboard.house import House, cheap_passwords

MINUTE_US = 60_000_000
START_US = round(datetime(2026, 11, 18, 8, tzinfo=UTC).timestamp()) * 1_000_000
SINK = "levels"
# The windows that end at 08:10, :11 and :12: both ends are in it.
CHOSEN = "from=2026-11-18T08:10:00Z&to=2026-11-18T08:12:00Z"
IN_US = f"from_us={START_US + 10 * MINUTE_US}&to_us={START_US + 12 * MINUTE_US}"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        cheap_passwords(patch)
        house = House(tmp_path_factory.mktemp("house"))
        rows = [level(minute) for minute in range(1, 31)]
        # Taken back: of no time is it there, nor counted.
        house.gateway.results.publish(2, [*rows, replace(level(11, "away"), retract=True, values={})])
        yield house
        house.close()


def level(minute: int, key: str = "pump") -> ResultRow:
    end = START_US + minute * MINUTE_US
    return ResultRow(
        sink=SINK, device="", key=(key,), window_start_us=end - MINUTE_US, window_end_us=end, revision=1, retract=False,
        complete=True, values={"level": float(minute), "lat": 47.376887, "lon": 8.541694},
    )  # fmt: skip


@pytest.fixture(scope="module")
def operator(home):
    return home.browser("operator")


def levels(rows) -> list[float]:
    return [row["values"]["level"] for row in rows]


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("2026-11-18T08:00:00Z", None, (START_US, None)),
        ("2026-11-18T08:00", "2026-11-18T09:01:00+01:00", (START_US, START_US + MINUTE_US)),
        ("2026-11-18", "", (START_US - 8 * 60 * MINUTE_US, None)),
        (None, "1970-01-01T00:00:00.000001", (None, 1)),
        (" ", None, (None, None)),
    ],
)
def test_an_address_says_its_time_as_people_write_it(first, last, expected):
    found = TimeRange.of_text(first, last)
    assert (found.from_us, found.to_us) == expected
    assert TimeRange.of_text(found.first, found.last) == found


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("2026-11-18T08:00:01Z", "2026-11-18T08:00:00Z"),
        ("yesterday", None),
        (None, "2026-02-30"),
        ("1969-12-31", None),
        ("9999-12-31", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("2026-11-18T08:00:00Z" + " " * 50, None),
        ("\ud800", None),
    ],
)
def test_a_time_that_is_none_is_refused(first, last):
    with pytest.raises(UsageError) as refused:
        TimeRange.of_text(first, last)
    assert refused.value.code == "results-range"


def test_the_api_answers_for_a_time_page_by_page(operator):
    assert levels(operator.get(f"/v1/api/results/{SINK}?{IN_US}").json()["rows"]) == [12, 11, 10]
    first = operator.get(f"/v1/api/results/{SINK}?{IN_US}&limit=2").json()
    assert levels(first["rows"]) == [12, 11]
    second = operator.get(f"/v1/api/results/{SINK}?{IN_US}&limit=2&before_us={first['before_us']}").json()
    assert (levels(second["rows"]), second["before_us"]) == ([10], None)
    after = operator.get(f"/v1/api/results/{SINK}?from_us={START_US + 29 * MINUTE_US}").json()["rows"]
    until = operator.get(f"/v1/api/results/{SINK}?to_us={START_US + 2 * MINUTE_US}").json()["rows"]
    assert (levels(after), levels(until)) == ([30, 29], [2, 1])


@pytest.mark.parametrize(
    "address",
    [
        f"/v1/api/results/{SINK}?from_us=2&to_us=1",
        f"/v1/api/results/{SINK}/export?from_us=2&to_us=1",
        f"/results/{SINK}/export/csv?from_us=2&to_us=1",
        f"/results/{SINK}?from=2026-11-19&to=2026-11-18",
        f"/results/{SINK}/series.json?from=never",
        f"/results/{SINK}/map.json?to=never",
    ],
)
def test_a_wrong_time_is_refused_wherever_it_is_asked_for(operator, address):
    answer = operator.get(address)
    assert (answer.status_code, answer.json()["code"]) == (422, "results-range")
    assert "never" not in answer.text


def test_exports_have_what_was_chosen(operator):
    api, page = f"/v1/api/results/{SINK}/export?{IN_US}", f"/results/{SINK}/export/"
    rows = json.loads(operator.get(f"{api}&format=json").content)
    assert [(row["level"], row["key_1"], row["complete"]) for row in rows] == [
        (10, "pump", True), (11, "pump", True), (12, "pump", True),
    ]  # fmt: skip
    assert json.loads(operator.get(f"{page}json?{IN_US}").content) == rows
    table = list(csv.DictReader(io.StringIO(operator.get(f"{page}csv?{IN_US}").text)))
    assert [float(row["level"]) for row in table] == [10, 11, 12]
    assert len(operator.get(f"{api}&format=geojson").json()["features"]) == 3
    line = operator.get("/v1/api/audit").json()["lines"][0]
    assert (line["action"], line["detail"]) == ("results-exported", f"geojson {CHOSEN}")


def test_chart_map_and_table_keep_to_the_address(operator):
    [line] = operator.get(f"/results/{SINK}/series.json?{CHOSEN}").json()["lines"]
    assert [point["level"] for point in line["points"]] == [10, 11, 12]
    point, path = operator.get(f"/results/{SINK}/map.json?{CHOSEN}").json()["features"]
    assert (point["geometry"]["type"], len(path["geometry"]["coordinates"])) == ("Point", 3)
    text = operator.get(f"/results/{SINK}?{CHOSEN}").text
    assert "3 rows in the chosen time" in text
    assert text.count('data-label="Window"') == 3
    part = CHOSEN.replace("&", "&amp;")
    assert f'hx-get="/results/{SINK}?{part}"' in text
    assert f'/results/{SINK}/export/csv?{IN_US.replace("&", "&amp;")}"' in text
    assert f'series.json?{part}"' in text
    nothing = operator.get(f"/results/{SINK}?from=2027-01-01").text
    assert "No window ends in the chosen time" in nothing


def test_older_pages_stay_in_the_chosen_time(operator, home, monkeypatch):
    monkeypatch.setattr("cloud_backend.dashboard.pages.results.ROWS_SHOWN", 2)
    text = operator.get(f"/results/{SINK}?{CHOSEN}").text
    older = f"/results/{SINK}?{CHOSEN}&before={START_US + 11 * MINUTE_US}"
    assert older.replace("&", "&amp;") in text
    assert operator.get(older).text.count('data-label="Window"') == 1


def test_a_viewer_gets_a_chosen_time_with_the_same_coarse_places(home):
    viewer = home.browser("viewer")
    for address in (
        f"/v1/api/results/{SINK}?{IN_US}",
        f"/v1/api/results/{SINK}/export?{IN_US}&format=json",
        f"/results/{SINK}?{CHOSEN}",
        f"/results/{SINK}/series.json?{CHOSEN}",
        f"/results/{SINK}/map.json?{CHOSEN}",
    ):
        text = viewer.get(address).text
        assert "47.38" in text
        assert "47.376" not in text
    assert home.browser().get(f"/v1/api/results/{SINK}?{IN_US}").status_code == 401


def test_a_chosen_time_is_found_by_the_index_and_counted_no_further_than_asked(home, monkeypatch):
    results = home.gateway.results
    asked = []
    read = results._database.read
    monkeypatch.setattr(results._database, "read", lambda *query: asked.append(query) or read(*query))
    within = {"from_us": START_US, "to_us": START_US + 5 * MINUTE_US}
    assert len(results.page(SINK, **within)) == 5
    assert results.count(SINK, **within, most=100) == 5
    assert results.count(SINK, **within, most=3) == 3
    with sqlite3.connect(home.settings.results) as database:
        for query, parameters in asked:
            plan = " ".join(row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {query}", parameters))
            assert "answers_by_window (sink=? AND window_end_us>? AND window_end_us<?)" in plan
    database.close()
