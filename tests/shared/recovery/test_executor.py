"""Old placements in, new ones out."""

from __future__ import annotations

from shared.plan.deployment import Placement
from shared.recovery.executor import carry_out
from shared.recovery.rollback import Move, RecoveryPlan


def test_places_and_terms_become_what_the_plan_says_and_terms_never_fall() -> None:
    placements = (Placement("a", ("p",), ("b",), 3), Placement("b", ("p",), (), 9), Placement("c", ("p",), (), 1))
    plan = RecoveryPlan(
        frozenset("ab"), moves={"a": Move(("b",), ("c",))}, fences={"a": 4, "b": 7}, bypasses=frozenset("c")
    )
    assert carry_out(plan, placements) == (Placement("a", ("b",), ("c",), 4), Placement("b", ("p",), (), 9))
