"""A fleet in words: the same sentences on the dashboard, on a phone and in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from shared.moves import Move
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Commit, Home, Include, Keep, Row, Trigger


def strategy_words(name: str, every: int) -> str:
    """What a strategy does for a query, in a sentence or two."""
    strategy = STRATEGIES.get(name)
    if strategy is None:
        return "A strategy that this version does not know."
    row = strategy.row
    if row.include is Include.NOTHING:
        return _without_snapshots(row)
    return f"{_when(row, every)} {_where(row)}{_counts(row)}"


def _without_snapshots(row: Row) -> str:
    if row.copies > 1:
        return f"Each vertex runs on {row.copies} nodes at once. When one fails, the other goes on."
    kept = " The device keeps as many readings as fit." if row.keep is Keep.RING else ""
    return f"No snapshots are taken: a vertex that fails begins empty.{kept}"


def _when(row: Row, every: int) -> str:
    if row.trigger is Trigger.COORDINATOR:
        return "All vertices take a snapshot when the coordinator says so,"
    about = "about " if row.trigger is Trigger.JITTERED else ""
    who = "The vertices take a snapshot together" if row.commit is Commit.READERS else "Each vertex takes a snapshot"
    return f"{who} {about}every {every:,} elements,"


def _where(row: Row) -> str:
    if row.home is Home.LOCAL:
        return "kept on the node's own disk."
    if row.home is Home.REGION:
        return "kept by every node of the fleet."
    return f"kept by {'another node' if row.copies == 1 else f'{row.copies} other nodes'}."


def _counts(row: Row) -> str:
    if row.commit is Commit.READERS:
        return " One is permanent once all that read from the vertex have theirs."
    return ""


def move_words(move: Move) -> str:
    """What happened to a vertex, without why."""
    if move.before == move.after:
        return f"{move.vertex} began again on {listed(move.after)}"
    gone, new = set(move.before) - set(move.after), set(move.after) - set(move.before)
    if len(move.before) > 1 or len(move.after) > 1:  # copies: say only what differs
        return f"{move.vertex} runs on {listed(move.after)}, no longer on {listed(sorted(gone or new))}"
    return f"{move.vertex} moved from {listed(move.before)} to {listed(move.after)}"


def listed(names: Sequence[str]) -> str:
    """hub1, hub2 and laptop"""
    if len(names) < 2:
        return names[0] if names else "nobody"
    return f"{', '.join(names[:-1])} and {names[-1]}"
