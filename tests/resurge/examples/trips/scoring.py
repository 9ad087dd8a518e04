"""How well it does: modes (each recorded person by a model that has not seen them), trips' ends, distances.

python -m tests.resurge.examples.trips.scoring GEOLIFE/modes
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cloud_backend.results.rows import ResultRow
from mobile_app.sensors.itinerary import Itinerary
from resurge.examples.trips.fixes import Track
from resurge.examples.trips.journeys import Journey, made_up
from resurge.examples.trips.legs import tidy_modes
from resurge.examples.trips.modes import GAP_S, MODES, SECOND, Densities, TransportMode
from resurge.examples.trips.people import Person, made_up_people, read_people
from resurge.examples.trips.report import failure_free, trips_plan
from resurge.examples.trips.rides import Kinds
from tests.resurge.examples.trips.training import densities, journeys_made_up, kept_fixes, read_labelled

Confusion = dict[tuple[str, str], float]  # (true, told) -> seconds
Fix = tuple[int, dict[str, Any]]  # its number in the journey, and the row that was told of it


def classify(
    journey: Journey, table: Densities | None = None, rides: Kinds | None = None
) -> list[tuple[str, str, float]]:
    """(true, told, seconds) of each kept fix of a journey, as the report tells it: a stop within a trip is part of it,
    and what is in no trip is still."""
    machine = TransportMode(table)
    fixes: list[Fix] = [
        (index, row | {"time": fix["time"]}) for index, fix in kept_fixes(journey) for row in machine.process("in", fix)
    ]
    found = ["still"] * len(fixes)
    for trip in _trips([place for place, (_, row) in enumerate(fixes) if row["mode"] != "still"], fixes):
        time, lat, lon = (np.array([fixes[place][1][name] for place in trip]) for name in ("time", "lat", "lon"))
        final = tidy_modes([fixes[place][1]["mode"] for place in trip], time, lat, lon, kinds=rides)
        reached = trip[0]
        left = fixes[reached][1]["time"] - fixes[reached][1]["seconds"] * SECOND  # its first row tells since then
        while reached and fixes[reached - 1][1]["time"] > left:
            reached -= 1
        for place, mode in zip(trip, final, strict=True):
            found[reached : place + 1] = [mode] * (place + 1 - reached)
            reached = place + 1
    return [
        (true, found[place], seconds)
        for place, (index, _) in enumerate(fixes)
        if place and (true := journey.mode[index])
        and (seconds := (fixes[place][1]["time"] - fixes[place - 1][1]["time"]) / SECOND) < GAP_S
    ]  # fmt: skip


def _trips(moving: Sequence[int], fixes: Sequence[Fix]) -> list[list[int]]:
    trips: list[list[int]] = []
    for place in moving:
        if not trips or fixes[place][1]["time"] - fixes[trips[-1][-1]][1]["time"] >= GAP_S * SECOND:
            trips.append([])
        trips[-1].append(place)
    return trips


def confusion(scores: Iterable[tuple[str, str, float]]) -> Confusion:
    table: Confusion = {}
    for true, mode, seconds in scores:
        table[true, mode] = table.get((true, mode), 0.0) + seconds
    return table


def share_right(table: Confusion) -> float:
    return sum(seconds for (true, mode), seconds in table.items() if true == mode) / sum(table.values())


def text(table: Confusion) -> str:
    """A Markdown table: rows are what was true, in per cent of its time."""
    lines = ["| true \\ told | " + " | ".join(MODES) + " | minutes |", "|---|" + "--:|" * (len(MODES) + 1)]
    for true in MODES:
        whole = sum(seconds for (one, _), seconds in table.items() if one == true)
        if whole:
            shares = [f"{100 * table.get((true, mode), 0.0) / whole:.0f}" for mode in MODES]
            lines.append(f"| {true} | " + " | ".join(shares) + f" | {whole / 60:.0f} |")
    return "\n".join(lines)


# --- trips ------------------------------------------------------------------------------------------------------------


def distance_errors(trips: Iterable[ResultRow], people: Iterable[Person]) -> list[float]:
    """How far each trip's distance is from the raw trace's: every fix of the recording between its first and last
    moment, only those out left that the outlier rule leaves out. Shares of the raw distance."""
    gps = {person.name: person.sensors["gps"] for person in people}
    errors = []
    for row in trips:
        raw = _raw_km(gps[row.device], row)
        errors.append(abs(float(row.values["km"]) - raw) / raw)
    return errors


def _raw_km(gps: Mapping[str, np.ndarray], row: ResultRow) -> float:
    end = row.window_end_us - round(GAP_S * SECOND)
    start = end - round(float(row.values["minutes"]) * 60 * SECOND) - SECOND // 2
    track, odometer = Track(), 0.0
    for place in range(*np.searchsorted(gps["time"], (start, end + 1)).tolist()):
        fix = {"time": int(gps["time"][place]), "lat": float(gps["lat"][place]), "lon": float(gps["lon"][place])}
        for _ in track.process(
            "in", fix | {"accuracy": float(gps["accuracy"][place]), "indoors_s": 0, "outdoors_s": 0}
        ):
            pass
        odometer = track.odometer
    return odometer / 1000


def boundaries(count: int, hours: float) -> dict[str, float]:
    """Made-up people, whose trips are known: how many are found, how far off their ends are, how many modes right."""
    people = made_up_people(count, hours)
    rows = [
        row for row in failure_free(trips_plan(recorded=True), people) if row.sink == "my_trips" and row.values["trips"]
    ]
    legs = found = right = 0
    off: list[float] = []
    for number, person in enumerate(people):
        told_trips = [
            ((row.window_start_us - person.start_us) / SECOND,
             (row.window_end_us - person.start_us) / SECOND - GAP_S, str(row.values["mode"]))
            for row in rows if row.device == person.name
        ]  # fmt: skip
        for start, end, mode in trips_of(101 + number, hours):
            legs += 1
            hits = [trip for trip in told_trips if min(trip[1], end) - max(trip[0], start) > 0.5 * (end - start)]
            alone = [trip for trip in hits if trip[1] - trip[0] < 1.5 * (end - start)]
            if alone:
                found += 1
                off += [abs(alone[0][0] - start), abs(alone[0][1] - end)]
                right += alone[0][2] == mode
    return {
        "trips": legs, "told": len(rows), "found": found, "mode_right": right,
        "ends_off_s_median": float(np.median(off)), "ends_off_s_90": float(np.quantile(off, 0.9)),
    }  # fmt: skip


def trips_of(seed: int, hours: float) -> list[tuple[float, float, str]]:
    """Start, end and mode of the trips that a made-up person makes within so many hours."""
    itinerary, second = Itinerary(seed), 0.0
    trips = []
    while second < hours * 3_600:
        leg = itinerary.leg_at(second + 0.5)
        if leg.mode != "still" and leg.end_s <= hours * 3_600:
            trips.append((float(leg.start_s), float(leg.end_s), leg.mode))
        second = leg.end_s
    return trips


def main() -> None:
    fresh = [made_up(mode, 1000 + seed) for mode in MODES for seed in range(30)]
    right = confusion(score for journey in fresh for score in classify(journey))
    _say(f"made up, other seeds: {100 * share_right(right):.1f} % of the time right\n{text(right)}")
    _say(f"made-up people's trips: {boundaries(6, 6.0)}")
    if len(sys.argv) < 2:
        return
    journeys = read_labelled(Path(sys.argv[1]))
    base = journeys_made_up()
    for what, group in (("trajectory", lambda name: name), ("person", lambda name: name.partition("/")[0])):
        scores = []
        for held in sorted({group(journey.name) for journey in journeys}):
            others = [("recorded", journey) for journey in journeys if group(journey.name) != held]
            table = densities([*base, *others])
            mine = [score for journey in journeys if group(journey.name) == held for score in classify(journey, table)]
            _say(f"{held}: {100 * share_right(confusion(mine)):.0f} % of {sum(s for *_, s in mine) / 60:.0f} min")
            scores += mine
        right = confusion(scores)
        _say(
            f"recorded, one {what} left out in turn: {100 * share_right(right):.1f} % of the time right\n{text(right)}"
        )
    people = read_people(Path(sys.argv[1]).parent)
    rows = [
        row for row in failure_free(trips_plan(recorded=True), people) if row.sink == "my_trips" and row.values["trips"]
    ]
    errors = distance_errors(rows, people)
    _say(f"distance of {len(errors)} trips off the raw trace's: at most {100 * max(errors):.2f} %")
    alone = densities(base)
    right = confusion(score for journey in journeys for score in classify(journey, alone))
    _say(f"recorded, made-up training alone: {100 * share_right(right):.1f} %\n{text(right)}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
