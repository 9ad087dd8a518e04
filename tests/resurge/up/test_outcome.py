"""What a run must have shown, and the words for what it did not."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from resurge.up.account import Account
from resurge.up.home import UpHome
from resurge.up.outcome import Outcome
from resurge.up.terminal import phones_say, report, status_line

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
        ({"expected_digest": "b" * 64, "read_all": False}, "had not worked off the log"),
        ({"expected_digest": "b" * 64}, "differ from what the log says"),
    ],
)
def test_each_broken_promise_is_said_in_words(change, words):
    [problem] = replace(GOOD, **change).problems()
    assert words in problem


def test_the_status_line_adds_up_what_the_phones_say():
    phones = [
        {"connected": True, "produced": 700, "delivered": 690, "spooled": 10, "ledgered": 0},
        {"connected": False, "produced": 500, "delivered": 300, "spooled": 190, "ledgered": 10},
    ]
    assert status_line(phones, 7, 12.4) == (
        "12 s left, 1 of 2 phones connected, 7 results, 1,200 produced = 990 delivered + 200 spooled + 10 ledgered"
    )
    assert status_line([], 0, None).startswith("0 of 0 phones connected")


def test_a_phone_whose_status_is_being_replaced_is_left_out_for_a_moment(tmp_path):
    stage = UpHome(tmp_path, 1, 2)
    for name, text in (("a", '{"connected": true}'), ("b", "{")):
        stage.phone_home(name).mkdir(parents=True)
        (stage.phone_home(name) / "status.json").write_text(text)
    assert phones_say(stage) == [{"connected": True}]


def test_the_report_says_that_it_adds_up_only_when_it_does():
    assert "It adds up" in reported(GOOD)
    assert "It adds up" not in reported(replace(GOOD, results=0))
    assert "1,234" in reported(replace(GOOD, results=1234))


def test_a_run_that_could_not_be_compared_with_its_log_says_so():
    said = reported(replace(GOOD, expected_digest=None, unchecked="readings were deleted from the log"))
    assert "not compared" in " ".join(said.split())
    assert "bit for bit" not in said
    value = replace(GOOD, expected_digest=None, unchecked="readings were deleted from the log").as_json()
    assert (value["expected_digest"], value["unchecked"]) == (None, "readings were deleted from the log")


def reported(outcome: Outcome) -> str:
    console = Console(file=io.StringIO(), width=80)
    report(outcome, console)
    return console.file.getvalue()
