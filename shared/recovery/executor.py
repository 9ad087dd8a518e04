"""Carries out a recovery plan: old placements in, new ones out. Storing and sending them is somebody else's.

There is no script of steps. Nodes compare a new deployment with what they do: restore from their own keeper, and learn
at first contact where a replay begins. A plan names places and terms, not changes, so after a crash midway it is
carried out again and nothing is different.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from shared.plan.deployment import Placement
from shared.recovery.rollback import RecoveryPlan


def carry_out(plan: RecoveryPlan, placements: Iterable[Placement]) -> tuple[Placement, ...]:
    """The placements as the plan wants them, in their order. What is bypassed has none; terms never fall."""
    return tuple(_placed(plan, placed) for placed in placements if placed.vertex not in plan.bypasses)


def _placed(plan: RecoveryPlan, placed: Placement) -> Placement:
    vertex = placed.vertex
    move = plan.moves.get(vertex)
    if move is not None:
        planned = placed.to if move.hosts == placed.hosts else ""  # who should have handed it over is no host any more
        placed = replace(placed, hosts=move.hosts, keepers=move.keepers, to=planned)
    term = max(placed.term, plan.fences.get(vertex, 0))
    if term > placed.term:
        placed = replace(placed, to="", handed=None)
    anew = vertex in plan.forgotten if vertex in plan.rollback else placed.anew
    return replace(placed, term=term, anew=anew)
