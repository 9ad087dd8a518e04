"""How one moves is told alike at any rate, through gaps and outliers, and by a restored model."""

from __future__ import annotations

import math

import numpy as np
import pytest

from resurge.examples.trips import model
from resurge.examples.trips.journeys import KINDS, Journey, made_up
from resurge.examples.trips.legs import legs_of, smooth_modes, tidy_modes
from resurge.examples.trips.modes import MODES, SECOND, Believer, Lookback, TransportMode
from resurge.examples.trips.operators import trip
from resurge.examples.trips.rides import measures, most_likely_modes, scores
from tests.resurge.examples.trips.scoring import classify, confusion, share_right
from tests.resurge.examples.trips.training import (
    CHANGE,
    LABELS,
    densities,
    kinds,
    measure_ride,
    read_labelled,
)


def rides(mode: str, every_s: int) -> float:
    """The share of the time that journeys nobody trained on are told right."""
    journeys = [made_up(mode, 5_000 + seed, every_s=every_s) for seed in range(3)]
    return share_right(confusion(score for journey in journeys for score in classify(journey)))


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
    assert share_right(confusion(classify(shaken))) > 0.8


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
        {"time": n * 5 * SECOND, "lat": 47.0 + n * 0.0001, "lon": 8.0, "odometer": n * 11.1, "shake": 2.0, "gait": 0.6,
         "indoors_s": 2.0 * n, "outdoors_s": 3.0 * n}
        for n in range(count)
    ]  # fmt: skip


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
    assert len(made) == 39, "the first fix has nothing before it, and the first after the gap only the clocks"
    assert sum(row["metres"] for row in made) == pytest.approx(38 * 11.1, abs=0.5)


def test_what_the_clocks_went_on_is_told_once_and_where_one_was():
    """Twenty fixes, an hour in which nothing was worth keeping, and twenty more that begin a street on."""
    machine = TransportMode()
    later = [
        {**row, "time": row["time"] + 3600 * SECOND, "lat": row["lat"] + 0.001, "indoors_s": row["indoors_s"] + 3600.0}
        for row in rows(40)[20:]
    ]
    made = [out for row in [*rows(20), *later] for out in machine.process("in", row)]
    assert sum(row["indoors_s"] for row in made) == pytest.approx(3600 + 2.0 * 39)
    assert sum(row["outdoors_s"] for row in made) == pytest.approx(3.0 * 39)
    [stayed] = [row for row in made if row["indoors_s"] > 100]
    assert (stayed["mode"], stayed["metres"], stayed["seconds"]) == ("still", 0.0, 0.0)
    assert stayed["lat"] == rows(20)[-1]["lat"], "the hour was spent where the last fix was"


def walk_stay_walk(stay_s: int, *, jump_at: int | None = None) -> list[dict]:
    """Ten minutes on foot, a stay with fixes that wander by 30 m, ten minutes on foot."""
    draw = np.random.default_rng(stay_s)
    metres = np.concatenate((np.arange(0, 840, 7.0), np.full(stay_s // 5, 840.0), np.arange(840, 1680, 7.0)))
    stay = slice(120, 120 + stay_s // 5)
    metres[stay] += draw.uniform(-15, 15, stay_s // 5)
    if jump_at is not None:
        metres[120 + jump_at // 5] += 90
    return [
        {"time": n * 5 * SECOND, "lat": 47.0 + north / 111_195, "lon": 8.0, "odometer": n * 7.0, "shake": math.nan,
         "gait": math.nan, "indoors_s": 0.0, "outdoors_s": 0.0}
        for n, north in enumerate(metres.tolist())
    ]  # fmt: skip


def moved(given) -> list[dict]:
    machine = TransportMode()
    return [
        out | {"time": row["time"]} for row in given for out in machine.process("in", row) if out["mode"] != "still"
    ]


def test_a_trip_begins_when_the_place_was_left_and_not_when_that_was_noticed():
    rows = moved(walk_stay_walk(1_800))
    second = next(at for at in range(1, len(rows)) if rows[at]["time"] - rows[at - 1]["time"] >= 300 * SECOND)
    columns = {name: np.array([row[name] for row in rows[second:]]) for name in rows[0]}
    told = trip(columns | {"time": columns["time"].astype(np.int64)})
    left_us = (600 + 1_800) * SECOND
    assert rows[second]["time"] - left_us > 20 * SECOND, "it takes a while to see that somebody left"
    assert abs(told["began_us"] - left_us) <= 30 * SECOND
    assert told["ended_us"] == rows[-1]["time"]


@pytest.mark.covers("SO-46")
@pytest.mark.parametrize("jump_at", [None, 150])
def test_five_minutes_at_a_place_end_a_trip_however_fixes_wander(jump_at):
    rows = moved(walk_stay_walk(330, jump_at=jump_at))
    gaps = np.diff([row["time"] for row in rows])
    assert (gaps >= 300 * SECOND).sum() == 1
    after = rows[int(np.argmax(gaps)) + 1 :]
    assert sum(row["seconds"] for row in after) == pytest.approx(600, abs=40), "from where the place was left"


def test_a_shorter_stop_belongs_to_the_trip_with_its_metres_and_seconds():
    given = walk_stay_walk(200)
    rows = moved(given)
    assert np.diff([row["time"] for row in rows]).max() < 300 * SECOND
    lasted = (given[-1]["time"] - given[0]["time"]) / SECOND
    assert sum(row["seconds"] for row in rows) == pytest.approx(lasted, abs=40)
    assert sum(row["metres"] for row in rows) == pytest.approx(given[-1]["odometer"], abs=60)


def test_kilometres_over_a_gap_are_in_no_trip_and_the_next_one_says_them():
    """On foot, twenty minutes without a fix in which the phone came 4 km further, on foot."""
    given = walk_stay_walk(0)
    later = [
        row | {"time": row["time"] + 1_200 * SECOND, "lat": row["lat"] + 4_000 / 111_195} if at >= 120 else row
        for at, row in enumerate(given)
    ]
    machine, restored = TransportMode(), TransportMode()
    rows = []
    for row in later:
        restored.restore(machine.snapshot())  # what is not said yet is part of the state
        machine, restored = restored, TransportMode()
        rows += [
            out | {"time": row["time"]}
            for out in machine.process("in", row)
            if out["mode"] != "still" or out["unrecorded_m"]
        ]
    said = [row["unrecorded_m"] for row in rows if row["unrecorded_m"]]
    assert said == [pytest.approx(4_000, abs=20)]
    assert sum(row["metres"] for row in rows) == pytest.approx(1_680, abs=60)
    second = next(at for at in range(1, len(rows)) if rows[at]["time"] - rows[at - 1]["time"] >= 300 * SECOND)
    columns = {name: np.array([row[name] for row in rows[second:]]) for name in rows[0]}
    assert trip(columns | {"time": columns["time"].astype(np.int64)})["unrecorded_km"] == pytest.approx(4.0, abs=0.02)
    assert all(row["unrecorded_m"] == 0.0 for row in moved(walk_stay_walk(1_800)))


def test_legs_shorter_than_a_change_takes_join_their_longer_neighbour():
    modes = ["walk"] * 20 + ["ride"] * 3 + ["walk"] * 20
    assert smooth_modes(modes, [10.0] * 43) == ["walk"] * 43
    changed = ["ride"] * 20 + ["walk"] * 12 + ["ride"] * 20
    assert [leg[0] for leg in legs_of(smooth_modes(changed, [10.0] * 52), [10.0] * 52)] == ["ride", "walk", "ride"]
    assert smooth_modes([], []) == []
    assert tidy_modes([], np.empty(0, np.int64), np.empty(0), np.empty(0)) == []


def straight(speed: float, seconds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    time = np.arange(0, seconds, 5)
    return time * SECOND, 47.0 + time * speed / 111_195, np.full(len(time), 8.0)


def test_nobody_walks_at_fourteen_kilometres_an_hour():
    assert set(tidy_modes(["walk"] * 120, *straight(3.9, 600))) <= {"bike", "bus", "car", "train"}
    assert set(tidy_modes(["walk"] * 120, *straight(1.4, 600))) == {"walk"}


def test_a_ride_is_in_one_vehicle_whatever_its_fixes_were_told():
    ride = ["bus"] * 60 + ["car"] * 24 + ["bus"] * 36
    assert len(set(tidy_modes(ride, *straight(9.0, 600)))) == 1
    assert set(tidy_modes(["car"] * 120, *straight(1.9, 600))) <= {"walk", "bike"}, "no car keeps to a walker's pace"


@pytest.mark.covers("SO-46")
@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("still", "stroll", "walk", "car in a jam")])
def test_a_whole_ride_shows_its_vehicle(name):
    """Without a word from the fixes, and with journeys that nobody trained on."""
    mode = KINDS[name].mode
    rides = [measure_ride(made_up(mode, 8_000 + seed, every_s=5, name=name)) for seed in range(8)]
    assert sum(most_likely_modes([(scores(ride, {}), False)]) == [mode] for ride in rides) >= 5


def test_a_vehicle_goes_on_after_a_halt_and_may_change_after_a_walk():
    train, doubtful = {"train": 0.0, "car": -4.0}, {"train": -1.0, "car": 0.0}
    others = dict.fromkeys(("walk", "bike", "bus"), -9.0)
    train, doubtful = train | others, doubtful | others
    assert most_likely_modes([(train, False), (doubtful, True), (train, True)]) == ["train"] * 3
    assert most_likely_modes([(train, False), (doubtful, False), (train, False)]) == ["train", "car", "train"]
    assert most_likely_modes([]) == []


def test_what_fixes_are_too_far_apart_to_show_is_left_out():
    time, lat, lon = straight(20.0, 1800)
    typical, top, *others, bends, swings = measures(time[::6], lat[::6], lon[::6])
    assert (math.exp(typical), math.exp(top)) == pytest.approx((20.0, 20.0), rel=0.01)
    assert all(math.isnan(value) for value in others)
    assert (bends, swings) == pytest.approx((math.log(0.05), math.log(0.05)), abs=0.01), "straight, and steady"
    assert all(math.isnan(value) for value in measures(time[:2], lat[:2], lon[:2]))


def test_the_table_is_what_the_training_script_makes(outside_recordings):
    from tests.resurge.examples.trips.training import journeys_made_up

    labelled = read_labelled(outside_recordings / "geolife" / "modes")
    found = densities([*journeys_made_up(), *(("recorded", journey) for journey in labelled)])
    assert [list(map(tuple, row)) for row in model.DENSITIES] == found
    assert [(mode, share, list(row)) for mode, share, row in model.KINDS] == kinds()


def test_changes_are_probabilities():
    assert all(sum(shares.values()) == pytest.approx(1.0) for shares in CHANGE.values())
    assert sum(math.exp(value) for value in model.PRIOR) == pytest.approx(1.0)
    assert set(LABELS.values()) <= set(MODES)
