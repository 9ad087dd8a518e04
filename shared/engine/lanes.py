"""Short ways through a pipeline: one input, one operator, one output, on a device.

Most of a device's programs have that form, and with batches of a thousand rows the general way (who reads what, whose
frontier is it) costs as much as the rows themselves. A lane does what the general way does, to the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from shared.batch import Batch
from shared.engine.operator import Operator
from shared.engine.rows import Constant, Progress, Rows, as_batch
from shared.engine.sliding import SlidingWindows
from shared.engine.windowing import TimeWindows
from shared.plan.fragments import Output
from shared.plan.operators import COMPLETE, DEVICE, WINDOW_END, WINDOW_START

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
    if isinstance(operator, SlidingWindows) and operator.one_mean:
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
    """One mean over the last so many rows, one out for each row in: `SlidingWindows` with a third of its steps, for one
    device's finite values in order of time between two anchors. Anything else goes the general way."""
    out, schema = output.name, output.schema
    size, width, anchor, numbering = windows.size, windows.size - 1, windows.anchor, windows.numbering
    column, field, divisor = windows.reads[0], windows.aggregation.fields[0].name, float(windows.size)
    says_device = DEVICE in schema.names
    around = [each for each in schema.names if each not in (field, DEVICE)]
    histories, only = windows.histories, 0  # the device is the only key there is
    accumulate, divide, empty, isfinite = np.add.accumulate, np.divide, np.empty, math.isfinite

    def push(batch: Batch) -> Outputs:
        time, values = batch.time_us, batch.columns[column]
        count, history = len(time), histories.get(only)
        if history is None or history.odd or not history.in_order or history.number < width or count < width:
            return plain(batch)
        turn, before = history.number % anchor, history.time
        if turn + count > anchor or time.item(0) < before.item(-1):
            return plain(batch)
        rising = time[1:] >= time[:-1]
        if not rising.item(rising.argmin()):
            return plain(batch)
        sums = empty(count + size)
        later = sums[size:]
        later[:] = values
        if not isfinite(later.dot(later)):  # also keeps the prefixes from overflowing
            return plain(batch)
        channel = history.channels[0]
        if not turn:
            channel.anchor()
        sums[:size] = channel.sums
        tail = sums[width:]
        accumulate(tail, 0, None, tail)
        means = later - sums[:count]
        divide(means, divisor, means)
        keep = count - width
        channel.sums = sums[count:]
        history.number += count
        history.time = time[keep:]
        history.columns[column] = values[keep:]
        if windows.changed is not None:
            windows.changed.add(only)
        columns = {field: means}
        if says_device:
            columns[DEVICE] = device.column(count)
        if around:
            columns.update(bounds(before, time))
        frontier = batch.frontier_us
        if frontier > floors[name]:  # rows of count windows never wait for it
            floors[name] = windows.frontier.floor_us = frontiers[out] = frontier
        lo = numbering.next
        return [(out, Batch(schema, columns, time, numbering.take(count), lo, numbering.next, frontiers[out]))]

    def bounds(before: np.ndarray, time: np.ndarray) -> dict[str, np.ndarray]:
        every = {
            WINDOW_START: np.concatenate((before, time))[: len(time)],
            WINDOW_END: time + 1,
            COMPLETE: windows.completes(time),
        }
        return {each: every[each] for each in around}

    return push
