"""My trips, as Sonora's PEIR: one program for phones and Spark.

The phone tells indoors from outdoors, believes or drops fixes, keeps those that matter and tells how one moves; the
cloud makes trips, days and weeks of them, what they cost the air, what one was exposed to, and what may be said about
places where enough people were. Everything about a person goes back to that person's phone. `docs/trips.md` explains
it; `resurge example run trips` plays it.
"""

from __future__ import annotations

import math

import resurge as rs
from resurge import col, state
from resurge.examples.trips.days import TOTALS, TRIP_HOURS_MAX
from resurge.examples.trips.operators import CLOCKS, NEAR_CLOCKS  # and it registers what `apply` names below
from shared.stream.formulas import Formula
from shared.stream.stream import Sink, Stream

REST = 0.15  # m/s2: a phone that shakes less lies on a table
PLACE_PER_DEGREE = 100  # places are cells of a hundredth of a degree


def shaking() -> Stream:
    """How the phone shakes, every 1.6 s, by sliding Fourier transforms of its three axes."""
    windows = rs.sensor("accelerometer", every="100ms").hopping(count=64, every_count=16)
    axes = {axis: rs.dft(axis, 20) for axis in "xyz"} | {f"v{axis}": rs.variance(axis) for axis in "xyz"}
    return windows.aggregate(**axes).apply("shaking")


def sampled(shakes: Stream) -> Stream:
    """The GPS every 5 s; every minute while the phone rests; a quarter as often on a low battery (Fig. 2)."""
    battery = rs.sensor("battery", every="5m")
    rest = shakes.sliding("2m").aggregate(shake=rs.max("shake")).select(at_rest=col.shake < REST)
    ticks = rs.timer("5s").with_latest(rest, defaults={"at_rest": False})
    ticks = ticks.with_latest(battery, defaults={"level": 1.0, "charging": False})
    counted = ticks.state(
        {"n": 0, "at_rest": False, "low": False},
        n=state.n + 1, at_rest=col.at_rest, low=(col.level < 0.2) & ~col.charging,
    )  # fmt: skip
    awake = counted.where(~col.at_rest | (col.n % 12 == 0))
    return awake.where(~col.low | (col.n % 4 == 0)).read("gps")


def my_trips(*, recorded: bool = False, at_least: int = 5, zone: str = "UTC") -> list[Stream | Sink]:
    """The whole program; days are those of `zone`. Recordings were sampled when they were made, so they are played as
    they are."""
    shakes = shaking()
    gps = rs.sensor("gps", every="1s") if recorded else sampled(shakes)

    # --- on the phone -------------------------------------------------------------------------------------------------
    here = gps.apply("indoors").apply("track").significant("lat", "lon", metres=10)
    here = here.with_latest(shakes, defaults={"shake": math.nan, "gait": math.nan})
    here = here.apply("transport_mode")
    here = here.sync("fixes", batch=120, within="5m")  # the phone ends here; one line up, and the cloud tells modes

    # --- in the cloud: trips, the unit of the report, then days and weeks ---------------------------------------------
    moving = here.where((col.mode != "still") | (col.unrecorded_m > 0))
    trips = moving.session(gap="5m").apply("trip").where((col.trips > 0) | (col.unrecorded_km > 0))
    begun = trips.apply("trip_by_start").tumbling("1d", zone=zone, lateness=f"{TRIP_HOURS_MAX}h")
    days = begun.aggregate(trips=rs.sum("trips"), **{name: rs.sum(name) for name in TOTALS})
    weeks = days.apply("week")

    # --- exposure: how long one was indoors and outdoors, at places as on trips, and near schools and hospitals -------
    exposed = here.where((col.indoors_s > 0) | (col.outdoors_s > 0)).apply("exposure").tumbling("1d", zone=zone)
    exposure = exposed.aggregate(**{name: rs.sum(name) for name in (*CLOCKS, *NEAR_CLOCKS)})

    # --- places: nothing is said where fewer than `at_least` people were ----------------------------------------------
    places = here.select(
        y=rs.floor(col.lat * PLACE_PER_DEGREE).cast("int64"), x=rs.floor(col.lon * PLACE_PER_DEGREE).cast("int64"),
        metres=col.metres.cast("int64"),
    )  # fmt: skip
    visits = places.key_by("device", "y", "x").tumbling("1d").aggregate(metres=rs.sum("metres"))
    busy = visits.key_by("y", "x", idle_after="2d").tumbling("1d", lateness="7d")
    cells = busy.aggregate(people=rs.distinct("device"), metres=rs.sum("metres")).where(col.people >= at_least)
    mine = visits.extend(day=col.window_start).key_by("y", "x", "day", idle_after="2d")
    around = mine.apply("neighbours", at_least=at_least).key_by("device", "y", "x")
    # One answer for a person, a place and a day; whoever comes late corrects it.
    around = around.tumbling("1d", lateness="7d").aggregate(people=rs.max("people"), metres=rs.max("metres"))

    return [
        trips.sync_back("my_trips"),
        days.sync_back("my_days"),
        weeks.sync_back("my_weeks"),
        exposure.sync_back("my_exposure"),
        around.extend(**_middle()).sync_back("my_places"),
        cells.extend(**_middle()).subscribe("cells"),
    ]


def _middle() -> dict[str, Formula]:
    """Where a place is, for maps."""
    return {"lat": (col.y + 0.5) / PLACE_PER_DEGREE, "lon": (col.x + 0.5) / PLACE_PER_DEGREE}


my_trips()
