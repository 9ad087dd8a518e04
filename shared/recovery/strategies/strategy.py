"""What a strategy is: a row, and the decisions that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.recovery.failures import Failure, View
from shared.recovery.marks import Answer, Mark
from shared.recovery.rollback import RecoveryPlan
from shared.recovery.strategies.answers import answer
from shared.recovery.strategies.costs import Cost, VertexLoad, cost
from shared.recovery.strategies.recoveries import recover
from shared.recovery.strategies.row import Row

if TYPE_CHECKING:
    from shared.recovery.checkpoints import Checkpoints


@dataclass(frozen=True, slots=True)
class Strategy:
    row: Row

    def answer(self, mark: Mark, edge: str, mine: Checkpoints) -> Answer:
        """What a vertex does when this mark has its turn on this input."""
        return answer(mark, edge, mine)

    def recover(self, failure: Failure, view: View) -> RecoveryPlan:
        """Who goes back, who replays, and where everything is from then on."""
        return recover(self.row, failure, view)

    def cost(self, load: VertexLoad, every: int) -> Cost:
        """Of one vertex, with a snapshot every so many elements."""
        return cost(self.row, load, every)
