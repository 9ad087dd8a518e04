"""A real stream against the ideal one, exactly."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from shared.contracts.ideal import Element, measure
from shared.contracts.levels import Measured
from shared.errors import UsageError

IDEAL = [Element(stream, number, 1000 * number, number * 7) for number in range(500) for stream in ("a", "b")]


def test_the_same_elements_are_kept_whole() -> None:
    assert measure(IDEAL, IDEAL) == Measured(1000, 1000, 0, 0, 0, 0)


@pytest.mark.covers("EC-9", "EC-10", "EC-11")
def test_loss_is_counted_by_numbers_and_delay_by_the_ideal_run() -> None:
    gone = set(random.Random(3).sample(range(1000), 31))
    real = [replace(one, at_us=one.at_us + 40) for place, one in enumerate(IDEAL) if place not in gone]
    found = measure(IDEAL, real)
    assert found == Measured(1000, 969, 0, 40, 0, 0)
    assert found.kept == pytest.approx(0.969)


@pytest.mark.covers("EC-9")
def test_a_changed_a_repeated_and_an_unknown_element_are_wrong() -> None:
    real = [*IDEAL[:10], replace(IDEAL[10], value="x"), IDEAL[3], Element("c", 0, 0, 0), *IDEAL[11:]]
    assert measure(IDEAL, real) == Measured(1000, 999, 3, 0, 0, 0)


def test_a_pair_swapped_within_a_stream_is_found() -> None:
    real = list(IDEAL)
    real[20], real[22] = real[22], real[20]  # both of stream a; one of b lies between them
    found = measure(IDEAL, real)
    assert (found.swapped, found.swapped_between) == (1, 2)


def test_a_pair_swapped_between_streams_is_no_fault_within_them() -> None:
    real = list(IDEAL)
    real[20], real[21] = real[21], real[20]
    found = measure(IDEAL, real)
    assert (found.swapped, found.swapped_between) == (0, 1)


def test_an_ideal_run_has_each_number_once() -> None:
    with pytest.raises(UsageError, match="twice"):
        measure([*IDEAL, IDEAL[0]], [])
