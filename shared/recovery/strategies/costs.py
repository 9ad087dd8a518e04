"""What a strategy costs while nothing fails, and how much runs again when something does.

The formulas are the papers' arguments in numbers. Only bytes sent for recovery count: the elements travel anyway. S is
a snapshot's size, c the elements between two, b the bytes that one element makes on an output.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.recovery.strategies.row import Commit, Home, Include, Row


@dataclass(frozen=True, slots=True)
class VertexLoad:
    """One vertex as measured, or as guessed before there are measurements."""

    state_bytes: float  # S
    outputs: tuple[float, ...] = ()  # b of each output to another vertex, per element taken
    marks: int = 1  # initiators whose marks reach it in every c elements
    transfer_bytes: float = 0.0  # taken between the marks of two initiators: what an extension copies
    source_bytes: float = 0.0  # per element, on a source's edge; 0 behind it
    broadcast: float = 1.0  # bytes sent for each byte that everybody in a region gets


@dataclass(frozen=True, slots=True)
class Cost:
    bytes_per_element: float  # sent
    memory_bytes: float  # held here
    replay_elements: float  # run again after a failure


def cost(row: Row, load: VertexLoad, every: int) -> Cost:
    """Of one vertex under a row, with a snapshot every so many elements."""
    if row.include is Include.NOTHING:
        return _of_live_copies(row, load)
    if row.commit is Commit.REGION:
        return _of_region(load, every)
    return _of_snapshots(row, load, every)


def _of_live_copies(row: Row, load: VertexLoad) -> Cost:
    """All but one of the copies send what nobody needs; with one copy nothing is done, and nothing costs."""
    others = row.copies - 1
    return Cost(others * sum(load.outputs), others * load.state_bytes, 0.0)


def _of_region(load: VertexLoad, every: int) -> Cost:
    """One broadcast snapshot per period, and the sources' input at everybody until the next is complete. A failure
    takes all of the region back, by up to a period."""
    sent = load.broadcast * (load.state_bytes / every + load.source_bytes)
    return Cost(sent, load.state_bytes + load.source_bytes * every, float(every))


def _of_snapshots(row: Row, load: VertexLoad, every: int) -> Cost:
    """A snapshot that a vertex takes by itself carries what its outputs retain, half of c elements on average. Those
    that readers follow carry state only, one for each initiator; extending replaces all but one where that is smaller.
    Outputs are retained until the reader's snapshot, up to c elements."""
    each = load.state_bytes
    if row.include is Include.STATE_AND_TRANSFER:
        each += sum(load.outputs) * every / 2
    elif row.extends:
        each += (load.marks - 1) * min(load.state_bytes, load.transfer_bytes)
    else:
        each *= load.marks
    copies = {Home.LOCAL: 0.0, Home.REGION: load.broadcast}.get(row.home, float(row.copies))
    return Cost(copies * each / every, each + sum(load.outputs) * every, every / 2)
