from __future__ import annotations

from random import Random

import pytest

from shared.errors import UsageError
from shared.sync.pacing import Batching, Conditions, Pacing, stretch


@pytest.mark.covers("SO-11")
def test_a_batch_closes_by_count_by_bytes_or_by_age() -> None:
    batching = Batching(rows=60, size_bytes=1000, within_us=5_000_000)
    assert not batching.full(rows=59, size_bytes=999, age_us=4_999_999)
    assert batching.full(rows=60, size_bytes=1, age_us=0)
    assert batching.full(rows=1, size_bytes=1000, age_us=0)
    assert batching.full(rows=1, size_bytes=1, age_us=5_000_000)
    assert not batching.full(rows=0, size_bytes=0, age_us=9_000_000), "an empty batch never closes"


def test_a_low_battery_and_a_dear_lane_make_batches_wait_longer() -> None:
    assert stretch(Conditions()) == 1.0
    assert stretch(Conditions(lane="cellular")) == 2.0
    assert stretch(Conditions(battery=0.1, charging=False)) == 4.0
    assert stretch(Conditions(battery=0.1, charging=True)) == 1.0
    assert stretch(Conditions(lane="cellular", battery=0.2, charging=False)) == 4.0


def test_the_budget_follows_the_lane() -> None:
    assert Pacing().budget(Conditions()) == 1 << 20
    assert Pacing().budget(Conditions(lane="cellular")) == 256 << 10
    assert Pacing(exchange_bytes_max=5000).budget(Conditions()) == 5000


def test_a_pause_doubles_up_to_its_limit_and_at_most_half_of_it_is_sure() -> None:
    pacing, rng = Pacing(backoff_s_min=1.0, backoff_s_max=16.0), Random(1)
    for failures, ceiling in ((1, 1.0), (2, 2.0), (5, 16.0), (500, 16.0)):
        pauses = [pacing.backoff_s(failures, rng) for _ in range(200)]
        assert ceiling / 2 <= min(pauses) < 0.6 * ceiling
        assert 0.9 * ceiling < max(pauses) <= ceiling


def test_an_unknown_lane_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="lane 'pigeon' is not one of gateway, wifi, cellular, broadcast"):
        Conditions(lane="pigeon")
