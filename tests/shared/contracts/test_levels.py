"""The lattice of reliability levels (EC-10..EC-12), and what a measurement says of a level."""

from __future__ import annotations

import itertools

import pytest

from shared.contracts.levels import Level, Measured, Order, level_of
from shared.plan.contracts import LOSSLESS, Contract

LEVELS = [
    Level(kept, wrong, delay, order)
    for kept, wrong, delay, order in itertools.product((0.0, 0.95, 1.0), (0.0, 0.1), (None, 0, 5), Order)
]
NEVER, DEFR = Level(), Level(delay_us_max=0)


@pytest.mark.covers("EC-11", "EC-12")
def test_no_delay_implies_order_between_streams_and_that_order_within_them() -> None:
    each, all_ = Level(order=Order.EACH), Level(order=Order.ALL)
    assert DEFR.implies(all_)
    assert all_.implies(each)
    assert not each.implies(all_)
    assert not all_.implies(DEFR)
    assert not Level(delay_us_max=1).implies(each)


def test_lossless_implies_every_limited_loss_and_a_shorter_delay_a_longer_one() -> None:
    lossless = Level(kept_min=1.0, wrong_max=0.0)
    assert lossless.implies(Level(0.95, 0.1))
    assert not Level(0.95, 0.0).implies(lossless)
    assert Level(delay_us_max=5).implies(Level(delay_us_max=6))
    assert not NEVER.implies(Level(delay_us_max=6))


@pytest.mark.covers("EC-12")
def test_implication_is_an_order_and_both_is_its_least_upper_bound() -> None:
    for one in LEVELS:
        assert one.implies(one)
    for one, other in itertools.product(LEVELS, LEVELS):
        joined = one.both(other)
        assert joined.implies(one)
        assert joined.implies(other)
        assert all(third.implies(joined) for third in LEVELS if third.implies(one) and third.implies(other))
        if one.implies(other) and other.implies(one):
            assert (one.kept_min, one.wrong_max, one.delay_us_max, one.ordered) == (
                other.kept_min, other.wrong_max, other.delay_us_max, other.ordered
            )  # fmt: skip
    for one, other, third in itertools.product(LEVELS, LEVELS, LEVELS):
        assert not (one.implies(other) and other.implies(third)) or one.implies(third)


def test_what_implies_another_level_is_never_broken_less() -> None:
    """A measurement that satisfies a level satisfies all it implies, if it is one that a stream can have."""
    streams = [
        Measured(100, correct, wrong, delay, within, within + more)
        for correct, wrong, delay, within, more in itertools.product((100, 96, 90), (0, 5), (0, 4, 9), (0, 1), (0, 1))
        if delay or not within + more  # without delay nothing is swapped
    ]
    for stream, one, other in itertools.product(streams, LEVELS, LEVELS):
        if one.implies(other) and not stream.broken(one):
            assert not stream.broken(other), (stream, one, other)


@pytest.mark.parametrize(
    ("measured", "broken"),
    [
        (Measured(1000, 1000, 0, 5, 0, 0), ()),
        (Measured(1000, 999, 0, 5, 0, 0), ("loss",)),
        (Measured(1000, 1000, 1, 5, 0, 0), ("wrong",)),
        (Measured(1000, 1000, 0, 6, 0, 0), ("delay",)),
        (Measured(1000, 1000, 0, 5, 1, 1), ("order",)),
        (Measured(1000, 1000, 0, 5, 0, 1), ()),  # between streams; the contract says each
        (Measured(0, 0, 1, 0, 0, 0), ("wrong",)),
    ],
)
def test_a_measurement_names_what_is_broken(measured: Measured, broken: tuple[str, ...]) -> None:
    assert measured.broken(level_of(Contract(delay_us_max=5))) == broken
    assert "order" in Measured(9, 9, 0, 5, 0, 1).broken(level_of(Contract(order="all")))


def test_levels_are_named_as_in_the_paper() -> None:
    assert level_of(LOSSLESS).names == ("LOLE", "IASO")
    assert level_of(Contract(0.95, 0.01, 600_000_000, "all")).names == ("LILO(0.95, 0.01)", "LIDE(10m)", "IESO")
    assert DEFR.names == ("LILO(0, 1)", "DEFR", "IESO")
