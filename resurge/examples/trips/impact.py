"""What a kilometre costs the air, from published factors. Two kinds, never added to each other:

* CO2e per *passenger*-kilometre: the rider's own share. Public transport is divided by its usual occupancy, a car
  carries one person. Source: mobitool-Faktoren v3.0 (2023), as tabulated by pledge4future/co2calculator (commit
  ffb7d4d2, emission_factors_transport.csv): car average 0.1864, city bus 13 m diesel 0.1338, train Germany 0.0408,
  bicycle 0.0056 kg per passenger-km; whole life cycle, vehicle and way included.
* Particulates per *vehicle*-kilometre: what the vehicle one sits in puts into the street, however many sit in it, at
  the speed at which it went, as in EMFAC. Source: Dutch government emission factors for non-motorways, release of 2016,
  year 2016 (as tabulated by EddyTheB/EmissionFactors), for light vehicles and buses; combustion and wear. They are
  given for four kinds of traffic, which InfoMil (handbook of the NSL-Rekentool, "Stagnatiefactor") tells apart by mean
  speed, halts included: under 15 km/h, 15 to 30, 30 to 45, and open road, about 60. What is faster counts as open road:
  motorways are in another table. There is no figure for trains, and there is none here.

Walking counts as nothing, since nobody publishes what a walker would have eaten otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

CO2E_G_PER_PASSENGER_KM = {"walk": 0.0, "bike": 5.6, "bus": 133.8, "car": 186.4, "train": 40.8}
MOVING = tuple(CO2E_G_PER_PASSENGER_KM)
TRAFFIC = ("city_congested", "city_normal", "city_freeflow", "rural")
KMH_BELOW = (15.0, 30.0, 45.0)  # of all but the last
PM25_MG_PER_VEHICLE_KM = {"bus": (257.26, 143.354, 92.498, 102.654), "car": (19.25, 16.212, 16.374, 8.732)}
PM10_MG_PER_VEHICLE_KM = {"bus": (334.72, 220.814, 169.958, 145.014), "car": (40.526, 37.488, 37.65, 19.686)}
STRETCH_KM = 1.0  # over which a mean speed is taken: the kinds of traffic are told by halts per kilometre


def traffic(modes: Sequence[str], km: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """The kind of traffic each row of a trip was in, as a place in TRAFFIC: by the mean speed over a kilometre of one
    mode or what there is of it. What is left of less than that belongs to the kilometre before it."""
    kinds = np.zeros(len(modes), np.int64)
    for start, end in _stretches(modes, km.tolist()):
        hours = float(np.add.reduce(seconds[start:end])) / 3600.0
        kmh = float(np.add.reduce(km[start:end])) / hours if hours else 0.0
        kinds[start:end] = np.searchsorted(KMH_BELOW, kmh, side="right")
    return kinds


def _stretches(modes: Sequence[str], km: Sequence[float]) -> list[tuple[int, int]]:
    stretches: list[tuple[int, int]] = []
    whole = 0.0
    for row, mode in enumerate(modes):
        changed = bool(row) and mode != modes[row - 1]
        if not row or changed or whole >= STRETCH_KM:
            if changed:
                _join_rest(stretches, modes, whole)
            stretches.append((row, row))
            whole = 0.0
        stretches[-1] = (stretches[-1][0], row + 1)
        whole += km[row]
    _join_rest(stretches, modes, whole)
    return stretches


def _join_rest(stretches: list[tuple[int, int]], modes: Sequence[str], km: float) -> None:
    """The last stretch becomes part of the one before, if that is of the same mode and this one is short."""
    if km < STRETCH_KM and len(stretches) > 1 and modes[stretches[-2][0]] == modes[stretches[-1][0]]:
        _, end = stretches.pop()
        stretches[-1] = (stretches[-1][0], end)


def per_vehicle_mg(
    factors: Mapping[str, tuple[float, ...]], modes: Sequence[str], km: np.ndarray, kinds: np.ndarray
) -> np.ndarray:
    """What each row of a trip put into the street; nothing of modes that have no factor."""
    nothing = (0.0,) * len(TRAFFIC)
    mg_per_km = [factors.get(mode, nothing)[kind] for mode, kind in zip(modes, kinds.tolist(), strict=True)]
    return km * np.array(mg_per_km, dtype=np.float64)
