"""A device's own edge into a region: it marks its elements, and has nothing to snapshot.

What it sent is in its spool until the readers' receipts; its state is the device's own affair (`mobile_app/spool`).
"""

from __future__ import annotations

from random import Random

from shared.batch import NO_FRONTIER
from shared.hosting.initiators import initiator_text
from shared.hosting.wiring import EdgeSpec
from shared.plan.deployment import HostedQuery
from shared.recovery.checkpoints import Checkpoints, Store
from shared.recovery.marks import Mark
from shared.recovery.strategies import STRATEGIES


class Source:
    def __init__(self, spec: EdgeSpec, query: HostedQuery, boot: int, random: Random) -> None:
        self.spec = spec
        self._frontier_us = NO_FRONTIER
        self.checkpoints = Checkpoints(
            STRATEGIES[query.row].row, (), (spec.label,), frozenset(), query.every,
            name=spec.label, random=random, term=boot, initiator=initiator_text(f"{spec.label}@{boot}"),
        )  # fmt: skip

    def advance(self, frontier_us: int) -> None:
        self._frontier_us = max(self._frontier_us, frontier_us)

    def frontier_us(self, spec: EdgeSpec) -> int:  # noqa: ARG002 - as an instance answers, which has several
        """No earlier element follows, as far as its device has said."""
        return self._frontier_us

    def elements(self, count: int, head: int) -> list[Mark]:
        """So many more were made; the marks that go behind them."""
        freeze = self.checkpoints.elements(count)
        if freeze is None:
            return []
        marks = [mark for _, mark in self.checkpoints.froze(freeze.id, {}, {self.spec.label: head}, 0)]
        self.settle()
        return marks

    def settle(self) -> None:
        for event in self.checkpoints.events():
            if isinstance(event, Store):
                self.checkpoints.stored(event.id)
        self.checkpoints.events()
