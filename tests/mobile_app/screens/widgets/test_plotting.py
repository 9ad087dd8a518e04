"""Vertices of plots, without a window."""

from __future__ import annotations

import numpy as np
import pytest

from mobile_app.screens.widgets.plotting import axis, band, envelope, metres, ribbon, round_step, tick_text, triangles


def test_an_envelope_keeps_the_lowest_and_the_highest_of_every_column():
    x = np.linspace(0, 10, 5001)
    y = np.sin(x)
    y[1234] = 40.0  # one spike
    y[4321] = -7.0
    middle, low, high = envelope(x, y, 100)
    assert high.max() == 40.0
    assert low.min() == -7.0
    assert len(middle) <= 101
    assert np.all(np.diff(middle) > 0)


def test_neighbouring_columns_of_an_envelope_touch():
    x = np.arange(1000.0)
    y = np.where(x < 500, 0.0, 100.0)  # a step between two columns
    _, low, high = envelope(x, y, 50)
    assert np.all(low[1:] <= high[:-1])
    assert np.all(high[1:] >= low[:-1])


def test_an_envelope_has_no_column_where_there_is_no_point():
    x = np.concatenate([np.arange(0, 10, 0.01), np.arange(90, 100, 0.01)])
    middle, _, _ = envelope(x, np.zeros(len(x)), 100)
    assert not np.any((middle > 12) & (middle < 88))


def test_a_ribbon_is_as_wide_as_it_was_asked_for():
    vertices = ribbon(np.array([0.0, 10.0, 10.0]), np.array([0.0, 0.0, 5.0]), 2.0).reshape(2, 4, 4)
    assert vertices[0, 0, 1] - vertices[0, 1, 1] == pytest.approx(4.0)
    assert abs(vertices[1, 0, 0] - vertices[1, 1, 0]) == pytest.approx(4.0)


def test_a_ribbon_stays_wide_where_the_line_turns_back():
    vertices = ribbon(np.array([0.0, 0.001, 0.002]), np.array([0.0, 50.0, 0.0]), 2.0).reshape(2, 4, 4)
    assert np.all(np.abs(vertices[:, 0, 0] - vertices[:, 1, 0]) > 3.9)


@pytest.mark.parametrize("points", [0, 1])
def test_fewer_than_two_points_are_no_line(points):
    assert len(ribbon(np.zeros(points), np.zeros(points), 1.0)) == 0
    assert len(triangles(points)) == 0


def test_a_break_leaves_out_the_piece_between_two_points():
    whole, broken = triangles(4), triangles(4, np.array([False, True, False]))
    assert len(whole) == 18
    assert broken.tolist() == [0, 1, 2, 1, 2, 3, 8, 9, 10, 9, 10, 11]


def test_a_band_lies_between_its_edges():
    vertices = band(np.array([1.0, 2.0]), np.array([0.0, 1.0]), np.array([5.0, 6.0])).reshape(2, 2, 4)
    assert vertices[:, 0, 1].tolist() == [5.0, 6.0]
    assert vertices[:, 1, 1].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0.0, 1.0, [0.0, 0.5, 1.0]), (-1.8, 3.9, [-2.0, 0.0, 2.0, 4.0]), (964.1, 965.3, [964.0, 964.5, 965.0, 965.5])],
)
def test_an_axis_has_round_numbers_around_the_data(low, high, ticks):
    bottom, top, found = axis(low, high)
    assert found == pytest.approx(ticks)
    assert bottom <= low <= high <= top


def test_an_axis_of_one_value_or_of_none_is_still_an_axis():
    assert axis(5.0, 5.0)[0] < 5.0 < axis(5.0, 5.0)[1]
    assert axis(float("nan"), float("inf"))[2]


def test_ticks_have_as_many_digits_as_tell_them_apart():
    assert tick_text(0.5, 0.5) == "0.5"
    assert tick_text(964.0, 0.5) == "964.0"
    assert tick_text(-2.0, 2.0) == "\u22122"
    assert tick_text(-0.0, 2.0) == "0"
    assert round_step(30.0, 3) == 10.0


def test_metres_are_metres():
    east, north = metres(np.array([47.0, 47.0, 47.01]), np.array([8.0, 8.01, 8.0]))
    assert north[2] == pytest.approx(1113.2, rel=1e-3)
    assert east[1] == pytest.approx(759.2, rel=1e-2)
