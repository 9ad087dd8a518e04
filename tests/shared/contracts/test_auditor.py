"""The online audit: loss, delay, order, once-only and silence, as one hour of a log tells them."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from shared.contracts.auditor import RANGES_MAX, Auditor, Findings, Lost, Outage, Verdict
from shared.contracts.delays import Delays
from shared.plan.contracts import LOSSLESS, Contract

SECOND = 1_000_000
HOUR = 3600 * SECOND
START = 500_000 * HOUR
BOUND = Contract(delay_us_max=600 * SECOND)


def batch(auditor: Auditor, lo: int, count: int = 10, *, stream: str = "a", delay_s: float = 5.0, **more: Any) -> None:
    """Rows one second apart, numbered by their seconds of the hour; the last of them is `delay_s` old."""
    times = START + SECOND * np.arange(lo, lo + count)
    at_us = int(times[-1]) + round(delay_s * SECOND)
    told: dict[str, Any] = {"frontier_us": int(times[-1]), "times_us": times} | more
    auditor.delivered(stream, lo, lo + count, at_us=at_us, **told)


def hour(auditor: Auditor) -> Findings:
    return auditor.close(START, START + HOUR)


def test_everything_delivered_in_time_and_order_is_kept() -> None:
    auditor = Auditor(BOUND)
    for lo in range(0, 3600, 10):
        batch(auditor, lo)
    found = hour(auditor)
    assert (found.verdict, found.why) == (Verdict.KEPT, ())
    assert (found.delivered, found.ledgered, found.kept, found.rows) == (3600, 0, 1.0, 3600)
    assert found.coverage > 0.99
    assert found.delay_max_us == 14 * SECOND
    assert found.delay_p50_us == pytest.approx(9.5 * SECOND, rel=0.06)
    assert found.delay_p99_us == pytest.approx(14 * SECOND, rel=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_injected_loss_is_reported_to_five_hundredths_of_a_point(seed: int) -> None:
    dice, auditor, injected = random.Random(seed), Auditor(Contract(kept_min=0.95)), 0
    for lo in range(0, 360_000, 10):
        if dice.random() < 0.031:
            auditor.given_up("a", lo, lo + 10, "evicted", at_us=START + lo)
            injected += 10
        else:
            auditor.delivered("a", lo, lo + 10, at_us=START + lo)
    found = hour(auditor)
    assert found.kept is not None
    assert abs((1 - found.kept) - injected / 360_000) < 0.0005
    assert found.verdict is Verdict.KEPT  # 95 % were promised
    assert sum(each.hi - each.lo for each in found.lost) < injected == found.ledgered
    assert len(found.lost) == RANGES_MAX
    assert found.lost_left_off > 0


def test_a_lossless_sink_is_broken_by_one_element_in_the_hour_it_went_and_not_after() -> None:
    auditor = Auditor(LOSSLESS)
    batch(auditor, 0)
    auditor.given_up("a", 10, 11, "expired", at_us=START)
    found = hour(auditor)
    assert (found.verdict, found.why, found.lost) == (Verdict.BROKEN, ("loss",), (Lost("a", 10, 11, "expired"),))
    auditor.delivered("a", 11, 20, at_us=START + HOUR)
    assert auditor.close(START + HOUR, START + 2 * HOUR).verdict is Verdict.KEPT


def test_a_bad_hour_of_a_stream_that_still_has_enough_is_at_risk() -> None:
    auditor = Auditor(Contract(kept_min=0.9))
    auditor.delivered("a", 0, 1000, at_us=START)
    hour(auditor)
    auditor.given_up("a", 1000, 1050, "evicted", at_us=START + HOUR)
    found = auditor.close(START + HOUR, START + 2 * HOUR)
    assert (found.verdict, found.why) == (Verdict.AT_RISK, ("loss",))
    auditor.given_up("a", 1050, 1200, "evicted", at_us=START + 2 * HOUR)
    assert auditor.close(START + 2 * HOUR, START + 3 * HOUR).verdict is Verdict.BROKEN


@pytest.mark.covers("EC-11")
def test_a_bound_broken_by_one_second_is_found_and_one_within_the_clock_s_doubt_is_at_risk() -> None:
    auditor = Auditor(BOUND)
    batch(auditor, 0, 1, delay_s=600)
    assert hour(auditor).verdict is Verdict.KEPT
    batch(auditor, 1, 1, delay_s=601)
    found = hour(auditor)
    assert (found.verdict, found.why, found.late) == (Verdict.BROKEN, ("delay",), 1)
    assert found.delay_max_us == 601 * SECOND
    batch(auditor, 2, 1, delay_s=601, uncertainty_us=2 * SECOND)
    found = hour(auditor)
    assert (found.verdict, found.late, found.late_in_doubt) == (Verdict.AT_RISK, 0, 1)


def test_a_delay_nearer_to_the_bound_than_a_recovery_takes_is_at_risk() -> None:
    auditor = Auditor(BOUND, recovery_us=30 * SECOND)
    batch(auditor, 0, 1, delay_s=569)
    assert hour(auditor).verdict is Verdict.KEPT
    batch(auditor, 1, 1, delay_s=571)
    assert (hour(auditor).verdict, auditor.contract.delay_us_max) == (Verdict.AT_RISK, 600 * SECOND)


@pytest.mark.covers("EC-12")
def test_a_swapped_pair_of_batches_is_found_and_nothing_of_it_is_lost_or_twice() -> None:
    auditor = Auditor(LOSSLESS)
    for lo in (0, 20, 10, 30):
        auditor.delivered("a", lo, lo + 10, at_us=START)
    found = hour(auditor)
    assert (found.verdict, found.why, found.swapped) == (Verdict.BROKEN, ("order",), 1)
    assert (found.delivered, found.ledgered, found.twice) == (40, 0, 0)


def test_a_swapped_pair_of_rows_is_counted_and_breaks_the_order_behind_a_frontier() -> None:
    auditor = Auditor(LOSSLESS)
    times = START + SECOND * np.array([0, 1, 3, 2, 4])
    auditor.delivered("a", 0, 5, at_us=START + 9 * SECOND, times_us=times, frontier_us=START + 4 * SECOND)
    found = hour(auditor)
    assert (found.verdict, found.times_back) == (Verdict.KEPT, 1)  # stream order is by number
    late = START + SECOND * np.array([3, 5])
    auditor.delivered("a", 5, 7, at_us=START + 9 * SECOND, times_us=late, frontier_us=START + 5 * SECOND)
    found = hour(auditor)
    assert (found.verdict, found.why, found.behind, found.times_back) == (Verdict.BROKEN, ("order",), 1, 1)


@pytest.mark.parametrize(("order", "verdict"), [("each", Verdict.KEPT), ("all", Verdict.BROKEN)])
def test_order_between_streams_is_broken_by_a_row_behind_the_frontier_of_all(order: str, verdict: Verdict) -> None:
    auditor = Auditor(Contract(order=order))
    for stream in "ab":
        auditor.expect(stream, START)
    for stream in "ab":
        batch(auditor, 100, stream=stream)
    batch(auditor, 50, stream="c")  # a stream of its own, in order; but the others had passed it
    found = hour(auditor)
    assert (found.behind, found.behind_all, found.verdict) == (0, 10, verdict)


def test_a_stream_that_fell_silent_holds_the_others_back_no_longer() -> None:
    auditor = Auditor(Contract(order="all"), idle_us=60 * SECOND)
    batch(auditor, 0, stream="slow")
    batch(auditor, 100, stream="a")
    batch(auditor, 500, stream="a")
    batch(auditor, 300, stream="b")
    assert hour(auditor).behind_all == 10


def test_numbers_told_twice_and_numbers_nobody_told_are_found() -> None:
    auditor = Auditor(LOSSLESS)
    auditor.delivered("a", 0, 10, at_us=START)
    auditor.delivered("a", 5, 15, at_us=START)
    found = hour(auditor)
    assert (found.why, found.twice, found.delivered) == (("twice",), 5, 15)
    auditor.delivered("a", 20, 30, at_us=START)
    found = hour(auditor)
    assert (found.why, found.lost) == (("loss",), (Lost("a", 15, 20, "skipped"),))


def test_a_silent_stream_makes_the_sink_unknown_and_never_kept() -> None:
    auditor = Auditor(LOSSLESS)
    auditor.expect("b", START - HOUR)
    batch(auditor, 0)
    found = hour(auditor)
    assert (found.verdict, found.why, found.silent, found.streams) == (Verdict.UNKNOWN, ("silent",), ("b",), 2)
    auditor.reached("b", START + HOUR, at_us=START + HOUR)  # no rows, but it was heard
    batch(auditor, 10, delay_s=3600)
    assert auditor.close(START + HOUR, START + 2 * HOUR).verdict is Verdict.KEPT
    auditor.forget("b")
    batch(auditor, 20, delay_s=7200)
    assert auditor.close(START + 2 * HOUR, START + 3 * HOUR).verdict is Verdict.KEPT


def test_a_sink_nobody_ever_sent_to_is_unknown() -> None:
    assert hour(Auditor(LOSSLESS)).verdict is Verdict.UNKNOWN


def test_what_no_operator_could_use_is_wrong_and_a_correction_is_only_counted() -> None:
    auditor = Auditor(Contract(wrong_max=0.01))
    batch(auditor, 0, 1000)
    auditor.quarantined(10)
    auditor.corrected(99)
    found = hour(auditor)
    assert (found.verdict, found.wrong) == (Verdict.KEPT, 109)
    batch(auditor, 1000, 1000)
    auditor.quarantined(11)
    assert hour(auditor).why == ("wrong",)


def test_a_silence_that_ended_is_an_outage_with_its_times() -> None:
    auditor = Auditor(LOSSLESS, gap_us=90 * SECOND)
    batch(auditor, 0)
    batch(auditor, 10)
    batch(auditor, 20, delay_s=305)
    found = hour(auditor)
    assert found.outages == (Outage("a", START + 24 * SECOND, START + 334 * SECOND),)
    assert found.verdict is Verdict.KEPT  # it came, and nothing was said about how late


def test_what_was_gone_before_it_was_read_is_unknown_and_not_lost() -> None:
    auditor = Auditor(LOSSLESS)
    batch(auditor, 0)
    auditor.unread()
    batch(auditor, 500)
    found = hour(auditor)
    assert (found.verdict, found.why, found.ledgered) == (Verdict.UNKNOWN, ("unread",), 0)


def test_a_restart_in_the_middle_of_an_hour_changes_nothing() -> None:
    straight, stopped = Auditor(BOUND), Auditor(BOUND)
    for lo in range(0, 400, 10):
        for auditor in (straight, stopped):
            if lo % 70 == 0:
                auditor.given_up("a", lo, lo + 10, "evicted", at_us=START + lo * SECOND)
            else:
                batch(auditor, lo, stream="b" if lo % 3 else "a")
        state = json.loads(json.dumps(stopped.to_json()))
        stopped = Auditor(BOUND)
        stopped.resume(state)
    assert hour(straight) == hour(stopped)


def test_percentiles_are_within_one_percent_and_add_up() -> None:
    dice = np.random.default_rng(5)
    delays = (10 ** dice.uniform(3, 11, 20_000)).astype(np.int64)
    whole, left, right = Delays(), Delays(), Delays()
    whole.add(delays)
    left.add(delays[:500])
    right.add(delays[500:])
    left.merge(right)
    assert whole.to_json() == left.to_json()
    for share in (0.01, 0.5, 0.99):
        assert whole.quantile_us(share) == pytest.approx(np.quantile(delays, share), rel=0.011)
    assert whole.us_max == delays.max()
