"""MobiStreams, Figs 8 and 10: what fault tolerance costs a region of eight phones while nobody fails.

Every strategy runs both programs on production hosts, on the same phones (`_placed_regions`). How fast Wi-Fi, 3G and
processors are is *modelled* after the paper (`_phones`, `_medium`); which bytes go when is the product's. Throughput is
pictures answered in a second once it is steady, latency the time from a picture to its answer. The paper's Wi-Fi had 1
to 5 Mbps; where several rates are asked for, throughput and latency are averages over them.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from resurge.lab._figure import draw, report, shape
from resurge.lab._medium import Rates
from resurge.lab._phones import LATENCY_S, TUPLES_S, Model, pass_ms
from resurge.lab._placed_regions import BEGINS_S, EVERY, PHONES, PlacedRegions
from shared.hosting.copies import PREFIX
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home, Include

PROGRAMS = ("bus_capacity", "traffic_signal")
WIFI_MBPS = (3.0,)  # the middle of what the paper measured
FROM_S, UNTIL_S = 60.0, 160.0
QUICK: dict[str, Any] = {"programs": ("traffic_signal",), "from_s": 40.0, "until_s": 100.0, "period_s": 80.0}
PERIOD_S = 150.0  # between two cuts; the paper's 300 s take twice as long to run
GAIN, LATENCY_LESS = 3.3, 0.4  # the paper's averages over rep-2 and dist-n: 230 % more, 40 % less
EQUAL = 0.02  # of base: less apart than the last picture of a run
FOUR = 4


def _names() -> tuple[str, str, str, str, list[str], str]:
    """Base, local, the paper's strategy, ours, those with n copies of snapshots, and the one with live copies."""
    rows = [each.row for each in STRATEGIES.values()]
    (local,) = [row.name for row in rows if row.home is Home.LOCAL]
    (paper,) = [row.name for row in rows if row.of_region]
    (ours,) = [row.name for row in rows if row.home is Home.REGION and not row.of_region]
    (live,) = [row.name for row in rows if row.home is Home.NOWHERE and row.copies > 1]
    sent = [row for row in rows if row.home is Home.PEERS and row.include is Include.STATE_AND_TRANSFER]
    by_copies = {row.copies: row.name for row in sent}
    return "none", local, paper, ours, [by_copies[each] for each in sorted(by_copies)], live


BASE, LOCAL, PAPER, OURS, SENT, LIVE = _names()


@dataclass(frozen=True, slots=True)
class Measured:
    tuples_s: float
    latency_s: float
    wifi_kb: float  # on the air for each picture answered
    kept_mb: float  # rows that are kept for replays, on all phones together, at the end
    checkpoints: int  # permanent snapshots, or complete cuts


@dataclass(frozen=True, slots=True)
class Case:
    program: str
    row: str
    wifi_mbps: float
    regions: int
    from_s: float
    until_s: float
    period_s: float


def measure(case: Case) -> Measured:
    gc.collect()  # the spools of the fleet before: 16 MB on every node
    together = STRATEGIES[case.row].row.of_region
    model = Model(Rates(wifi=case.wifi_mbps * 1e6))
    world = PlacedRegions(case.program, case.row, model=model, regions=case.regions, cut_s=case.period_s)
    # From the beginning of one cut to that of the next, where there are cuts: their marks wait behind all that is under
    # way, so that less would leave out a part of what one costs.
    start = case.period_s if together else case.from_s
    end = start + (case.period_s if together else case.until_s - case.from_s)
    world.look(end, start=BEGINS_S)
    world.advance(start)
    before = world.wifi_bytes()
    world.advance(end)
    world.finish()
    rates = [world.answers(region, start, end) for region in range(case.regions)]
    answered = sum(each for each, _ in rates)
    cuts = sum(world.cut(region) for region in range(case.regions))
    return Measured(
        answered / case.regions,
        sum(waited for _, waited in rates) / case.regions,
        (world.wifi_bytes() - before) / max(1.0, answered * (end - start)) / 1000,
        world.kept_bytes(PREFIX) / 1e6,
        cuts if together else sum(world.ran.commits.values()),
    )


def measured(cases: Sequence[Case], workers: int) -> dict[Case, Measured]:
    if workers == 1:
        return {case: measure(case) for case in cases}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        # The long ones first: the last to end should be short.
        ordered = sorted(cases, key=lambda case: (not STRATEGIES[case.row].row.of_region, case.row != OURS))
        return dict(zip(ordered, pool.map(measure, ordered), strict=True))


def run(
    programs: Sequence[str] = PROGRAMS,
    wifi_mbps: Sequence[float] = WIFI_MBPS,
    *,
    from_s: float = FROM_S,
    until_s: float = UNTIL_S,
    period_s: float = PERIOD_S,
    four: Sequence[str] = (),
    workers: int = 2,
) -> dict[str, Any]:
    """`four`: strategies that also run in four regions in a line."""
    rows = [BASE, LOCAL, PAPER, OURS, *SENT, LIVE]
    middle = sorted(wifi_mbps)[len(wifi_mbps) // 2]
    cases = [
        Case(program, row, mbps, 1, from_s, until_s, period_s)
        for program, row, mbps in itertools.product(programs, rows, wifi_mbps)
    ]
    in_line = [Case(programs[-1], row, middle, FOUR, from_s, until_s, period_s) for row in four]
    found = measured([*cases, *in_line], workers)

    def mean(program: str, row: str, of: Callable[[Measured], float]) -> float:
        values = [of(found[case]) for case in cases if (case.program, case.row) == (program, row)]
        return sum(values) / len(values)

    tuples = {program: {row: mean(program, row, lambda one: one.tuples_s) for row in rows} for program in programs}
    latency = {program: {row: mean(program, row, lambda one: one.latency_s) for row in rows} for program in programs}
    relative = {program: {row: tuples[program][row] / tuples[program][BASE] for row in rows} for program in programs}
    others = [*SENT, LIVE]

    def gain(row: str) -> float:
        return _average([tuples[program][row] / tuples[program][other] for program in programs for other in others])

    def less(row: str) -> float:
        return _average(
            [1 - latency[program][row] / latency[program][other] for program in programs for other in others]
        )

    def above(more: Sequence[str], fewer: Sequence[str], slack: float = 0.0) -> tuple[dict[str, Any], bool]:
        """The throughput of these over base, and whether each of the one kind has more than each of the other."""
        shown = {program: {row: round(relative[program][row], 2) for row in (*more, *fewer)} for program in programs}
        holds = all(
            relative[program][one] > relative[program][other] - slack
            for program in programs
            for one in more
            for other in fewer
        )
        return shown, holds

    shapes = [
        shape(f"{name}: throughput over {BASE}", "as named", *found_shape)
        for name, found_shape in (
            (f"{BASE} >= {LOCAL}", above([BASE], [LOCAL], EQUAL)),
            (f"{LOCAL} >= {PAPER}", above([LOCAL], [PAPER], EQUAL)),
            (f"{LOCAL} >= {OURS}", above([LOCAL], [OURS], EQUAL)),
            (f"{PAPER} > {SENT[0]}", above([PAPER], SENT[:1])),
            (f"{OURS} > {SENT[0]}", above([OURS], SENT[:1])),
            *((f"{one} > {other}", above([one], [other])) for one, other in itertools.pairwise(SENT)),
            (f"{PAPER} > {LIVE}", above([PAPER], [LIVE])),
            (f"{OURS} > {LIVE}", above([OURS], [LIVE])),
        )
    ]
    shapes += [
        shape(f"average throughput of {PAPER} over {', '.join(others)}", GAIN, round(gain(PAPER), 2), gain(PAPER) > 1),
        shape(f"average throughput of {OURS} over {', '.join(others)}", GAIN, round(gain(OURS), 2), gain(OURS) > 1),
        shape(f"average latency less of {OURS} than of {', '.join(others)}", LATENCY_LESS, round(less(OURS), 2),
              less(OURS) > 0),
        shape(f"average latency less of {PAPER} than of {', '.join(others)}", LATENCY_LESS, round(less(PAPER), 2),
              less(PAPER) > 0),
        shape("every run with checkpoints has had one", "-",
              {f"{case.program} {case.row} {case.wifi_mbps:g} Mbps": found[case].checkpoints for case in cases
               if STRATEGIES[case.row].row.include is not Include.NOTHING},
              all(found[case].checkpoints for case in cases
                  if STRATEGIES[case.row].row.include is not Include.NOTHING)),
    ]  # fmt: skip
    lines = {
        program.replace("_", " "): [(float(place), relative[program][row]) for place, row in enumerate(rows)]
        for program in programs
    }
    base_kb = {program: mean(program, BASE, lambda one: one.wifi_kb) for program in programs}
    drawn = draw(
        "regions-throughput", "Throughput of a region of eight (modelled network and phones)",
        ", ".join(f"{place} {row}" for place, row in enumerate(rows)), f"of that with {BASE}", lines,
    )  # fmt: skip
    return report(
        "regions-throughput", "MobiStreams Figs 8 and 10", shapes, drawn=drawn,
        tuples_s={program: _rounded(of, 3) for program, of in tuples.items()},
        ours_over_the_papers={
            program: round(tuples[program][OURS] / tuples[program][PAPER], 2) for program in programs
        },
        relative={program: _rounded(of, 2) for program, of in relative.items()},
        latency_s={program: _rounded(of, 1) for program, of in latency.items()},
        by_wifi={f"{case.program} {case.row} {case.wifi_mbps:g} Mbps": round(found[case].tuples_s, 3)
                 for case in cases},
        four_regions={f"{case.program} {case.row}": [round(found[case].tuples_s, 3), round(found[case].latency_s, 1)]
                      for case in in_line},
        kb_of_recovery_per_picture={
            program: {row: round(mean(program, row, lambda one: one.wifi_kb) - base_kb[program]) for row in rows}
            for program in programs
        },
        kept_mb={program: {row: round(mean(program, row, lambda one: one.kept_mb), 1) for row in rows}
                 for program in programs},
        paper={"tuples_s": TUPLES_S, "latency_s": LATENCY_S, "gain": GAIN, "latency_less": LATENCY_LESS},
        modelled={
            "kB of a picture": {program: Model.characters(program) / 1000 for program in programs},
            "seconds for a picture": {program: _rounded(Model.seconds(program), 2) for program in programs},
            "pictures under way": {program: Model.under_way(program) for program in programs},
            "Wi-Fi Mbps": list(wifi_mbps), "3G Mbps up, down": [Rates().up / 1e6, Rates().down / 1e6],
        },
        pass_ms_here=round(pass_ms(), 3),
        setting=f"production hosts in one process, {PHONES} phones; network and processors modelled; {EVERY} "
        f"pictures from one snapshot to the next, {period_s:g} s between cuts; nodes wait {Model().timeout_s:g} s for "
        f"an answer and one is silent after {Model().silence_s:g} s, as a phone that looks at a picture says nothing",
    )  # fmt: skip


def _average(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _rounded(of: dict[str, float], digits: int) -> dict[str, float]:
    return {name: round(value, digits) for name, value in of.items()}
