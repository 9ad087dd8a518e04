"""The load of NebulaStream-MSS on a phone that is out of reach: two queries, a batch of each a second, through
production nodes in virtual time (`_walking_fleet`). What is lost is what the vertex that reads it never gets.

Everything is a tenth of the paper's size (bytes and capacity alike), which changes no ratio. The paper's numbers
fit two different settings, so both are run: `filtered`, where the phone applies the first filter, which keeps 67.6 %,
as its text says, and `unfiltered`, which is what its "full after 15 seconds" and "125 MB holds everything" need.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

import resurge as rs
from resurge import col
from resurge.bench._recordings import FOOTBALL, FOOTBALL_ROW_BYTES, football_rows
from resurge.lab._virtual_fleet import PHONE
from resurge.lab._walking_fleet import Columns, Fed, WalkingFleet
from shared.language.codecs import COLUMNS, NONE
from shared.plan.graph import Plan
from shared.spool.evict import Evict
from shared.spool.segment import CONTROL_BYTES

SCALE = 10
MEGABYTE = 1 << 20  # the paper's: its 3.33 MB/s are 56,375 tuples of 62 bytes
TUPLES_PER_SECOND = 56_375
KEPT_BY_FILTER, KEPT_BY_BOTH = 0.676, 0.24
COUNTER_BYTES = 16  # a counter and its time
RATES = {  # bytes a second: Query 1 and Query 2
    "filtered": (round(TUPLES_PER_SECOND * FOOTBALL_ROW_BYTES * KEPT_BY_FILTER), 499_712),
    "unfiltered": (TUPLES_PER_SECOND * FOOTBALL_ROW_BYTES, 499_712),
}
ALERT_EVERY_S, ALERT_RUN_S, ALERT_ROWS = 10, 60, 62
PACKED_PARTS = 3  # of a second's tuples: no row of the recording twice in a batch, which would pack too well
REACHED_S = 2.0  # before the phone is out of reach
HOPS = 3  # between the phone and who reads its rows
SETTING = (
    "production hosts in one process; network, disks and clock in memory; a tenth of the paper's bytes and capacity"
)


@cache
def _football() -> Columns:
    return football_rows()


def _tuples(numbers: np.ndarray[Any, Any]) -> Columns:
    """Rows of the recording, again and again. The sign of `vx` is drawn so that as many pass as in the paper."""
    rows = _football()
    found = {name: column[numbers % len(column)] for name, column in rows.items() if name != "ts"}
    passes = numbers * 0.6180339887 % 1 < KEPT_BY_FILTER
    found["vx"] = ((np.abs(found["vx"]) + 1) * np.where(passes, 1, -1)).astype(np.float32)
    return found


@cache
def _query_1(filtered: bool) -> Plan:
    """A row that a filter kept travels with its number: then one column less makes it as large as the paper's tuple."""
    kinds = {name: np.dtype(kind).name for name, kind in FOOTBALL.items() if name not in ("ts", *(["v"] * filtered))}
    rows = rs.sensor("player", every="1ms", columns=kinds).gather("player")
    others = [name for name in kinds if name != "az"]
    between = rows.where(col.vx > 0).select("device", *others, az=col.az + 0.0)  # two filters in a row would be one
    return rs.plan_of(between.where(col.az > 1).subscribe("fast"))


@cache
def _counter(name: str) -> Plan:
    return rs.plan_of(rs.sensor(name, every="1ms", columns={"n": "int64"}).gather(name).subscribe(f"all {name}"))


def _query_1_fed(setting: str, codec: str) -> Fed:
    filtered, parts = setting == "filtered", PACKED_PARTS if codec == COLUMNS else 1

    def rows(numbers: np.ndarray[Any, Any]) -> Columns:
        found = _tuples(numbers)
        return {name: column for name, column in found.items() if not (filtered and name == "v")}

    return Fed(
        "query 1",
        _query_1(filtered),
        rows,
        TUPLES_PER_SECOND // SCALE // parts,
        1 / parts,
        upto=int(filtered),
        codec=codec,
    )


def _query_2_fed(codec: str) -> Fed:
    rows = RATES["filtered"][1] // SCALE // COUNTER_BYTES
    return Fed("query 2", _counter("counter"), lambda numbers: {"n": numbers}, rows, 1.0, upto=0, codec=codec)


def _alerts_fed() -> Fed:
    return Fed("alerts", _counter("alert"), lambda numbers: {"n": numbers}, ALERT_ROWS, ALERT_EVERY_S, upto=0)


def lost_rows(fed: Sequence[Fed], seconds: int, capacity: int, evict: Evict) -> dict[str, tuple[int, int]]:
    """{query: (rows that never came, rows there were)} of a phone that was out of reach so long."""
    fleet = WalkingFleet(1, HOPS, fed, spool_bytes=capacity // SCALE, evict=evict)
    fleet.advance(REACHED_S)
    fleet.away = True
    for each in fed:
        times = round(seconds / each.every_s)
        for at in range(times):
            fleet.at(REACHED_S + (at + 1) * each.every_s, partial(fleet.make, each))
    fleet.advance(REACHED_S + seconds)
    fleet.away = False
    fleet.until(lambda: all(fleet.taken(each) >= fleet.head(each) for each in fed), "the arrival of what is left", 0.1)
    found = {}
    for each in fed:
        reader = fleet.reader(each)
        if reader is None or reader.failed:
            raise RuntimeError(f"nobody reads {each.name}")
        found[each.name] = (reader.lost, fleet.head(each))
    return found


def loss(seconds: int, capacity: int, setting: str, evict: Evict, codec: str = NONE) -> float:
    """Share of the bytes given up after so many seconds out of reach."""
    if not seconds:
        return 0.0
    found = lost_rows((_query_1_fed(setting, codec), _query_2_fed(codec)), seconds, capacity, evict)
    shares = [lost / made for lost, made in found.values()]
    return sum(share * rate for share, rate in zip(shares, RATES[setting], strict=True)) / sum(RATES[setting])


def vanilla_loss(seconds: int, setting: str) -> float:
    """The same share without a spool: who is out of reach is taken out of the fleet, with what it feeds. It is there
    again once its query was deployed again, and what it reads until then nobody gets."""
    fed = (_query_1_fed(setting, NONE), _query_2_fed(NONE))
    fleet = WalkingFleet(1, HOPS, fed)
    fleet.advance(REACHED_S)
    awaited, read, term = 0, dict.fromkeys(fed, 0), 2
    if seconds:
        fleet.away = True
        fleet.deploy([], phone=False)
        awaited = fleet.coordinator.fleet.version + 1

    def tick(each: Fed) -> None:
        if fleet.nodes[PHONE].host.version >= awaited:
            fleet.make(each)
        read[each] += each.batch

    for each in fed:
        for at in range(round(max(seconds, REACHED_S) / each.every_s)):
            fleet.at(REACHED_S + (at + 1) * each.every_s, partial(tick, each))
    fleet.advance(REACHED_S + max(seconds, REACHED_S))
    if seconds:
        fleet.away = False
        fleet.when_heard = lambda: fleet.deploy([fleet.query(each, term=term) for each in fed])
        fleet.until(lambda: fleet.nodes[PHONE].host.version >= awaited, "the phone's return", 0.1)
    fleet.until(lambda: all(fleet.taken(each) >= fleet.head(each) for each in fed), "the arrival of what was sent", 0.1)
    shares = [1 - fleet.taken(each) / read[each] for each in fed]
    return sum(share * rate for share, rate in zip(shares, RATES[setting], strict=True)) / sum(RATES[setting])


def alerts_lost(capacity: int, evict: Evict) -> int:
    """Positions at the filtered rate and an alert every ten seconds, a minute out of reach."""
    found = lost_rows((_query_1_fed("filtered", NONE), _alerts_fed()), ALERT_RUN_S, capacity, evict)
    return found["alerts"][0] // ALERT_ROWS


def model(seconds: int, capacity: int, setting: str) -> float:
    """What arithmetic says: everything beyond the capacity is lost."""
    first, second = (rate // SCALE for rate in RATES[setting])
    offered = seconds * (first + second)
    room = capacity / SCALE - 2 * CONTROL_BYTES * seconds
    return max(0.0, 1 - room / offered) if offered else 0.0


def football_note(smaller: float, *, real: bool) -> dict[str, object]:
    """Which rows the codec was tried on, for a report."""
    return {"rows": "real" if real else "stand-in", "times smaller": round(smaller, 3)}
