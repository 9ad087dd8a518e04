"""Derived plots: the numbers are those of the swing, whatever the phone's timing makes of it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from mobile_app.screens.widgets.derived import LEAST_READINGS, magnitude, span_s, spectrum

RATE = 50.0


def swing(time_s, hz, amplitude):
    return amplitude * np.sin(2 * np.pi * hz * time_s + 0.7)


def regular(seconds=10.0, rate=RATE):
    return np.arange(round(seconds * rate)) / rate


def test_the_length_of_a_vector_is_drawn_reading_by_reading():
    length = magnitude([np.array([3.0, 0.0, np.nan]), np.array([4.0, 0.0, 1.0]), np.array([0.0, 9.81, 1.0])])
    assert length[:2] == pytest.approx([5.0, 9.81])
    assert np.isnan(length[2])


@pytest.mark.parametrize("hz", [0.5, 2.0, 2.05, 7.13, 20.0])
def test_a_swing_shows_its_frequency_and_amplitude_over_gravity_and_a_trend(hz):
    time_s = regular()
    found = spectrum(time_s, 9.81 + 0.3 * time_s + swing(time_s, hz, 1.5))
    assert found.why == ""
    assert found.strongest_hz == pytest.approx(hz, abs=0.01)
    assert found.strongest == pytest.approx(1.5, rel=0.02)
    assert found.seconds == pytest.approx(10.0, abs=0.03)
    assert found.resolution_hz == pytest.approx(0.2, abs=0.001)
    assert found.hz[-1] == pytest.approx(RATE / 2)


def test_two_swings_that_are_apart_are_two_peaks_and_the_stronger_is_named():
    time_s = regular()
    found = spectrum(time_s, swing(time_s, 2.0, 1.0) + swing(time_s, 6.0, 2.5))
    assert found.strongest_hz == pytest.approx(6.0, abs=0.01)
    assert found.amplitude[np.argmin(np.abs(found.hz - 2.0))] == pytest.approx(1.0, rel=0.02)
    assert found.amplitude[np.argmin(np.abs(found.hz - 4.0))] < 0.01


@pytest.mark.parametrize(("hz", "jitter"), [(2.0, 0.4), (6.0, 0.4), (11.0, 0.1)])
def test_times_that_jitter_and_readings_that_were_dropped_do_not_change_it(hz, jitter):
    chance = np.random.default_rng(7)
    time_s = regular() + chance.uniform(-jitter, jitter, round(10 * RATE)) / RATE
    time_s = time_s[chance.random(len(time_s)) > 0.05]
    found = spectrum(time_s, swing(time_s, hz, 1.5))
    assert found.strongest_hz == pytest.approx(hz, abs=0.02)
    assert found.strongest == pytest.approx(1.5, rel=0.04)


def test_the_clock_of_a_phone_counts_in_large_numbers():
    time_s = 1_794_816_431.0 + regular()
    assert spectrum(time_s, swing(time_s, 2.0, 1.0)).strongest_hz == pytest.approx(2.0, abs=0.01)


@pytest.mark.parametrize("value", [0.0, 9.81, -1e6])
def test_what_does_not_move_has_no_strongest_frequency(value):
    found = spectrum(regular(), np.full(round(10 * RATE), value))
    assert found.why == ""
    assert found.strongest_hz is None
    assert found.amplitude.max() < 1e-6


def test_what_is_nan_counts_as_not_read():
    time_s = regular()
    values = swing(time_s, 2.0, 1.0)
    values[::9] = np.nan
    assert spectrum(time_s, values).strongest_hz == pytest.approx(2.0, abs=0.02)
    assert "there are 0" in spectrum(time_s, np.full(len(time_s), np.nan)).why


def test_only_what_came_since_the_last_gap_counts():
    time_s = np.concatenate([regular(5.0), 8.0 + regular(5.0)])
    values = np.concatenate([swing(time_s[:250], 9.0, 5.0), swing(time_s[250:], 3.0, 1.0)])
    found = spectrum(time_s, values)
    assert found.strongest_hz == pytest.approx(3.0, abs=0.02)
    assert found.seconds == pytest.approx(5.0, abs=0.03)
    assert "without a gap; there are 10 since" in spectrum(time_s[:260], values[:260]).why


def test_too_few_readings_are_said():
    for count in (0, 1, LEAST_READINGS - 1):
        assert f"there are {count}" in spectrum(regular()[:count], np.ones(count)).why
    assert spectrum(regular()[:LEAST_READINGS], np.ones(LEAST_READINGS)).why == ""
    same = np.zeros(100)  # a clock that stands still
    assert "there are 1" in spectrum(same, np.ones(100)).why


def test_readings_that_come_with_changes_have_no_spectrum():
    time_s = np.cumsum(np.random.default_rng(3).pareto(0.7, 200) + 0.01)
    assert "not regularly" in spectrum(time_s, np.ones(200)).why


def test_slow_sensors_are_looked_at_for_longer():
    assert [span_s(rate) for rate in (0.0, 100.0, 1.0, 1 / 30)] == [10.0, 10.0, 64.0, 600.0]


def test_the_arithmetic_knows_nothing_of_windows():
    code = "import sys, mobile_app.screens.widgets.derived; sys.exit('kivy' in sys.modules)"
    assert subprocess.run([sys.executable, "-OO", "-c", code], check=False).returncode == 0
