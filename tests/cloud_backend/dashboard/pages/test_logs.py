"""The page of log lines: who may read it, what it finds, and what it says where there is nothing."""

from __future__ import annotations

import pytest

from cloud_backend.dashboard.pages import live, logs
from cloud_backend.process_log import FILE, Line, keep

PART = {"hx-request": "true"}
API = "/v1/api/logs"


@pytest.fixture
def written(dashboard):
    """Lines of both parts, and somebody who may read them."""
    home, spark = dashboard.settings.home, dashboard.settings.stable.parent
    keep(home, Line(1_000_000, "info", "resurge.gateway", 7, "listens on 127.0.0.1:8750"))
    keep(spark, Line(2_000_000, "warning", "resurge.spark", 8, "range trips/0 failed in epoch 4 (operator)"))
    keep(
        home, Line(3_000_000, "error", "resurge.gateway", 7, "a tick <b>failed</b>", "Traceback:\nOSError: <i>disk</i>")
    )
    keep(spark, Line(4_000_000, "critical", "resurge.spark", 9, "results.sqlite is damaged"))
    return dashboard.browser("operator")


def found(browser, query: str = "") -> list[str]:
    return [line["message"][:12] for line in browser.get(f"{API}?{query}").json()["lines"]]


def test_both_parts_are_shown_newest_first_and_nothing_of_them_is_markup(written):
    text = written.get("/logs").text
    places = [
        text.index(each) for each in ("results.sqlite is damaged", "a tick &lt;b&gt;", "range trips/0", "listens on")
    ]
    assert places == sorted(places)
    assert "OSError: &lt;i&gt;disk&lt;/i&gt;" in text
    assert "<b>failed" not in text
    assert "<i>disk" not in text
    assert "Not here" not in text
    assert found(written) == ["results.sqli", "a tick <b>fa", "range trips/", "listens on 1"]


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ("part=gateway", ["a tick <b>fa", "listens on 1"]),
        ("part=spark", ["results.sqli", "range trips/"]),
        ("level=warning", ["results.sqli", "a tick <b>fa", "range trips/"]),
        ("level=error", ["results.sqli", "a tick <b>fa"]),
        ("text=OSERROR", ["a tick <b>fa"]),
        ("text=resurge.spark&level=error", ["results.sqli"]),
        ("text=nobody", []),
    ],
)
def test_they_are_found_by_part_level_and_text_on_the_page_and_by_the_api(written, query, lines):
    assert found(written, query) == lines
    page, taken = written.get(f"/logs?{query}").text, written.get(f"/logs/lines.txt?{query}").text
    assert page.count('<td class="said">') == len(lines)
    assert taken.count("resurge.") == len(lines)
    assert ("No line that is kept is like that." in page) == (not lines)


def test_as_text_they_are_in_the_order_in_which_they_were_said(written):
    answer = written.get("/logs/lines.txt?part=gateway")
    assert answer.text == (
        "1970-01-01T00:00:01.000Z gateway info resurge.gateway[7]: listens on 127.0.0.1:8750\n"
        "1970-01-01T00:00:03.000Z gateway error resurge.gateway[7]: a tick <b>failed</b>\n"
        "    Traceback:\n    OSError: <i>disk</i>\n"
    )
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-disposition"] == f'attachment; filename="{logs.FILE}"'
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_older_ones_are_a_page_away_and_lines_of_one_moment_stay_together(dashboard, monkeypatch):
    monkeypatch.setattr(logs, "LINES_SHOWN", 2)
    for at_us in (1, 2, 2, 2, 3):
        keep(dashboard.settings.home, Line(at_us, "info", "resurge", 1, f"at {at_us}"))
    operator = dashboard.browser("operator")
    first = operator.get(f"{API}?part=gateway&limit=2").json()
    assert ([line["at_us"] for line in first["lines"]], first["before_us"]) == ([3, 2, 2, 2], 2)
    assert [line["at_us"] for line in operator.get(f"{API}?before_us=2").json()["lines"]] == [1]
    page = operator.get("/logs?level=info").text
    assert 'href="/logs?part=&amp;level=info&amp;text=&amp;before=2"' in page
    assert "hx-get" in page
    assert "hx-get" not in operator.get("/logs?before=2").text.partition('id="lines"')[2]


def test_an_open_page_asks_again_once_something_was_said_and_keeps_what_is_open(written, dashboard):
    sources = dashboard.app.state.sources
    before = live.versions(sources)["logs"]
    keep(dashboard.settings.stable.parent, Line(5_000_000, "info", "resurge.spark", 9, "drives the job"))
    assert live.versions(sources)["logs"] != before
    page = written.get("/logs?part=gateway&text=tick").text
    assert 'hx-get="/logs?part=gateway&amp;level=info&amp;text=tick" hx-trigger="changed-logs from:body' in page
    part = written.get("/logs", headers=PART).text
    assert "<html" not in part
    assert '<details id="line-gateway-3000000-1" hx-preserve="true">' in part


def test_viewers_may_not_read_what_may_name_devices(written, dashboard):
    viewer = dashboard.browser("viewer")
    for address in ("/logs", "/logs/lines.txt", API):
        assert viewer.get(address).status_code == 403
        assert dashboard.browser("admin").get(address).status_code == 200
    assert "/logs" not in viewer.get("/jobs").text
    assert 'href="/logs?part=spark"' in written.get("/jobs").text
    assert 'href="/logs"' in written.get("/audit").text


def test_where_a_part_has_none_the_page_says_where_they_would_be(dashboard):
    operator = dashboard.browser("operator")
    page = operator.get("/logs").text
    assert "Nothing has been said here yet." in page
    assert "nothing that can be read where the gateway finds the job's status" in page
    keep(dashboard.settings.home, Line(1, "info", "resurge.gateway", 7, "listens"))
    page = operator.get("/logs").text
    assert "nothing that can be read in its home" not in page
    assert "A job on another machine" in page
    assert operator.get("/logs?part=gateway").text.count("Not here") == 0
    object.__setattr__(dashboard.app.state.sources, "stores", dict)
    assert "this gateway was started without <code>--stable</code>" in operator.get("/logs").text
    assert operator.get(API).json()["parts"] == [
        {"part": "gateway", "known": True, "kept": True}, {"part": "spark", "known": False, "kept": False},
    ]  # fmt: skip


def test_what_cannot_be_read_takes_nothing_else_away(written, dashboard):
    file = dashboard.settings.stable.parent / FILE
    file.unlink()
    file.mkdir()
    assert found(written) == ["a tick <b>fa", "listens on 1"]
    assert "Not here" in written.get("/logs").text


def test_odd_addresses_are_answered(written):
    for query in ("part=else&level=loud&before=x", "text=" + "a" * 5000, "before=99999999999999999999", "text=%00%ff"):
        assert written.get(f"/logs?{query}").status_code == 200
    for query in ("part=else", "level=debug", "text=" + "a" * 101, "before_us=x"):
        assert written.get(f"{API}?{query}").status_code == 422
