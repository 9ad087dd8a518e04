"""Short ways through a pipeline: one input, one operator, one output, on a device.

Most of a device's programs have that form, and with batches of a thousand rows the general way (who reads what, whose
frontier is it) costs as much as the rows themselves. A lane does what the general way does, to the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from shared.batch import Batch
from shared.engine.operator import Operator
from shared.engine.rows import Constant, Progress, Rows, as_batch
from shared.engine.sliding import SlidingWindows
from shared.engine.windowing import TimeWindows
from shared.plan.fragments import Output
from shared.plan.operators import DEVICE

Outputs: TypeAlias = list[tuple[str, Batch]]
Lane: TypeAlias = Callable[[Batch], Outputs]


def lane(
    operator: Operator,
    name: str,
    columns: Sequence[str],
    output: Output,
    *,
    device: Constant,
    adds_device: bool,
    floors: dict[str, int],
    frontiers: dict[str, int],
) -> Lane:
    """The lane from an input to an output. `floors` and `frontiers` are the pipeline's own, by input and output."""
    out, schema = output.name, output.schema

    def moved(frontier: int, runs: list[Rows]) -> Outputs:
        """What goes out: the runs, and what time lets go."""
        if frontier > floors[name]:
            floors[name] = frontier
            more, news = operator.advance(0, Progress(frontier))
            runs = runs + more
            if news is not None and news.floor_us > frontiers[out]:
                frontiers[out] = news.floor_us
        at = frontiers[out]
        return [(out, as_batch(rows, schema, at)) for rows in runs if len(rows.time) or rows.hi > rows.lo]

    def plain(batch: Batch) -> Outputs:
        given = batch.columns
        read = {column: given[column] for column in columns}
        if adds_device:
            read[DEVICE] = device.column(len(batch.time_us))
        with np.errstate(all="ignore"):
            return moved(batch.frontier_us, operator.push(0, Rows(read, batch.time_us, batch.seq, batch.lo, batch.hi)))

    if isinstance(operator, TimeWindows):
        return _waiting(operator, name, out, device, floors=floors, frontiers=frontiers, plain=plain, moved=moved)
    if isinstance(operator, SlidingWindows) and operator.has_quick:
        return _sliding(operator, name, output, device, floors=floors, frontiers=frontiers, plain=plain)
    return plain


def _waiting(
    windows: TimeWindows,
    name: str,
    out: str,
    device: Constant,
    *,
    floors: dict[str, int],
    frontiers: dict[str, int],
    plain: Lane,
    moved: Callable[[int, list[Rows]], Outputs],
) -> Lane:
    """Rows that wait to be folded and a frontier that closes nothing: most pushes into windows over time."""
    windows.device = device

    def push(batch: Batch) -> Outputs:
        if not windows.waits(batch.columns, batch.time_us, batch.seq):
            return plain(batch)
        frontier = batch.frontier_us
        if frontier > floors[name]:
            if not windows.quiet(frontier):
                with np.errstate(all="ignore"):
                    return moved(frontier, [])
            floors[name] = frontiers[out] = frontier
        return []

    return push


def _sliding(
    windows: SlidingWindows,
    name: str,
    output: Output,
    device: Constant,
    *,
    floors: dict[str, int],
    frontiers: dict[str, int],
    plain: Lane,
) -> Lane:
    """Means over the last so many rows, one out for each row in."""
    out, schema = output.name, output.schema
    numbering, frontier_of_windows = windows.numbering, windows.frontier
    surplus = windows.quick_names() - set(schema.names)

    def push(batch: Batch) -> Outputs:
        time = batch.time_us
        columns = windows.quick(batch.columns, time, device)
        if columns is None:
            return plain(batch)
        for column in surplus:
            del columns[column]
        frontier = batch.frontier_us
        if frontier > floors[name]:  # rows of count windows never wait for it
            floors[name] = frontier_of_windows.floor_us = frontiers[out] = frontier
        lo = numbering.next
        return [(out, Batch(schema, columns, time, numbering.take(len(time)), lo, numbering.next, frontiers[out]))]

    return push
