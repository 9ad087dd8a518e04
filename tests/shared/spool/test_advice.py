"""The size of a spool, from rates and outages: what it advises is enough, and one step less is not."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from shared.spool.advice import HEADROOM, OUTAGES_MIN, STEP_BYTES, advise, percentile
from tests.examples_drawn import examples_drawn


def test_what_is_not_measured_is_not_advised() -> None:
    nothing = advise({}, 1 << 20, [])
    assert (nothing.lasts_s, nothing.p95_s, nothing.p95_bytes, nothing.lost_share) == (None, None, None, None)
    assert nothing.loss_at(60.0) is None
    few = advise({"x": 100.0}, 1 << 20, [60.0] * (OUTAGES_MIN - 1))
    assert few.lasts_s is not None
    assert (few.p95_s, few.p99_bytes, few.lost_share) == (None, None, 0.0)


@pytest.mark.covers("NB-24")
def test_the_paper_s_buffer_of_50_mb_and_its_two_queries() -> None:
    """Query 1 behind its first filter (67.6 % of 3.33 MiB/s) and Query 2 (488 KB/s): 50 MB are full in half a minute."""
    rates = {"q1": 0.676 * 3.33 * (1 << 20), "q2": 488_000.0}
    found = advise(rates, 50 << 20, [30.0] * 99 + [60.0])
    assert found.lasts_s is not None
    assert 15 < found.lasts_s < 20
    assert found.p99_s == 30.0
    assert found.p99_bytes is not None
    assert 80 << 20 < found.p99_bytes < 100 << 20
    loss = found.loss_at(30.0)
    assert loss is not None
    assert abs(loss - (1 - found.lasts_s / 30.0)) < 1e-9
    assert advise(rates, found.p99_bytes, [30.0]).loss_at(30.0) == 0.0


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 0.95), percentile(values, 0.99), percentile(values, 1.0)) == (95.0, 99.0, 100.0)
    assert percentile([7.0], 0.95) == 7.0


@examples_drawn(100, 2_000, st.lists(st.floats(1.0, 1e6), min_size=OUTAGES_MIN, max_size=60), st.floats(1.0, 1e6))
def test_the_advised_size_holds_the_outage_and_a_step_less_does_not(outages: list[float], rate: float) -> None:
    found = advise({"x": rate}, 1 << 20, outages)
    assert found.p95_s is not None
    assert found.p99_s is not None
    assert found.p95_bytes is not None
    assert found.p95_s <= found.p99_s <= max(outages)
    share = sum(each <= found.p95_s for each in outages) / len(outages)
    assert share >= 0.95
    assert found.p95_bytes >= found.p95_s * rate
    loss = advise({"x": rate}, found.p95_bytes, outages).loss_at(found.p95_s)
    assert loss is not None
    assert loss < 1e-9
    if found.p95_bytes > STEP_BYTES:
        assert (found.p95_bytes - STEP_BYTES) / HEADROOM / rate < found.p95_s * (1 + 1e-9)
