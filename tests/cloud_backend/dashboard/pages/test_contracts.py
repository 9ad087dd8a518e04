"""The contracts' pages: promise, verdict, reports, what was lost and what strategies cost, for whoever may look."""

from __future__ import annotations

import pytest

HOUR_US = 3600 * 1_000_000


@pytest.fixture
def audited(dashboard):
    audits = dashboard.app.state.sources.contracts
    audits.follow(dashboard.now_us)
    dashboard.deliver(dashboard.phones[0], seq=8)
    audits.follow(dashboard.now_us)
    return dashboard


def test_the_page_shows_what_was_promised_and_how_it_is(audited):
    page = audited.browser("viewer").get("/contracts").text
    assert "lossless" in page
    assert "broken: loss" in page
    assert "75.00 %" in page
    assert "The first report comes when an hour is over." in page
    assert 'href="/contracts"' in audited.browser("viewer").get("/streams").text
    assert audited.browser().get("/contracts").status_code in (303, 401)


def test_a_sink_s_page_has_its_reports_what_was_lost_and_the_strategies(audited):
    audited.app.state.sources.contracts.follow(audited.now_us + HOUR_US + 10_000_000)
    page = audited.browser("viewer").get("/contracts/gps").text
    assert "Ranges lost" in page
    assert "[14, 16)" in page
    assert "evicted" in page
    assert "tram-07" in page
    assert "extended-ecoc" in page
    assert "Older" not in page


def test_a_sink_that_promises_nothing_is_not_found(audited):
    browser = audited.browser("viewer")
    assert browser.get("/contracts/elsewhere").status_code == 404
    assert browser.get("/v1/api/contracts/sinks/elsewhere").json()["code"] == "contract-not-found"


def test_the_api_says_the_same_and_verifies_for_operators(audited):
    viewer, operator = audited.browser("viewer"), audited.browser("operator")
    audited.app.state.sources.contracts.follow(audited.now_us + HOUR_US + 10_000_000)
    (sink,) = viewer.get("/v1/api/contracts").json()["contracts"]
    assert (sink["sink"], sink["promise"], sink["row"]) == ("gps", "lossless", "local")
    found = viewer.get("/v1/api/contracts/reports").json()
    assert [each["verdict"] for each in found["reports"]] == ["broken"]
    assert found["key"] == audited.gateway.keys.public_key.hex()
    assert operator.get("/v1/api/contracts/verify").json() == {"sound": True, "reports": 1}
    assert viewer.get("/v1/api/contracts/verify").status_code == 403
    assert viewer.get("/v1/api/contracts/sinks/gps").json()["reports"][0]["lost"][0]["reason"] == "evicted"
