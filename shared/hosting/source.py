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
from shared.recovery.marks import Freeze, Mark, MarkId
from shared.recovery.strategies import STRATEGIES


class Source:
    def __init__(
        self, spec: EdgeSpec, query: HostedQuery, boot: int, random: Random, *, first: int = 0, head: int = 0
    ) -> None:
        """`first` and `head`: what is in its spool already."""
        self._marked, self._head = first, head  # up to where elements count towards marks, and what there is
        self.spec = spec
        self.query = query.name
        self._cut: Mark | None = None
        self.cut_reached = 0  # the newest cut before whose mark all who read it have everything
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
        marks = self.more_marks()
        self._head = head
        if self._marked < head - count or not self.checkpoints.may_begin:
            return [*marks, *self.more_marks()]
        self._marked = head
        return [*marks, *self._froze(self.checkpoints.elements(count), head)]

    def more_marks(self) -> list[Mark]:
        """The marks among what waits here. Only so many snapshots are pending at a time, and what waits may be more
        than its readers have room for without one: so they follow when earlier ones are permanent."""
        marks: list[Mark] = []
        while self._marked < self._head and self.checkpoints.may_begin:
            count = min(self._head - self._marked, self.checkpoints.elements_left)
            self._marked += count
            marks += self._froze(self.checkpoints.elements(count), self._marked)
        return marks

    def begin_cut(self, id: MarkId, head: int) -> list[Mark]:
        """The marks of a cut that the coordinator wants to begin, behind what was made so far."""
        marks = self._froze(self.checkpoints.request(id), head)
        if marks:
            self._cut = marks[-1]
        return marks

    def receipted(self, through: int) -> None:
        """All who read it have everything below this."""
        if self._cut is not None and through >= self._cut.position:
            self.cut_reached = self._cut.id.number

    def _froze(self, freeze: Freeze | None, head: int) -> list[Mark]:
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
