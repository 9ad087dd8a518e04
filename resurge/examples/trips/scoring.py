"""How well modes are told: each recorded trajectory scored by a model that has not seen it.

python -m resurge.examples.trips.scoring GEOLIFE/modes
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from resurge.examples.trips import model
from resurge.examples.trips.legs import smoothed
from resurge.examples.trips.modes import GAP_S, MODES, SECOND, Believer
from resurge.examples.trips.training import Journey, Seen, densities, journeys_made_up, made_up, recorded, seen

Confusion = dict[tuple[str, str], float]  # (true, told) -> seconds


def told(journey: Journey, table: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[str, str, float]]:
    """(true, told, seconds) of each kept fix of a journey, legs smoothed as a trip's are."""
    model.DENSITIES = table  # type: ignore[assignment]
    rows = list(seen(journey))
    scores: list[tuple[str, str, float]] = []
    for trip in _trips(rows):
        believer, found = Believer(), []
        for row in trip:
            believer.observe(row.features, row.seconds)
            found.append(MODES[max(range(len(MODES)), key=believer.belief.__getitem__)])
        final = smoothed(found, [row.seconds for row in trip])
        scores += [(row.mode, mode, row.seconds) for row, mode in zip(trip, final, strict=True) if row.mode]
    return scores


def _trips(rows: Sequence[Seen]) -> list[list[Seen]]:
    trips: list[list[Seen]] = []
    for row in rows:
        if not trips or row.time_us - trips[-1][-1].time_us >= GAP_S * SECOND:
            trips.append([])
        trips[-1].append(row)
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


def main() -> None:
    kept = model.DENSITIES
    fresh = [made_up(mode, 1000 + seed) for mode in MODES for seed in range(30)]
    table = confusion(score for journey in fresh for score in told(journey, kept))
    _say(f"made up, other seeds: {100 * share_right(table):.1f} % of the time right\n{text(table)}")
    if len(sys.argv) < 2:
        return
    journeys = recorded(Path(sys.argv[1]))
    base = journeys_made_up()
    scores = []
    for left_out in journeys:
        others = [("recorded", journey) for journey in journeys if journey.name != left_out.name]
        mine = told(left_out, densities([*base, *others]))
        _say(
            f"{left_out.name}: {100 * share_right(confusion(mine)):.0f} % of {sum(s for _, _, s in mine) / 60:.0f} min"
        )
        scores += mine
    table = confusion(scores)
    _say(f"recorded, left out in turn: {100 * share_right(table):.1f} % of the time right\n{text(table)}")
    alone = densities(base)
    table = confusion(score for journey in journeys for score in told(journey, alone))
    _say(f"recorded, made-up training alone: {100 * share_right(table):.1f} %\n{text(table)}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
