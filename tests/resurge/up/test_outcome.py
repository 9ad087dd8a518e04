"""What a run must have shown, and the words for what it did not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from resurge.up.account import Account
from resurge.up.run import Outcome
from resurge.up.terminal import status_line

GOOD = Outcome(
    account=Account(produced=100, delivered=90, spooled=8, ledgered=2, duplicates=0),
    outages=5, results=12, results_on_phones=9, results_digest="a" * 64, expected_digest="a" * 64, dashboard="http://127.0.0.1:1/",
)  # fmt: skip


def test_a_good_run_has_no_problem_and_one_flat_object():
    assert GOOD.problems() == []
    value = GOOD.as_json()
    assert value["produced"] == value["delivered"] + value["spooled"] + value["ledgered"]
    assert {"duplicates", "outages", "results", "dashboard", "results_digest", "expected_digest"} <= set(value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"account": replace(GOOD.account, delivered=88)}, "2 elements have no place"),
        ({"account": replace(GOOD.account, duplicates=3)}, "3 have two"),
        ({"account": Account(5, 0, 5, 0, 0)}, "nothing was delivered"),
        ({"results": 0}, "no result was published"),
        ({"expected_digest": "b" * 64}, "differ from what the log says"),
    ],
)
def test_each_broken_promise_is_said_in_words(change, words):
    [problem] = replace(GOOD, **change).problems()
    assert words in problem


def test_the_status_line_says_when_the_gateway_is_away():
    assert "phones keep recording" in status_line(None, 12.4)
    assert status_line(None, 12.4).startswith("12 s left")


def test_the_status_line_shows_the_account():
    view = {
        "account": {"produced": 1200, "delivered": 1000, "spooled": 200, "ledgered": 0},
        "phones": [{"connected": True}, {"connected": False}], "sinks": {"my_trips": 7},
    }  # fmt: skip
    assert status_line(view, None) == (
        "1 of 2 phones connected, 1,200 produced = 1,000 delivered + 200 spooled + 0 ledgered, 7 results"
    )
