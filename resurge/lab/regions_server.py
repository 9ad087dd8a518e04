"""MobiStreams, Table I: pictures sent to a server over 3G against regions of phones that look at them themselves.

Production hosts and coordinator in virtual time; how fast Wi-Fi, 3G and processors are is *modelled* after the paper
(`_phones`, `_medium`). The size of a picture was taken from the server's own rows of this table, so that the server's
throughput is the paper's is a check of the model and no finding. What regions do beside it is one: without fault
tolerance, and with the paper's strategy while a phone leaves, or fails, once in a period of cuts. That period is
shorter than the paper's five minutes, so a departure or a failure weighs more here.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from resurge.lab._figure import draw, report, shape
from resurge.lab._medium import Rates
from resurge.lab._phones import LATENCY_S, SERVER_LATENCY_S, SERVER_TUPLES_S, TUPLES_S, UPLINK, Model
from resurge.lab._placed_regions import BEGINS_S, PHONES, PlacedRegions
from resurge.lab._virtual_regions import DWELL_S, VirtualRegions
from resurge.lab.regions_throughput import BASE, PROGRAMS

WIFI_MBPS = 5.0
PERIOD_S = 150.0  # the paper's 300 s take twice as long to run
THRESHOLD = 3
NEAR = 0.1  # of the paper's throughput, where the model was taken from it
PAPER = {  # with fault tolerance, while a phone leaves or fails every five minutes
    "bus_capacity": {"leaves": (0.52, 36.0), "fails": (0.48, 39.0)},
    "traffic_signal": {"leaves": (0.74, 30.0), "fails": (0.64, 36.0)},
}
# A server's exchange is one picture, which takes 91 s on the slowest uplink; nobody may give up before.
PATIENT = Model(timeout_s=600.0, silence_s=600.0)
SOON_MISSED = Model(Rates(wifi=WIFI_MBPS * 1e6), timeout_s=30.0)
QUICK: dict[str, Any] = {"programs": ("traffic_signal",), "kinds": ("leaves",), "period_s": 100.0}


@dataclass(frozen=True, slots=True)
class Measured:
    tuples_s: float
    latency_s: float
    lost: int = 0


def on_server(program: str, uplink: float, pictures: int) -> Measured:
    """So many pictures and some, once those that wait before them are gone."""
    gc.collect()
    model = replace(PATIENT, rates=Rates(up=uplink))
    world = PlacedRegions(program, BASE, model=model, cut_s=PERIOD_S, on_server=True)
    world.stop([name for name in world.nodes if name.endswith(tuple(f"-{each}" for each in range(1, PHONES)))])
    each_s = 8 * model.characters(program) / uplink
    start = BEGINS_S + (model.under_way(program) + 2) * each_s
    end = start + pictures * each_s
    world.look(end, start=BEGINS_S)
    world.advance(end)
    world.finish()
    return Measured(*world.answers(0, start, end))


def in_region(program: str, *, from_s: float, until_s: float) -> Measured:
    gc.collect()
    world = PlacedRegions(program, BASE, model=replace(SOON_MISSED, timeout_s=60.0), cut_s=PERIOD_S)
    world.look(until_s, start=BEGINS_S)
    world.advance(until_s)
    world.finish()
    return Measured(*world.answers(0, from_s, until_s))


def disturbed(program: str, kind: str, period_s: float) -> Measured:
    """With cuts, over one period in whose middle a phone leaves, or fails, that runs some of it."""
    gc.collect()
    world = VirtualRegions(program, 1, PHONES, THRESHOLD, cut_s=period_s, model=SOON_MISSED)
    start = DWELL_S + 2 * BEGINS_S + period_s
    world.look(start + period_s, start=DWELL_S + 2 * BEGINS_S)
    world.advance(start + period_s / 2)
    chosen = world.hosting(0)[:1]
    if kind == "fails":
        world.stop(chosen)
    else:
        world.walk_away(chosen)
    world.advance(start + period_s)
    world.finish()
    _, lost, _ = world.results(0)
    return Measured(*world.answers(0, start, start + period_s), lost)


def run(
    programs: Sequence[str] = PROGRAMS,
    *,
    pictures: int = 8,
    from_s: float = 60.0,
    until_s: float = 160.0,
    period_s: float = PERIOD_S,
    kinds: Sequence[str] = ("leaves", "fails"),
) -> dict[str, Any]:
    server = {program: [on_server(program, uplink, pictures) for uplink in UPLINK] for program in programs}
    alone = {program: in_region(program, from_s=from_s, until_s=until_s) for program in programs}
    tried = {program: {kind: disturbed(program, kind, period_s) for kind in kinds} for program in programs}
    ratios = {
        program: [round(alone[program].tuples_s / each.tuples_s, 2) for each in server[program]] for program in programs
    }
    paper_ratios = {
        program: [round(TUPLES_S[program] / each, 2) for each in SERVER_TUPLES_S[program]] for program in programs
    }
    every = [(program, kind) for program in programs for kind in kinds]
    shapes = [
        shape("the model: a server's pictures a second on both uplinks, within a tenth of the paper's",
              {program: list(SERVER_TUPLES_S[program]) for program in programs},
              {program: [round(each.tuples_s, 3) for each in server[program]] for program in programs},
              all(abs(each.tuples_s / paper - 1) <= NEAR for program in programs
                  for each, paper in zip(server[program], SERVER_TUPLES_S[program], strict=True))),
        shape("a region without fault tolerance over a server, by uplink", paper_ratios, ratios,
              all(each > 1 for of in ratios.values() for each in of)),
        shape("seconds to an answer in a region, less than from a server on either uplink",
              {program: [LATENCY_S[program], *SERVER_LATENCY_S[program][::-1]] for program in programs},
              {program: [round(each.latency_s, 1) for each in (alone[program], *server[program])]
               for program in programs},
              all(alone[program].latency_s < each.latency_s for program in programs for each in server[program])),
        *(shape(f"{program}: pictures a second while a phone {kind}, over a server with the fast uplink",
                round(PAPER[program][kind][0] / SERVER_TUPLES_S[program][1], 2),
                round(tried[program][kind].tuples_s / server[program][1].tuples_s, 2),
                tried[program][kind].tuples_s > server[program][1].tuples_s) for program, kind in every),
        *(shape(f"{program}: a departure costs no more than a failure",
                [PAPER[program][kind][0] for kind in kinds],
                [round(tried[program][kind].tuples_s, 3) for kind in kinds],
                tried[program]["leaves"].tuples_s >= tried[program]["fails"].tuples_s)
          for program in programs if len(kinds) > 1),
        shape("rows that were lost", 0, sum(tried[program][kind].lost for program, kind in every),
              not any(tried[program][kind].lost for program, kind in every)),
    ]  # fmt: skip
    lines = {
        f"{where}, {program.replace('_', ' ')}": [
            (uplink / 1e6, value) for uplink, value in zip(UPLINK, of, strict=True)
        ]
        for program in programs
        for where, of in (
            ("server", [each.tuples_s for each in server[program]]),
            ("region", [alone[program].tuples_s] * 2),
            ("paper's server", [*SERVER_TUPLES_S[program]]),
            ("paper's region", [TUPLES_S[program]] * 2),
        )
    }
    drawn = draw("regions-server", "A region against a server, by 3G uplink (modelled network and phones)",
                 "Mbps up", "pictures a second", dict(list(lines.items())[:6]))  # fmt: skip
    return report(
        "regions-server", "MobiStreams Table I", shapes, drawn=drawn,
        tuples_s={
            program: {"server": [round(each.tuples_s, 3) for each in server[program]],
                      "region": round(alone[program].tuples_s, 3),
                      **{kind: round(each.tuples_s, 3) for kind, each in tried[program].items()}}
            for program in programs
        },
        latency_s={
            program: {"server": [round(each.latency_s, 1) for each in server[program]],
                      "region": round(alone[program].latency_s, 1),
                      **{kind: round(each.latency_s, 1) for kind, each in tried[program].items()}}
            for program in programs
        },
        paper={
            program: {"server": [SERVER_TUPLES_S[program], SERVER_LATENCY_S[program]],
                      "region": [TUPLES_S[program], LATENCY_S[program]], **PAPER[program]}
            for program in programs
        },
        setting=f"production hosts in one process; network and processors modelled: Wi-Fi {WIFI_MBPS:g} Mbps, 3G up "
        f"{UPLINK[0] / 1e6} and {UPLINK[1] / 1e6} Mbps; a server's processors take no time; cuts every {period_s:g} s, "
        "one phone leaves or fails in the middle of the period that is measured",
    )  # fmt: skip
