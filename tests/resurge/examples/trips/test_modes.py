"""How one moves is told alike at any rate, through gaps and outliers, and by a restored model."""

from __future__ import annotations

import math

import numpy as np
import pytest

from resurge.examples.trips import model
from resurge.examples.trips.legs import legs_of, smoothed
from resurge.examples.trips.modes import MODES, SECOND, Believer, Lookback, TransportMode
from resurge.examples.trips.scoring import confusion, share_right, told
from resurge.examples.trips.training import CHANGE, LABELS, Journey, densities, made_up, recorded


def rides(mode: str, every_s: int) -> float:
    """The share of the time that journeys nobody trained on are told right."""
    journeys = [made_up(mode, 5_000 + seed, every_s=every_s) for seed in range(3)]
    return share_right(confusion(score for journey in journeys for score in told(journey, model.DENSITIES)))


@pytest.mark.covers("SO-46")
@pytest.mark.parametrize("every_s", [1, 5, 30, 60])
@pytest.mark.parametrize(("mode", "goal"), [("walk", 0.9), ("bike", 0.8), ("train", 0.5), ("bus", 0.5)])
def test_a_mode_is_told_at_any_rate(mode, goal, every_s):
    assert rides(mode, every_s) >= goal


def test_gravity_free_shaking_tells_a_car_from_a_walk_that_gets_nowhere():
    """A traffic jam: no speed to speak of, and a phone that does not bounce."""
    believer = Believer()
    back = Lookback()
    for second in range(0, 600, 5):
        back.add(second * SECOND, 5.0, 3.0, 0.0)
        believer.observe(back.features(shake=0.3, gait=0.1), 5.0)
    assert MODES[int(np.argmax(believer.belief))] != "walk"


def test_one_absurd_fix_does_not_decide():
    steady = made_up("walk", 7_001, every_s=5)
    lat = steady.lat.copy()
    lat[40] += 0.004  # 440 m off
    shaken = Journey("x", steady.time_us, lat, steady.lon, steady.mode, steady.shake, steady.gait)
    assert share_right(confusion(told(shaken, model.DENSITIES))) > 0.8


def test_without_an_accelerometer_nothing_is_assumed_about_it():
    believer = Believer()
    assert believer.log_likelihoods([math.nan] * 6) == [0.0] * 6


def test_fixes_a_second_apart_weigh_as_much_as_one_that_took_their_time():
    beliefs = []
    for every in (1, 5):
        believer, back = Believer(), Lookback()
        for second in range(every, 301, every):
            back.add(second * SECOND, float(every), 4.5 * every, 0.0)
            believer.observe(back.features(math.nan, math.nan), float(every))
        beliefs.append(believer.belief)
    assert [int(np.argmax(belief)) for belief in beliefs] == [MODES.index("bike")] * 2


def rows(count: int = 60):
    return [
        {"time": n * 5 * SECOND, "lat": 47.0 + n * 0.0001, "lon": 8.0, "odometer": n * 11.1, "shake": 2.0, "gait": 0.6}
        for n in range(count)
    ]


def test_a_restored_machine_goes_on_as_if_nothing_had_happened():
    def run(machine, given):
        return [made for row in given for made in machine.process("in", row)]

    whole = run(TransportMode(), rows())
    for cut in (0, 1, 2, 17, 59):
        first, second = TransportMode(), TransportMode()
        before = run(first, rows()[:cut])
        second.restore(first.snapshot())
        assert before + run(second, rows()[cut:]) == whole


def test_a_gap_ends_what_was_believed_and_counts_as_no_distance():
    machine = TransportMode()
    given = [*rows(20), *({**row, "time": row["time"] + 3600 * SECOND} for row in rows(40)[20:])]
    made = [out for row in given for out in machine.process("in", row)]
    assert len(made) == 38, "the first fix, and the first after the gap, have nothing before them"
    assert sum(row["metres"] for row in made) == pytest.approx(38 * 11.1, abs=0.5)


def test_a_short_stop_belongs_to_the_trip():
    machine = TransportMode()
    assert machine._since_moving("walk", 10 * SECOND, 12.0, 10.0) == (12.0, 10.0)
    assert machine._since_moving("still", 40 * SECOND, 3.0, 30.0) == (0.0, 30.0)
    assert machine._since_moving("walk", 50 * SECOND, 12.0, 10.0) == (15.0, 40.0)


def test_legs_shorter_than_a_change_takes_join_their_longer_neighbour():
    modes = ["walk"] * 20 + ["bike"] * 3 + ["walk"] * 20
    assert smoothed(modes, [10.0] * 43) == ["walk"] * 43
    ride = ["bus"] * 40 + ["car"] * 12 + ["bus"] * 30
    assert set(smoothed(ride, [10.0] * 82)) == {"bus"}, "nobody changes vehicles without a step"
    changed = ["bus"] * 20 + ["walk"] * 12 + ["car"] * 20
    assert [leg[0] for leg in legs_of(smoothed(changed, [10.0] * 52), [10.0] * 52)] == ["bus", "walk", "car"]
    assert smoothed([], []) == []


def test_the_table_is_what_the_training_script_makes():
    from pathlib import Path

    from resurge.examples.trips.training import journeys_made_up

    directory = Path(__file__).parents[4].parent / "shared" / "data" / "geolife" / "modes"
    if not directory.is_dir():
        pytest.skip("the recordings it was trained on are not here")
    found = densities([*journeys_made_up(), *(("recorded", journey) for journey in recorded(directory))])
    assert [list(map(tuple, row)) for row in model.DENSITIES] == found


def test_changes_are_probabilities():
    assert all(sum(shares.values()) == pytest.approx(1.0) for shares in CHANGE.values())
    assert sum(math.exp(value) for value in model.PRIOR) == pytest.approx(1.0)
    assert set(LABELS.values()) <= set(MODES)
