"""Fault schedules that Hypothesis draws, and shrinks to the fewest faults that still break a promise."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.spool.evict import Evict
from tests.simulation.faults import KINDS, Fault
from tests.simulation.network import Weather
from tests.simulation.phone import PhoneSettings
from tests.simulation.world import Settings, World

pytestmark = pytest.mark.sim
DURATION_S = 25


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    kind = draw(st.sampled_from(sorted(KINDS)))
    _, low, high = KINDS[kind]
    return Fault(float(draw(st.integers(0, DURATION_S))), kind, 0, draw(st.integers(int(low), int(min(high, 20)))))


phones = st.builds(
    PhoneSettings,
    edges=st.integers(1, 2),
    every_s=st.just(1.0),
    capacity_bytes=st.sampled_from((4096, 16_384)),
    evict=st.sampled_from(Evict),
    payload_bytes_max=st.sampled_from((40, 700)),
    within_s=st.sampled_from((0.5, 5.0)),
)
weathers = st.builds(Weather, loss=st.sampled_from((0.0, 0.3)), duplication=st.sampled_from((0.0, 0.3)))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(phone=phones, weather=weathers, schedule=st.lists(faults(), max_size=6), seed=st.integers(0, 7))
def test_no_schedule_of_faults_breaks_a_promise(
    phone: PhoneSettings, weather: Weather, schedule: list[Fault], seed: int
) -> None:
    world = World(Settings(seed, (phone,), DURATION_S, weather, tuple(schedule)), keep=True)
    outcome = world.run()
    assert outcome.violation is None, "\n".join(outcome.lines[-40:])
