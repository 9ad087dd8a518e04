"""The queries that simulated nodes run: two small ones, and the four stream processes of the ECOC paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

import resurge as rs
from resurge import col
from resurge.examples.peers.average import mean as average
from resurge.examples.peers.beats import beats
from resurge.examples.peers.both_attenuated import mean as both_attenuated
from resurge.examples.peers.one_attenuated import mean as one_attenuated
from shared.hosting.wiring import EdgeSpec
from shared.plan.graph import Plan
from tests.simulation.peers.world import Outcome, Settings, run

CYCLIC = ("extended-ecoc", "ecoc-region", "uncoordinated", "dist-2", "dist-3", "local")
ACYCLIC = ("ecoc", *CYCLIC)


def chain() -> Plan:
    """One sensor, two windows with a filter between them."""
    means = rs.sensor("x", every="33ms", columns={"x": "float64"}).gather("g").sliding(count=5)
    sums = means.aggregate(m=rs.mean("x")).where(col.m > 0).sliding(count=10)
    return rs.plan_of(sums.aggregate(s=rs.sum("m")).subscribe("out"))


def to_cloud() -> Plan:
    """As the chain, and what it subscribes goes to the cloud as well."""
    means = rs.sensor("x", every="33ms", columns={"x": "float64"}).gather("g").sliding(count=5)
    sums = means.aggregate(m=rs.mean("x")).where(col.m > 0).sliding(count=10).aggregate(s=rs.sum("m"))
    return rs.plan_of(sums.subscribe("out"), sums.sync("up", within="200ms").subscribe("all"))


WIDE = ("a", "b", "c", "d", "e", "f")


def wide() -> Plan:
    """As the chain, with windows that are large enough to be broadcast."""
    rows = rs.sensor("w", every="33ms", columns=dict.fromkeys(WIDE, "float64")).gather("w")
    means = rows.sliding(count=120).aggregate(**{name: rs.mean(name) for name in WIDE}).where(col.a > -99)
    return rs.plan_of(means.sliding(count=60).aggregate(**{name: rs.sum(name) for name in WIDE}).subscribe("out"))


def meeting() -> Plan:
    """Rows of several devices meet and are counted together."""
    rows = rs.sensor("x", every="33ms", columns={"x": "float64"}).gather("g")
    both = rows.key_by().tumbling("1s").aggregate(m=rs.mean("x"), n=rs.count())
    return rs.plan_of(both.sliding(count=3).aggregate(s=rs.sum("m")).subscribe("out"))


def merging() -> Plan:
    """Rows of several devices meet, and each gives one: batches end where the two happened to meet."""
    rows = rs.sensor("x", every="33ms", columns={"x": "float64"}).gather("g")
    means = rows.key_by().sliding(count=3).aggregate(m=rs.mean("x"))
    return rs.plan_of(means.sliding(count=2).aggregate(s=rs.sum("m")).subscribe("out"))


MANY_KEYS, MANY_FEW = 450, 750  # the numbers from which no key is new, and from which any comes again


def many() -> Plan:
    """Much state of which little changes: half of the rows each begin a key, a third goes to few of those, the last ones
    to any."""
    rows = rs.sensor("k", every="33ms", columns={"k": "int64", "x": "float64"}).gather("k")
    sums = rows.key_by("k").state({"n": 0, "s": 0.0}, n=rs.state.n + 1, s=rs.state.s + col.x)
    return rs.plan_of(sums.subscribe("out"))


@dataclass(frozen=True, slots=True)
class Program:
    plan: Callable[[], Plan]
    sources: tuple[int, ...]
    rows: int  # that every source makes
    strategies: tuple[str, ...]  # that promise to lose nothing of it


PROGRAMS = {
    "chain": Program(chain, (1,), 300, ACYCLIC),
    "to_cloud": Program(to_cloud, (1,), 300, ()),  # where a gateway coordinates, alone
    "meeting": Program(meeting, (1, 2), 300, ACYCLIC),
    "merging": Program(merging, (1, 2), 200, ACYCLIC),
    "sp1": Program(lambda: rs.plan_of(beats), (1,), 1800, ACYCLIC),
    "sp2": Program(lambda: rs.plan_of(average), (1,), 600, ACYCLIC),
    "sp3": Program(lambda: rs.plan_of(one_attenuated), (1,), 900, CYCLIC),
    "sp4": Program(lambda: rs.plan_of(both_attenuated), (1,), 900, CYCLIC),
    "wide": Program(wide, (1,), 600, ("ecoc-region",)),
    "many": Program(many, (1,), 900, ("ecoc", "extended-ecoc", "uncoordinated", "dist-2", "local")),
}


def rows_of(spec: EdgeSpec, lo: int, hi: int) -> tuple[dict[str, object], np.ndarray]:
    """A row is a function of its number and its device."""
    numbers = np.arange(lo, hi)
    shift = spec.key.device[0] % 7
    match spec.name:
        case "ecg":
            beat = np.exp(-(((numbers % 300) - 150) ** 2) / 8.0)  # a peak every 0.8 s
            return {"mv": beat + 0.05 * np.sin(numbers * 0.1)}, numbers * 2_778 + 1
        case "test_a" | "test_b":
            shift = 3 if spec.name == "test_b" else 0
            return {"v": np.sin(numbers * 0.02) + 0.5 + (numbers + shift) % 5 * 0.1}, numbers * 5_000 + 1
        case _:
            if spec.name == "w":
                return {name: np.sin(numbers * 0.1 + at) for at, name in enumerate(WIDE)}, numbers * 33_000 + 1
            if spec.name == "k":
                keys = np.where(numbers < MANY_KEYS, numbers, np.where(numbers < MANY_FEW, numbers % 5, numbers * 7))
                keys %= MANY_KEYS
                return {"k": keys, "x": np.sin(numbers * 0.1)}, numbers * 33_000 + 1
            return {"x": np.sin(numbers * 0.1) * 10 + (numbers + shift) % 7}, numbers * 33_000 + 1 + shift


def settings(name: str, **more: object) -> Settings:
    program = PROGRAMS[name]
    few = program.rows // 30
    return Settings(
        program.plan(), program.rows, rows_of, sources=program.sources,
        **{"batch": few, "every": 4 * few, **more},  # type: ignore[arg-type]
    )  # fmt: skip


@cache
def undisturbed(name: str) -> Outcome:
    """What the sinks hold when nothing fails."""
    return run(settings(name, row="extended-ecoc", within_s=6.0))
