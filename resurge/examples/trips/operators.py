"""The application's own operator types, registered by name. Nodes, gateway and executors import this module
(`resurge.toml`: modules = ["resurge.examples.trips.operators"]); plans only name what is in it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import resurge as rs
from resurge.examples.trips.days import TOTALS, TripByStart, Week
from resurge.examples.trips.fixes import SECOND, Track
from resurge.examples.trips.impact import (
    CO2E_G_PER_PASSENGER_KM,
    MOVING,
    PM10_MG_PER_VEHICLE_KM,
    PM25_MG_PER_VEHICLE_KM,
    per_vehicle_mg,
    traffic,
)
from resurge.examples.trips.indoors import Doors
from resurge.examples.trips.legs import tidy_modes
from resurge.examples.trips.modes import TransportMode
from resurge.examples.trips.neighbours import Neighbours
from resurge.examples.trips.sensitive_sites import near

Columns = Mapping[str, np.ndarray]

PLACE = {"lat": "float64", "lon": "float64"}
SHAKING = {"shake": "float64", "gait": "float64"}
CLOCKS = {"indoors_s": "float64", "outdoors_s": "float64"}
MOVED = {**PLACE, "mode": "str", "metres": "float64", "seconds": "float64", "unrecorded_m": "float64"}
NEAR_CLOCKS = {f"near_sites_{name}": "float64" for name in CLOCKS}
TRIP_KM_MIN = 0.2  # less is a receiver that wanders, or a way to the letter box
UNRECORDED = "unrecorded"  # the mode of what is no trip
ROWS = 64  # of a window: 6.4 s
BINS = 20  # up to 3 Hz
SLOW_BINS = 6  # below 0.8 Hz
GAIT = (8, 18)  # 1.25 to 2.8 Hz, how often feet meet the ground
AXES = ("x", "y", "z")

indoors = rs.operator(
    "indoors", takes={**PLACE, "accuracy": "float64"}, gives={**PLACE, "accuracy": "float64", **CLOCKS}
)(Doors)

track = rs.operator(
    "track",
    takes={**PLACE, "accuracy": "float64", **CLOCKS},
    gives={**PLACE, "odometer": "float64", **CLOCKS},
    version=3,
)(Track)

transport_mode = rs.operator(
    "transport_mode",
    takes={**PLACE, "odometer": "float64", **CLOCKS, **SHAKING},
    gives=MOVED | CLOCKS,
    version=4,
)(TransportMode)

neighbours = rs.operator(
    "neighbours",
    takes={"device": "str", "metres": "int64", "window_start": "int64", "window_end": "int64"},
    gives={"device": "str", "people": "int64", "metres": "int64", "window_start": "int64", "window_end": "int64"},
)(Neighbours)

DAY = {**dict.fromkeys(TOTALS, "float64"), "window_start": "int64", "window_end": "int64"}
trip_by_start = rs.operator(
    "trip_by_start",
    takes={**dict.fromkeys(TOTALS, "float64"), "trips": "int64", "began_us": "int64", "window_end": "int64"},
    gives={**dict.fromkeys(TOTALS, "float64"), "trips": "int64"},
    version=2,
)(TripByStart)
week = rs.operator("week", takes={**DAY, "trips": "int64"}, gives={**DAY, "trips": "int64", "days": "int64"})(Week)


@rs.operator(
    "shaking",
    takes={**{f"{axis}_{bin}": "float64" for axis in AXES for bin in range(BINS)},
           **{f"v{axis}": "float64" for axis in AXES}},
    gives=SHAKING,
)  # fmt: skip
def shaking(columns: Columns) -> dict[str, np.ndarray]:
    """How strongly the phone shakes, in m/s2, and which share of it is at the pace of feet. However it lies in the
    pocket: powers of the three axes are added. Gravity is in none of them, and what changes slower than 0.8 Hz is
    taken out: a hand that turns the phone is no shaking."""
    power = [2 / ROWS**2 * sum(columns[f"{axis}_{bin}"] ** 2 for axis in AXES) for bin in range(BINS)]
    shaken = np.maximum(0.0, sum(columns[f"v{axis}"] for axis in AXES) - sum(power[1:SLOW_BINS]))
    with np.errstate(divide="ignore", invalid="ignore"):
        gait = np.where(shaken > 0, np.minimum(1.0, sum(power[GAIT[0] : GAIT[1] + 1]) / shaken), 0.0)
    return {"shake": np.round(np.sqrt(shaken), 3), "gait": np.round(gait, 3)}


@rs.operator(
    "trip",
    takes=MOVED,
    gives={
        "mode": "str", "began_us": "int64", "ended_us": "int64",
        **PLACE, "from_lat": "float64", "from_lon": "float64", "km": "float64", "minutes": "float64",
        **{f"km_{mode}": "float64" for mode in MOVING}, "co2e_g": "float64", "vehicle_pm25_mg": "float64",
        "vehicle_pm10_mg": "float64", "near_sites_s": "float64", "near_sites_pm25_mg": "float64", "points": "int64",
        "unrecorded_km": "float64", "trips": "int64",
    },
    over="window",
    version=4,
)  # fmt: skip
def trip(columns: Columns) -> dict[str, object]:
    """One trip from its fixes: how far, how, what it cost, how much of that near schools and hospitals.

    Less than TRIP_KM_MIN is none: 0 `trips`, and a row only for the kilometres before it that were not recorded."""
    unrecorded_km = round(float(np.add.reduce(columns["unrecorded_m"])) / 1000.0, 2)
    if np.add.reduce(columns["metres"]) < 1000.0 * TRIP_KM_MIN:
        return _unrecorded(columns, unrecorded_km)
    moving = columns["mode"] != "still"
    columns = {name: column[moving] for name, column in columns.items()}
    modes = np.array(tidy_modes(columns["mode"].tolist(), columns["time"], columns["lat"], columns["lon"]))
    km = columns["metres"] / 1000.0
    by_mode = {mode: float(np.add.reduce(km[modes == mode])) for mode in MOVING}
    near_site = near(columns["lat"], columns["lon"])
    kinds = traffic(modes.tolist(), km, columns["seconds"])
    pm25, pm10 = (
        per_vehicle_mg(factors, modes.tolist(), km, kinds)
        for factors in (PM25_MG_PER_VEHICLE_KM, PM10_MG_PER_VEHICLE_KM)
    )

    return {
        "mode": max(MOVING, key=lambda mode: by_mode[mode]),
        # The first row comes when it is clear that one has left; its seconds reach back to when that was.
        "began_us": int(columns["time"][0]) - round(float(columns["seconds"][0]) * SECOND),
        "ended_us": int(columns["time"][-1]),
        "lat": float(columns["lat"][-1]), "lon": float(columns["lon"][-1]),
        "from_lat": float(columns["lat"][0]), "from_lon": float(columns["lon"][0]),
        "km": round(float(np.add.reduce(km)), 4),
        "minutes": round(float(np.add.reduce(columns["seconds"])) / 60.0, 2),
        **{f"km_{mode}": round(by_mode[mode], 4) for mode in MOVING},
        "co2e_g": round(sum(by_mode[mode] * CO2E_G_PER_PASSENGER_KM[mode] for mode in MOVING), 3),
        "vehicle_pm25_mg": round(float(np.add.reduce(pm25)), 3),
        "vehicle_pm10_mg": round(float(np.add.reduce(pm10)), 3),
        "near_sites_s": round(float(np.add.reduce(np.where(near_site, columns["seconds"], 0.0))), 1),
        "near_sites_pm25_mg": round(float(np.add.reduce(np.where(near_site, pm25, 0.0))), 3),
        "points": len(km),
        "unrecorded_km": unrecorded_km,
        "trips": 1,
    }  # fmt: skip


def _unrecorded(columns: Columns, km: float) -> dict[str, object]:
    """No trip: only where one was when recording went on, and how far that is from where it had stopped."""
    time_us, lat, lon = int(columns["time"][0]), float(columns["lat"][0]), float(columns["lon"][0])
    nothing = ("km", "minutes", *(f"km_{mode}" for mode in MOVING), "co2e_g", "vehicle_pm25_mg", "vehicle_pm10_mg",
               "near_sites_s", "near_sites_pm25_mg")  # fmt: skip
    return {
        "mode": UNRECORDED, "began_us": time_us, "ended_us": time_us, "lat": lat, "lon": lon, "from_lat": lat,
        "from_lon": lon, **dict.fromkeys(nothing, 0.0), "points": 0, "unrecorded_km": km, "trips": 0,
    }  # fmt: skip


@rs.operator("exposure", takes={**PLACE, **CLOCKS}, gives=CLOCKS | NEAR_CLOCKS)
def exposure(columns: Columns) -> dict[str, np.ndarray]:
    """How long one was indoors and outdoors, and how much of each near schools and hospitals."""
    near_site = near(columns["lat"], columns["lon"])
    clocks = {name: columns[name] for name in CLOCKS}
    return clocks | {f"near_sites_{name}": np.where(near_site, seconds, 0.0) for name, seconds in clocks.items()}
