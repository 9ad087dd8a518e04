"""NebulaStream-MSS, Fig 6: how long Query 1 takes for so many tuples, by how often its phone is out of reach, and by
how many of those times it is back elsewhere. Production nodes in virtual time (`_walking_fleet`).

Three ways to deal with it, all carried out by the same nodes and the same coordinator:

* ours: the phone goes on and spools. Where it is back elsewhere, its rows get another way.
* whole query: where the phone is back elsewhere, the query is deployed again as a whole, and its source halts until
  then, as the query that the paper deploys again has the source in it. Otherwise as ours.
* vanilla: who is out of reach is taken out of the fleet, with the query. It is registered when it calls again, the
  query is deployed again as a new one, and its source halts until then.

A source that halts goes on where it was, as the paper's, so that all read the same tuples. A tenth of them, at a tenth
of the paper's rate: seconds are the paper's.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import resurge as rs
from resurge import col
from resurge.lab._figure import draw, report, shape
from resurge.lab._paper_load import KEPT_BY_BOTH, KEPT_BY_FILTER, SCALE, TUPLES_PER_SECOND
from resurge.lab._virtual_fleet import PHONE
from resurge.lab._walking_fleet import Columns, Fed, WalkingFleet
from shared.plan.graph import Plan

TUPLES = 2_000_000 // SCALE
BATCH_S = 0.1
BATCH = round(TUPLES_PER_SECOND * BATCH_S / SCALE)
AWAY_S = 2.0
TIMES = (0, 2, 4, 6, 8, 10, 12)
SHARES = (0, 25, 50, 75, 100)  # percent of the disconnections after which the phone is elsewhere
OFTEN = 8  # disconnections where that share varies
LINES, LENGTH = 3, 2  # with the phone, the reader and the coordinator nine nodes, as Fig 4
SPOOL_BYTES = (50 << 20) // SCALE
QUICK = {"times": (0, 12), "shares": (0, 100), "often": 4}
OURS, WHOLE, VANILLA = "ours", "whole query", "vanilla"


@cache
def query_1() -> Plan:
    rows = rs.sensor("player", every="1ms", columns={"vx": "float64", "az": "float64"}).gather("player")
    between = rows.where(col.vx > 0).select("device", az=col.az + 0.0)  # two filters in a row would be one
    return rs.plan_of(between.where(col.az > 1).subscribe("fast"))


def tuples(numbers: np.ndarray[Any, Any]) -> Columns:
    """As many pass each filter as in the paper."""
    first, second = numbers * 0.6180339887 % 1, numbers * 0.7548776662 % 1
    return {"vx": first - (1 - KEPT_BY_FILTER), "az": 1 + second - (1 - KEPT_BY_BOTH / KEPT_BY_FILTER)}


class LeavingFleet(WalkingFleet):
    """Its phone is out of reach `times` times, evenly over what it reads, and then `moves` times elsewhere."""

    def __init__(self, behaviour: str, times: int, moves: int) -> None:
        self._behaviour = behaviour
        self._each = Fed("q", query_1(), tuples, BATCH, BATCH_S)
        # The last ones of each round are those after which it is elsewhere, so that they are spread, too.
        self._plan = [(TUPLES * at // (times + 1), at * moves // times > (at - 1) * moves // times)
                      for at in range(1, times + 1)]  # fmt: skip
        self._line, self._term = 0, 1
        self._awaited = 0  # the deployment without which the source does not go on
        super().__init__(LINES, LENGTH, (self._each,), spool_bytes=SPOOL_BYTES)

    def runtime(self) -> float:
        self.advance(1.0)
        began = self.now
        self._read()
        self.until(lambda: self.taken(self._each) >= TUPLES, "the last tuple", 0.05)
        return round(self.now - began, 2)

    def _read(self) -> None:
        """The source: its next batch, unless it halts."""
        if self.head(self._each) >= TUPLES:
            return
        if self._plan and not self.away and not self._awaited and self.head(self._each) >= self._plan[0][0]:
            self._leave(self._plan.pop(0)[1])
        if self._awaited and self.nodes[PHONE].host.version >= self._awaited:
            self._awaited = 0
        if not self._awaited:
            self.make(self._each)
        self.at(self.now + BATCH_S, self._read)

    def _leave(self, moves: bool) -> None:
        self.away = True
        if self._behaviour == VANILLA:
            self.deploy([], phone=False)
        if self._behaviour == VANILLA or (self._behaviour == WHOLE and moves):
            self._awaited = self.coordinator.fleet.version + 1
        self.at(self.now + AWAY_S, lambda: self._return(moves))

    def _return(self, moves: bool) -> None:
        self._line = (self._line + moves) % LINES
        self.away, self.reaches = False, {self.lines[self._line][0]}
        self.when_heard = self._deploy_again if self._awaited else None

    def _deploy_again(self) -> None:
        self._term += 1
        self.deploy([self.query(self._each, line=self._line, term=self._term)])
        self._awaited = self.coordinator.fleet.version


def run(times: tuple[int, ...] = TIMES, shares: tuple[int, ...] = SHARES, often: int = OFTEN) -> dict[str, Any]:
    by_times = {way: {count: LeavingFleet(way, count, 0).runtime() for count in times} for way in (OURS, VANILLA)}
    by_share = {
        way: {share: LeavingFleet(way, often, round(often * share / 100)).runtime() for share in shares}
        for way in (OURS, WHOLE, VANILLA)
    }
    ours, vanilla = by_times[OURS], by_times[VANILLA]
    flat = max(ours.values()) / min(ours.values())
    grows = vanilla[max(times)] / vanilla[min(times)]
    whole, paid = by_share[WHOLE], by_share[VANILLA]
    converges = whole[max(shares)] / paid[max(shares)]
    rises = [whole[share] for share in shares]
    walks = max(by_share[OURS].values()) / min(ours.values())
    shapes = [
        shape("ours by the number of disconnections, longest over shortest", "almost constant", round(flat, 3),
              flat <= 1.1),
        shape(f"vanilla with {max(times)} disconnections over none", "> 2", round(grows, 2), grows > 2),
        shape("the whole query deployed again: longer the more often", True, rises, rises == sorted(rises)),
        shape("the whole query deployed again after each disconnection, over vanilla", "converges", round(converges, 2),
              0.85 <= converges <= 1.1),
        shape("ours, elsewhere after each disconnection, over none at all", "future work", round(walks, 3),
              walks <= 1.1),
    ]  # fmt: skip
    curves = {way: [(float(count), value) for count, value in found.items()] for way, found in by_times.items()}
    twice = {"paper: vanilla, more than": [(float(max(times)), 2.0 * vanilla[min(times)])]}
    shares_drawn = {way: [(float(share), value) for share, value in found.items()] for way, found in by_share.items()}
    drawn = [
        draw("mss-runtime", "Query 1, 2 M tuples at the paper's rate", "disconnections", "seconds", curves | twice),
        draw("mss-runtime-redeployed", f"Query 1 with {often} disconnections", "percent of them after which it is "
             "elsewhere", "seconds", shares_drawn),
    ]  # fmt: skip
    return report(
        "mss-runtime", "NebulaStream-MSS Fig 6", shapes, curves=curves, by_share=shares_drawn, drawn=drawn,
        setting=f"production hosts in one process; network, disks and clock in memory; {TUPLES} tuples, {AWAY_S:g} s "
        "out of reach each time; nine nodes",
    )  # fmt: skip
