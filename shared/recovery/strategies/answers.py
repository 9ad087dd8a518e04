"""The ways to answer a mark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.recovery.marks import Answer, Covered, Extend, Freeze, Hold, Mark
from shared.recovery.strategies.row import Align

if TYPE_CHECKING:
    from shared.recovery.checkpoints import Checkpoints


def answer(mark: Mark, edge: str, mine: Checkpoints) -> Answer:
    """What a vertex does when this mark has its turn on this input."""
    if mine.row.align is not Align.NONE:
        return _wait_for_all(mark, mine)
    if mine.row.extends:
        return _extend_or_freeze(mark, edge, mine)
    return _freeze_for_each(mark, edge, mine)


def _freeze_for_each(mark: Mark, edge: str, mine: Checkpoints) -> Answer:
    """ECOC: every mark starts a snapshot, and its id goes on.

    Where two paths meet, the second mark of an id needs a snapshot of its own: the first lacks elements of this edge.
    It gets an id of this vertex, so that an id names one snapshot. A mark that comes again finds its snapshot there."""
    if mine.covers(edge, mark.position):
        return Covered()
    return Freeze(mark.id if mine.is_new(mark.id) else mine.own_id())


def _extend_or_freeze(mark: Mark, edge: str, mine: Checkpoints) -> Answer:
    """Extended ECOC. The order of ids keeps waiting from going round in a circle; docs/recovery.md has the argument."""
    pending = mine.find(mark.id)
    if pending is not None and edge in mine.back:
        # The sender may wait for nothing that waits for it, and what is permanent waits for nobody.
        return Extend(mark.id, mine.permanent.inputs[edge])
    if pending is not None:
        return Extend(mark.id, pending.inputs[edge])
    if not mine.is_new(mark.id):
        return Extend(mark.id, mine.permanent.inputs[edge])
    older = mine.newest_before(mark.id)
    if older is not None and mine.bytes_since(older, edge) < mine.load:
        return Extend(mark.id, older.inputs[edge])
    return Freeze(mark.id)


def _wait_for_all(mark: Mark, mine: Checkpoints) -> Answer:
    """Hold early edges until every edge that may be held has its mark, then freeze. The first mark counts like any
    other. Edges on a cycle are recorded instead of waited for: blocking a cycle would wait for itself. A mark behind a
    later one is of a snapshot that was given up."""
    if not mine.is_new(mark.id) or mark.id.number < mine.aligned or mark.id.number <= mine.void:
        return Covered()
    if mine.awaited(mark.id):
        return Hold()
    return Freeze(mark.id, mine.unmarked(mark.id))
