"""A fleet in words: the same sentences on the dashboard, on a phone and in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shared.moves import Move, MoveAnswer, MovePreview
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


def applied_lines(applied: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Who applies which filters and projections to a device's rows, a line for each device."""
    parts: dict[str, list[str]] = {}
    for each in applied:
        words = ", then ".join(each["operators"])
        parts.setdefault(each["source"], []).append(f"{words} on {each['node']}")
    for source, said in parts.items():
        yield f"  rows of {source}: {'; '.join(said)}"


def preview_words(vertex: str, preview: MovePreview) -> list[str]:
    """What a move would do, in sentences."""
    gone = [name for name in preview.before if name not in preview.after]
    there = [name for name in preview.after if name not in preview.before]
    state = "the size is known once it is taken" if preview.state_bytes is None else _size(preview.state_bytes)
    nodes = "node" if preview.copies == 1 else "nodes"
    known = f"as {preview.measured} before took on average" if preview.measured else "none was measured here yet"
    return [
        f"{vertex} would move from {listed(gone)} to {listed(there)}.",
        f"Its state ({state}) goes to {preview.copies} {nodes} while it runs.",
        f"Only {listed(preview.streams)} pauses, for about {preview.pause_s:.1f} s ({known}). Nothing is lost or "
        "repeated.",
        f"{listed(there)} would run {_of(preview.runs_there, preview.room_there)}, {listed(gone)} "
        f"{_of(preview.runs_here, preview.room_here)}.",
    ]


def answer_words(answer: MoveAnswer) -> str:
    """What became of a request."""
    what, why = f"{answer.request.vertex} to {answer.request.to}", answer.why
    match answer.state:
        case "moved":
            return f"{what}: it runs there"
        case "under way":
            return f"{what}: under way"
        case "given up":
            return f"{what}: given up, it runs where it did ({why})"
        case "refused":
            return f"{what}: refused, {why} [{answer.code}]"
        case _:
            return f"{what}: what it would do was asked"


def _of(runs: int, room: int) -> str:
    return f"{runs} of at most {room} vertices"


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1000:.1f} KB" if size_bytes < 1_000_000 else f"{size_bytes / 1e6:.1f} MB"


def listed(names: Sequence[str]) -> str:
    """hub1, hub2 and laptop"""
    if len(names) < 2:
        return names[0] if names else "nobody"
    return f"{', '.join(names[:-1])} and {names[-1]}"
