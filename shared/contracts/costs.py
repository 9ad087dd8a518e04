"""Which recovery strategy keeps a contract, at what price: the cheapest row that qualifies, or why none does.

A row qualifies when the loss it leads us to expect, the time its recovery takes and what it takes for granted all fit:

* loss: what a failure takes with it, over the elements between two failures. Without snapshots that is what a vertex
  holds in memory; without anything retained, also what an outage lasts; and what of it the spool has no room for.
* delay: waiting in a batch, plus detecting the failure, plus fetching the snapshot, plus running again what came after
  it. `every` is the largest number of elements between snapshots that still fits, so that snapshots are rare.
* what it takes for granted: other nodes to keep snapshots on, an extension where edges form a cycle, and operators that
  give the same rows when they run again.

Among those that qualify the fewest bytes sent win, then the least memory. Loads are guesses until nodes have measured.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from shared.contracts.rates import PER_SECOND, SECOND_US, rates
from shared.language.durations import duration_text
from shared.plan import operators as op
from shared.plan.contracts import Contract
from shared.plan.graph import Plan, SyncEdge
from shared.plan.placement import ON_CLOUD, sides
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.costs import VertexLoad, cost
from shared.recovery.strategies.row import Commit, Home, Include, Keep, Row

EVERY = tuple(step * 10**power for power in (6, 5, 4, 3, 2) for step in (5, 2, 1))  # tried from the largest on
DETECT_S = 5.0
# Before there are measurements: a phone that is stopped or loses its network for three hours once a day.
OUTAGE_S = 3 * 3600.0
BETWEEN_FAILURES_S = 86_400.0
REPLAY_PER_S = 20_000.0
VALUE_BYTES = 8
STATE_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class Host:
    """A node that may run or keep a part of the plan."""

    node: str
    spool_bytes: int = 50_000_000
    bandwidth_bytes_s: float = 125_000.0
    returns: bool = True  # after a failure, with what is on its disk
    region: str = ""


@dataclass(frozen=True, slots=True)
class Load:
    """What runs under the contract, as measured or as guessed."""

    vertex: VertexLoad
    per_s: float = PER_SECOND  # elements
    element_bytes: float = 64.0
    held_elements: float = 60.0  # only in memory, between two snapshots or without any
    wait_s: float = 0.0  # in a batch, before it is sent
    outage_s: float = OUTAGE_S
    between_failures_s: float = BETWEEN_FAILURES_S
    replay_per_s: float = REPLAY_PER_S


@dataclass(frozen=True, slots=True)
class Choice:
    """`row` None: refused, and `refused` names the nearest row and what it lacks. `every` 0: it takes no snapshots."""

    row: Row | None
    every: int
    why: str
    refused: str = ""
    bytes_per_element: float = 0.0
    memory_bytes: float = 0.0
    recovery_s: float = 0.0


def choose(
    contract: Contract,
    plan: Plan,
    loads: Mapping[str, Load],
    hosts: Collection[Host],
    *,
    rows: Iterable[Row] | None = None,
) -> Choice:
    """The cheapest strategy that keeps the contract for everything of the plan that nodes run. `loads` are by vertex;
    `rows` are those to choose from, else all that nodes can run."""
    known = [strategy.row for strategy in STRATEGIES.values()] if rows is None else list(rows)
    asked = [row for row in known if row.home is not Home.STORE]  # the job manager's own, with a manifest of its own
    judged = [_judge(row, contract, plan, loads, hosts) for row in asked]
    fit = [choice for choice in judged if not choice.refused]
    if fit:
        best = min(fit, key=lambda choice: (choice.bytes_per_element, choice.memory_bytes, choice.recovery_s))
        return _explained(best, len(fit), len(judged), contract)
    nearest = min(judged, key=lambda choice: (choice.refused.count(";"), _exposure(choice.row)))
    name = "none" if nearest.row is None else nearest.row.name
    return Choice(None, 0, "", f"no strategy keeps it; the nearest is {name}, which lacks: {nearest.refused}")


def of_lone_device(plan: Plan, edge: SyncEdge, host: Host | None = None) -> Choice:
    """What keeps the contract of an edge from one device straight to the gateway, by what the plan lets us guess.

    A device spools whatever it sends, so a row that retains nothing is not asked about."""
    row_of = [strategy.row for strategy in STRATEGIES.values()]
    rows = [row for row in row_of if row.keep is not Keep.NOTHING and row.home in (Home.NOWHERE, Home.LOCAL)]
    lone = [row for row in rows if row.copies == 1]
    return choose(edge.contract, plan, {edge.name: guess(plan, edge)}, (host or Host("device"),), rows=lone)


def guess(plan: Plan, edge: SyncEdge) -> Load:
    """A load before anything was measured: from what comes to the edge, the columns and the batch."""
    (end,) = (
        node
        for node in plan.nodes
        if isinstance(node.operator, op.Sync | op.Gather) and node.operator.name == edge.name
    )
    element_bytes = float(VALUE_BYTES * (1 + len(edge.schema.names)))
    return Load(
        VertexLoad(state_bytes=STATE_BYTES, source_bytes=element_bytes),
        per_s=rates(plan)[end.id],
        element_bytes=element_bytes,
        held_elements=float(edge.batch_rows),
        wait_s=edge.within_us / SECOND_US,
    )


def recovery_s(row: Row, load: Load, every: int, hosts: Collection[Host]) -> float:
    """From a failure to the first new output: detect, fetch the snapshot, run again what came after it."""
    if row.include is Include.NOTHING:
        return DETECT_S
    again = cost(row, load.vertex, every).replay_elements
    bandwidth = min((host.bandwidth_bytes_s for host in hosts), default=1.0)
    fetch_s = 0.0 if row.home is Home.LOCAL else load.vertex.state_bytes / bandwidth
    return DETECT_S + fetch_s + again / load.replay_per_s


def expected_loss(row: Row, load: Load, hosts: Collection[Host]) -> float:
    """The share of elements that failures take, as far as it can be told beforehand."""
    spool = min((host.spool_bytes for host in hosts), default=0) / load.element_bytes
    outage = load.outage_s * load.per_s
    lost = outage if row.keep is Keep.NOTHING else max(0.0, outage - spool)
    if row.include is Include.NOTHING and row.copies == 1:
        lost += load.held_elements
    if row.home is Home.LOCAL and not all(host.returns for host in hosts):
        lost += load.held_elements + min(outage, spool)
    return min(1.0, lost / max(1.0, load.between_failures_s * load.per_s))


def _judge(row: Row, contract: Contract, plan: Plan, loads: Mapping[str, Load], hosts: Collection[Host]) -> Choice:
    lacks = _lacking(row, contract, plan, hosts)
    loss = max((expected_loss(row, load, hosts) for load in loads.values()), default=0.0)
    if loss > 1.0 - contract.kept_min:
        lacks.append(f"it may lose {loss:.2%} of what comes, {1 - contract.kept_min:.2%} is allowed")
    every = _largest_every(row, contract, loads, hosts)
    if every is None:
        shortest = max(load.wait_s + recovery_s(row, load, EVERY[-1], hosts) for load in loads.values())
        allowed = duration_text(contract.delay_us_max or 0)
        lacks.append(f"waiting in a batch and recovering take {shortest:.0f} s, {allowed} is allowed")
        every = EVERY[-1]
    costs = [cost(row, load.vertex, max(1, every)) for load in loads.values()]
    return Choice(
        row, every, "", "; ".join(lacks),
        bytes_per_element=sum(each.bytes_per_element for each in costs),
        memory_bytes=sum(each.memory_bytes for each in costs),
        recovery_s=max((recovery_s(row, load, max(1, every), hosts) for load in loads.values()), default=0.0),
    )  # fmt: skip


def _lacking(row: Row, contract: Contract, plan: Plan, hosts: Collection[Host]) -> list[str]:
    """What the row takes for granted and is not there, in words."""
    lacks: list[str] = []
    others = len(hosts) - 1
    if row.home is Home.PEERS and others < row.copies:
        lacks.append(f"{row.copies} other nodes to keep snapshots on, there are {max(0, others)}")
    if row.include is Include.NOTHING and row.copies > len(hosts):
        lacks.append(f"{row.copies} nodes to run copies on, there are {len(hosts)}")
    regions = {host.region for host in hosts}
    if row.home is Home.REGION and (others < 1 or regions == {""} or len(regions) > 1):
        lacks.append("a region that all its nodes are in")
    cyclic = any(isinstance(node.operator, op.Feedback) for node in plan.nodes)
    if cyclic and row.commit is Commit.READERS and not row.extends:
        lacks.append("an extension, which edges that form a cycle need")
    # A node alone has no inputs to read again: its sensors go on, and what it spooled is as it was.
    recovers = row.include is not Include.NOTHING or row.copies > 1
    runs_again = recovers and others > 0 and row.commit is not Commit.REGION
    if contract.wrong_max == 0.0 and runs_again and (varies := _varies(plan)):
        lacks.append(f"the same rows when {varies} runs again")
    return lacks


def _varies(plan: Plan) -> str:
    """An operator outside the cloud whose second run may give other rows; empty when there is none."""
    side_of = sides(plan)
    for node in plan.nodes:
        varies = not node.operator.deterministic or getattr(node.operator, "merge", "") == "arrival"
        if varies and side_of[node.id] != ON_CLOUD:
            return f"{node.operator.kind!r}"
    return ""


def _largest_every(row: Row, contract: Contract, loads: Mapping[str, Load], hosts: Collection[Host]) -> int | None:
    """0 for a row without snapshots; None where no number of elements fits the delay."""
    spool = min((host.spool_bytes for host in hosts), default=0)
    bound_s = None if contract.delay_us_max is None else contract.delay_us_max / SECOND_US
    for every in EVERY if row.include is not Include.NOTHING else (0,):
        fits = all(
            (every * load.element_bytes <= spool)
            and (bound_s is None or load.wait_s + recovery_s(row, load, max(1, every), hosts) <= bound_s)
            for load in loads.values()
        )
        if fits:
            return every
    return None


def _explained(best: Choice, fit: int, judged: int, contract: Contract) -> Choice:
    bound = "" if contract.delay_us_max is None else f" of {duration_text(contract.delay_us_max)} allowed"
    why = (
        f"the cheapest of {fit} that keep it ({judged} asked): {best.bytes_per_element:.3g} bytes per element for it, "
        f"recovery in {best.recovery_s:.0f} s{bound}"
    )
    return Choice(best.row, best.every, why, "", best.bytes_per_element, best.memory_bytes, best.recovery_s)


def _exposure(row: Row | None) -> tuple[int, int, int]:
    """Of rows that lack as much, the nearest is the one that stores and retains most, on fewest nodes."""
    if row is None:
        return (0, 0, 0)
    return (int(row.include is Include.NOTHING), int(row.keep is Keep.NOTHING), row.copies)
