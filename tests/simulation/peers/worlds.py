"""A world of several nodes from a seed: what fails in it, what its sinks should hold, and what is wrong with it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home, Include
from tests.simulation.peers.checkers import every_checker
from tests.simulation.peers.programs import settings, undisturbed
from tests.simulation.peers.world import ALL_KINDS, Fault, Outcome, Settings, faults_of, run

NODES = range(5)


def disturbed(name: str, row: str, seed: int) -> Settings:
    """A world in which nodes, links and messages fail; what it does follows from the seed."""
    rng = Random(f"{name} {row} {seed}")
    return settings(
        name, row=row, seed=seed, loss=rng.choice((0.0, 0.05, 0.2)), duplication=rng.choice((0.0, 0.05)),
        copies=rng.choice((1, 2)), faults=faults_of(rng, NODES, rng.randint(2, 5), 2.5, ALL_KINDS), settle_s=30.0,
        heard=rng.choice((0.0, 0.1, 0.4)) if STRATEGIES[row].row.home is Home.REGION else None,
        within_s=300.0,  # a fifth of the messages lost costs the cycles three minutes
    )  # fmt: skip


def narrow(name: str, row: str, seed: int) -> Settings:
    """As `disturbed`, and an exchange has room for two batches or so: a backlog takes many of them, and whatever fails
    falls between two. Each loss costs seconds, so that there are few."""
    world = disturbed(name, row, seed)
    return replace(world, exchange_bytes_max=700, loss=min(world.loss, 0.05))


def moving(name: str, row: str, seed: int) -> Settings:
    """A world in which vertices move while it runs. Where a row's snapshots allow it nodes, links and messages fail,
    too; else only the coordinator is killed, and messages come twice: whatever is taken for silent begins empty."""
    rng = Random(f"moves {name} {row} {seed}")
    keeps = STRATEGIES[row].row.include is not Include.NOTHING
    kinds = ("crash", "cut", "primary", "backup", "commit", "torn")
    faults = faults_of(rng, NODES if keeps else (0,), rng.randint(0, 2), 5.0, kinds if keeps else ("crash",))
    moves = tuple(
        Fault(
            rng.uniform(0.3, 5.0), rng.randrange(6), rng.choice(("move", "move", "leave", "meet") if keeps else ("move",)),
            rng.uniform(0.2, 9.0), to=rng.choice(NODES if keeps else NODES[1:]),
        )
        for _ in range(rng.randint(2, 4))
    )  # fmt: skip
    return settings(
        name, row=row, seed=seed, loss=rng.choice((0.0, 0.02, 0.05)) if keeps else 0.0,
        duplication=rng.choice((0.0, 0.05)), copies=rng.choice((1, 2)), faults=faults + moves, settle_s=30.0, every_s=0.2,
        heard=rng.choice((0.0, 0.1, 0.4)) if STRATEGIES[row].row.home is Home.REGION else None,
    )  # fmt: skip


def halved(name: str, row: str, seed: int) -> Settings:
    """A region of 8 to 16 nodes of which half stop for good, in a phase of a cut that follows from the seed; others come
    back, the coordinator is killed, messages are lost."""
    rng = Random(f"half {name} {row} {seed}")
    half = Fault(rng.uniform(0.5, 5.0), seed, "half", rng.uniform(0.2, 6.0))
    more = faults_of(rng, range(8), rng.randint(0, 2), 6.0, ("crash", "cut", "primary", "commit", "torn"))
    if rng.random() < 0.3:
        more += (Fault(half.at + rng.uniform(0.0, 4.0), 0, "crash", rng.uniform(0.2, 3.0)),)
    return settings(
        name, row=row, seed=seed, nodes=rng.randint(8, 16), loss=rng.choice((0.0, 0.0, 0.02)),
        duplication=rng.choice((0.0, 0.05)), faults=(half, *more), settle_s=30.0, every_s=0.3, within_s=200.0,
        heard=rng.choice((None, 0.0, 0.1, 0.4)),
    )  # fmt: skip


def large(name: str, row: str, seed: int) -> Settings:
    """As `halved`, with batches that are large enough to be broadcast, and datagrams that are lost."""
    world, rng = halved(name, row, seed), Random(f"large {seed}")
    return replace(world, batch=60, heard=rng.choice((0.0, 0.1, 0.4)), every_s=1.0)


def older(name: str, row: str, seed: int) -> Settings:
    """A keeper loses the newest changes that it has said to have, while there are some (of `many`). When it has answered
    again, and snapshots have come, who runs the vertex stops."""
    rng = Random(f"older {name} {row} {seed}")
    lost = Fault(rng.uniform(2.6, 4.0), 0, "older", 0.2)
    faults = (lost, Fault(lost.at + rng.uniform(3.5, 4.0), 0, "primary", 9.0))
    return settings(name, row=row, seed=seed, faults=faults, settle_s=30.0, every_s=0.3, every=60)


def eager(name: str, row: str, seed: int) -> Settings:
    """Snapshots follow each other sooner than they are stored, so that some are passed over. Who runs a vertex stops."""
    rng = Random(f"eager {name} {row} {seed}")
    faults = tuple(Fault(rng.uniform(0.5, 1.7), vertex, "primary", 9.0) for vertex in range(2))
    return settings(
        name,
        row=row,
        seed=seed,
        faults=faults,
        settle_s=30.0,
        batch=10,
        every=10,
        every_s=0.02,
        copies=rng.choice((1, 2)),
    )


WORLDS = {
    "older": older,
    "eager": eager,
    "disturbed": disturbed,
    "narrow": narrow,
    "moving": moving,
    "halved": halved,
    "large": large,
}


def outcome_of(name: str, row: str, seed: int, *, keep: bool = False, world: str = "disturbed") -> Outcome:
    """Of one world; what is wrong with its results is named as what is wrong in it."""
    ideal = undisturbed(name)
    outcome = run(WORLDS[world](name, row, seed), ideal.elements, keep=keep, observers=every_checker())
    if not outcome.violation and outcome.lost:
        outcome.violation = f"NothingLost: {outcome.lost} elements are"
    if not outcome.violation and outcome.digest != ideal.digest:
        outcome.violation = "OutputAsIdeal: the sinks hold something else"
    return outcome
