"""A job's page from submitting a query on: it waits, shows itself, and leads to the results."""

from __future__ import annotations

import math
import shutil

from cloud_backend.dashboard.history import job_facts
from cloud_backend.results.rows import ResultRow
from tests.cloud_backend.dashboard.acts.test_table import ran
from tests.cloud_backend.spark.test_late_account import left_behind

SQL = "SELECT device, count(*) AS n FROM gps GROUP BY TUMBLE(10 SECONDS), device"
PART = {"hx-request": "true"}


def test_the_page_of_a_job_that_has_not_run_asks_again_by_itself_until_it_has(dashboard, monkeypatch):
    monkeypatch.setattr(job_facts, "FRESH_S", math.inf)  # however short ago somebody looked
    operator = dashboard.browser("operator")
    answer = operator.post("/queries", data={"name": "counts", "kind": "sql", "text": SQL})
    page = operator.get(answer.headers["location"]).text
    assert "has not run yet" in page
    assert 'hx-get="/jobs/counts?waits=yes" hx-trigger="changed-jobs from:body"' in page
    assert "has not run yet" in operator.get("/jobs/counts?waits=yes", headers=PART).text
    assert "hx-refresh" not in operator.get("/jobs/main?waits=yes", headers=PART).headers
    ran(dashboard)
    assert operator.get("/jobs/main?waits=yes", headers=PART).headers["hx-refresh"] == "true"


def test_it_leads_to_its_results_once_there_are_some(dashboard):
    operator = dashboard.browser("operator")
    ran(dashboard)
    assert 'href="/results/my_trips"' in operator.get("/jobs/main").text
    operator.post("/queries", data={"name": "counts", "kind": "sql", "text": SQL})
    row = ResultRow("counts", "", ("a",), 0, 10, 1, False, True, {"n": 3})
    dashboard.gateway.results.publish(9, [row])
    assert 'href="/results/counts"' in operator.get("/queries").text


def test_what_undo_answers_is_not_taken_away_by_the_next_look(dashboard):
    ran(dashboard)
    operator = dashboard.browser("operator")
    whole, part = operator.get("/jobs/main").text, operator.get("/jobs/main", headers=PART).text
    assert 'id="undo"' in whole
    assert 'id="undo"' not in part


def test_the_page_and_the_api_say_which_rows_came_too_late_and_why(dashboard, tmp_path):
    world = left_behind(tmp_path / "job")
    shutil.copytree(world.store_dir, dashboard.settings.stable.parent, dirs_exist_ok=True)
    page = dashboard.browser("operator").get("/jobs/main").text
    (entry,) = dashboard.browser("operator").get("/v1/api/jobs/main").json()["late"]
    assert entry["rows"] > 0
    assert f"<dt>Late rows</dt><dd>{entry['rows']}</dd>" in page
    assert f"{entry['rows']} rows came too late" in page
    assert "more than 5s behind the frontier: tumbling 10s" in page


def test_the_page_says_that_half_an_entry_was_found(dashboard, tmp_path):
    world = left_behind(tmp_path / "job")
    shutil.copytree(world.store_dir, dashboard.settings.stable.parent, dirs_exist_ok=True)
    manifest = dashboard.settings.stable.parent / "manifest"
    number = len([*manifest.glob("*.json")]) + 1
    (manifest / f"{number:012d}.json").write_bytes(b"{")
    page = dashboard.browser("operator").get("/jobs/main").text
    assert f"Manifest entry {number} was torn by a power cut" in page
