"""MobiStreams, Fig 9: what it costs when n phones of a region fail or walk away at once.

One region of eight phones, the bus program, production hosts and coordinator in virtual time (`_virtual_regions`). n
phones that run vertices stop, or walk out of the region. The pause is the longest time between two results, with what
noticing takes; recovery is from the coordinator's decision until the next result. Snapshots are broadcast where that
costs less than sending them. Computing takes no time here: catching up costs what waiting costs, and no processor time.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from resurge.lab._figure import draw, report, shape
from resurge.lab._virtual_fleet import SINK
from resurge.lab._virtual_regions import VirtualRegions
from shared.hosting.fleet_events import Recovered
from shared.hosting.fleet_node import FleetNode

PHONES, THRESHOLD, ROWS = 8, 2, 50
CUT_S = 20.0
FLAT = 0.05  # of the pause, for each phone more
START_S = 35.0
QUICK = {"counts": (0, 1, 3), "rows": 40}


@dataclass(frozen=True, slots=True)
class Measured:
    pause_s: float
    decided_s: float  # after the phones had stopped; of departures 0
    rows: int
    lost: int
    digest: str
    datagrams: int


def measure(kind: str, count: int, rows: int = ROWS) -> Measured:
    """So many phones fail, or walk away, at once."""
    world = VirtualRegions("bus_capacity", 1, PHONES, THRESHOLD, cut_s=CUT_S)
    end = world.feed_rows(rows, start=START_S)
    begins = START_S + rows / 2
    world.advance(begins)
    decided: list[float] = []
    machine = world.nodes[SINK].machine
    _listen(machine, decided, world)
    chosen = world.hosting(0)[:count]
    if len(chosen) < count:
        raise RuntimeError(f"{len(chosen)} phones run vertices, {count} should go")
    if kind == "fails":
        world.stop(chosen)
    else:
        world.walk_away(chosen)
    world.advance(end + 60.0)
    times = [took.at for took in world.took if begins - 5.0 < took.at <= end + 60.0]
    found, lost, digest = world.results(0)
    pause_s = max(later - earlier for earlier, later in itertools.pairwise(times))
    return Measured(pause_s, min(decided, default=begins) - begins, found, lost, digest, world.datagrams)


def _listen(machine: FleetNode, decided: list[float], world: VirtualRegions) -> None:
    events = machine.events

    def heard() -> list[object]:
        found = events()
        decided.extend(world.now for event in found if isinstance(event, Recovered) and event.moves)
        return found

    machine.events = heard  # type: ignore[method-assign]


def run(counts: Sequence[int] = (0, 1, 2, 3, 4, 5, 6), rows: int = ROWS) -> dict[str, Any]:
    fails = {count: measure("fails", count, rows) for count in counts}
    leaves = {count: measure("leaves", count, rows) for count in counts if count <= 3}
    ideal = fails[0]
    some = [count for count in counts if count]
    pauses = {count: round(fails[count].pause_s, 2) for count in some}
    recoveries = {count: round(fails[count].pause_s - fails[count].decided_s, 2) for count in some}
    slope = (pauses[some[-1]] - pauses[some[0]]) / pauses[some[0]] / max(1, some[-1] - some[0])
    departures = {count: round(each.pause_s, 2) for count, each in leaves.items() if count}
    every = [*fails.values(), *leaves.values()]
    shapes = [
        shape("a failure of more phones takes no longer: share of the pause for each more", "a horizontal line",
              round(slope, 4), abs(slope) < FLAT),
        shape("datagrams with snapshots in the run with the fewest", "broadcast", min(each.datagrams for each in every),
              all(each.datagrams for each in every)),
        shape("seconds without results after a departure, less than after a failure", "less in most cases",
              departures, all(departures[count] < pauses[count] for count in departures if count in pauses)),
        shape("seconds from the decision until results go on, within a period of cuts", "at most a period",
              recoveries, all(each <= CUT_S for each in recoveries.values())),
        shape("rows that were lost, and runs whose rows differ from those of one where nobody fails", [0, 0],
              [sum(each.lost for each in every), sum(each.digest != ideal.digest for each in every)],
              not any(each.lost or each.digest != ideal.digest for each in every)),
    ]  # fmt: skip
    lines = {
        "fails": [(float(count), each.pause_s) for count, each in fails.items()],
        "leaves": [(float(count), each.pause_s) for count, each in leaves.items()],
    }
    drawn = draw("regions-failures", "The longest pause when phones go at once", "phones of 8", "seconds", lines)
    return report(
        "regions-failures", "MobiStreams Fig 9", shapes, pause_s=pauses, recovery_s=recoveries, departures_s=departures,
        of_phones=f"at most {some[-1]} of {PHONES}", rows=ideal.rows, phones=PHONES, period_s=CUT_S, drawn=drawn,
        setting="virtual time: bytes, decisions and waiting are the product's; computing takes no time",
    )  # fmt: skip
