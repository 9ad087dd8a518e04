"""What is said about places and from how many people on; what a kilometre costs; which sites are near."""

from __future__ import annotations

import csv
import itertools

import numpy as np
import pytest

from resurge.examples.trips import impact
from resurge.examples.trips.neighbours import Neighbours, public_count
from resurge.examples.trips.sensitive_sites import NEAR_M, _site, near


def visit(device: str, metres: int = 10) -> dict:
    return {"device": device, "metres": metres, "window_start": 0, "window_end": 86_400, "time": 0}


def last_said(order) -> dict[str, int]:
    machine = Neighbours(at_least=3)
    return {row["device"]: row["people"] for name in order for row in machine.process("in", visit(name))}


@pytest.mark.covers("SO-46")
def test_nothing_is_said_below_k_people():
    assert last_said("ab") == {}
    assert last_said("abc") == {"a": 3, "b": 3, "c": 3}


def test_what_each_is_told_does_not_depend_on_who_came_back_first():
    answers = {tuple(sorted(last_said(order).items())) for order in itertools.permutations("abcdef")}
    assert answers == {tuple((name, 6) for name in "abcdef")}


def test_a_visit_that_is_told_again_counts_once():
    assert last_said("abab") == {}


def test_steps_grow_so_that_a_crowd_is_told_a_few_times():
    assert [public_count(people, 5) for people in (4, 5, 9, 10, 19, 20, 49, 50, 99, 100, 500)] == [
        0, 5, 5, 10, 10, 20, 20, 50, 50, 100, 500,
    ]  # fmt: skip
    machine = Neighbours(at_least=5)
    said = sum(1 for n in range(1000) for _ in machine.process("in", visit(f"{n:04}")))
    assert said < 4_000


def test_a_restored_place_remembers_who_was_there():
    first = Neighbours(at_least=2)
    list(first.process("in", visit("a")))
    second = Neighbours(at_least=2)
    second.restore(first.snapshot())
    assert [row["device"] for row in second.process("in", visit("b"))] == ["a", "b"]


def test_a_site_is_near_itself_and_not_a_kilometre_on():
    lat, lon = _site(np.array([4737]), np.array([854]))
    assert near(lat, lon).all()
    offsets = np.linspace(0, 2 * NEAR_M, 41) / 111_320.0
    found = near(lat + offsets, np.repeat(lon, 41))
    assert found[:20].all()
    rng = np.random.default_rng(1)
    share = near(47 + rng.random(20_000) * 0.5, 8 + rng.random(20_000) * 0.5).mean()
    assert 0.05 < share < 0.15, "a disc of 150 m in every cell of about 0.85 square kilometres"


def test_factors_are_the_published_ones(outside_recordings):
    factors = outside_recordings / "emission_factors"
    with (factors / "co2calculator_transport.csv").open() as text:
        per_passenger = {row["name"] + row["size"] + row["fuel_type"]: row for row in csv.DictReader(text)}
    assert all(row["unit"] == "P.km" for row in per_passenger.values())
    published = {
        "car": "Personenkraftwagenaverageaverage", "bus": "Stadtbus (13m)averagediesel", "bike": "Fahrrad",
        "train": "Bahn Deutschland",
    }  # fmt: skip
    for mode, name in published.items():
        assert impact.CO2E_G_PER_PASSENGER_KM[mode] == pytest.approx(1000 * float(per_passenger[name]["co2e"]))
    with (factors / "dutch_nonmotorway_gkm.csv").open() as text:
        per_vehicle = {
            (row["pollutant"], row["vehicle_class"], row["road_situation"]): float(row["g_per_km"])
            for row in csv.DictReader(text)
            if row["year"] == "2016"
        }
    for pollutant, ours in (("PM2.5", impact.PM25_MG_PER_VEHICLE_KM), ("PM10", impact.PM10_MG_PER_VEHICLE_KM)):
        for mode, vehicle in (("car", "light"), ("bus", "bus")):
            theirs = [1000 * per_vehicle[pollutant, vehicle, kind] for kind in impact.TRAFFIC]
            assert ours[mode] == pytest.approx(theirs)


def ride(*parts: tuple[str, float, float], every_s: float = 10.0) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Modes, kilometres and seconds of rows that go so many kilometres at so many kilometres an hour."""
    modes = [mode for mode, km, kmh in parts for _ in range(round(km / kmh * 3600 / every_s))]
    km = [kmh * every_s / 3600 for _, km, kmh in parts for _ in range(round(km / kmh * 3600 / every_s))]
    return modes, np.array(km), np.full(len(modes), every_s)


@pytest.mark.covers("SO-46")
@pytest.mark.parametrize("every_s", [5.0, 30.0])
def test_particulates_are_those_of_the_speed_at_which_one_went(every_s):
    modes, km, seconds = ride(("car", 3, 10), ("car", 3, 25), ("car", 3, 40), ("car", 9, 80), every_s=every_s)
    kinds = impact.traffic(modes, km, seconds)
    found = impact.per_vehicle_mg(impact.PM25_MG_PER_VEHICLE_KM, modes, km, kinds).sum()
    wanted = sum(km * mg for km, mg in zip((3, 3, 3, 9), impact.PM25_MG_PER_VEHICLE_KM["car"], strict=True))
    assert found == pytest.approx(wanted, rel=0.05), "a kilometre in which the speed changes is of one kind"


def test_speed_is_taken_over_a_kilometre_of_one_mode_with_its_halts():
    modes, km, seconds = ride(("bus", 1.5, 30), ("walk", 0.3, 5), ("bus", 0.4, 60))
    seconds[3] += 240  # a halt of four minutes in the first kilometre and a half: 12.9 km/h
    kinds = impact.traffic(modes, km, seconds)
    assert [impact.TRAFFIC[kinds[at]] for at in (0, 17, -1)] == ["city_congested", "city_congested", "rural"]
    nothing = impact.per_vehicle_mg(impact.PM10_MG_PER_VEHICLE_KM, ["walk", "train"], np.ones(2), np.zeros(2, np.int64))
    assert nothing.tolist() == [0.0, 0.0]
