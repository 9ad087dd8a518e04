"""Runs of one case: whole, cut into random batches, killed and restored on the way."""

from __future__ import annotations

import numpy as np

from resurge.evaluate import as_columns, plan_of, whole_fragment
from shared.batch import END_OF_TIME, NO_FRONTIER, Batch
from shared.engine.pipeline import Pipeline
from tests.conformance.programs import Case

PIECES = 3  # of a base


def bits(columns: dict[str, np.ndarray]) -> list[tuple[object, ...]]:
    """Rows whose equality is equality of every bit; NaNs are one."""
    parts = []
    for name, column in columns.items():
        if column.dtype.kind == "f":
            wide = np.where(np.isnan(column), np.nan, column)
            parts.append(wide.astype(column.dtype).view(f"u{column.dtype.itemsize}").tolist())
        else:
            parts.append(column.tolist())
        assert len(parts[-1]) == len(columns["time"]), name
    return list(zip(*parts, strict=True))


def rebatched(case: Case, seed: int, *, by_device: bool = False) -> list[tuple[object, ...]]:
    """The case's rows pushed in random pieces with honest frontiers, through kills and restores and change sets."""
    draw = np.random.default_rng(seed)
    plan = plan_of(case.stream)
    fragment = whole_fragment(plan)
    pipeline = Pipeline(fragment)
    follower = Pipeline(fragment)  # lives by change sets
    follower.restore(pipeline.snapshot())
    given = {name: as_columns(plan, name, columns) for name, columns in case.inputs.items()}
    at = dict.fromkeys(given, 0)
    found: list[Batch] = []
    promised_us = NO_FRONTIER  # that nothing earlier follows on the output

    pieces: list[bytes] = []  # of the base that is under way

    def hand_over() -> None:
        """What changed, alone or with a piece of the rest; a follower made of the pieces alone goes on for the other."""
        nonlocal follower
        if not pieces and draw.random() < 0.5:
            follower.apply_changes(pipeline.changes_since_snapshot())
            return
        pieces.append(pipeline.piece(len(pieces), PIECES))
        follower.apply_changes(pieces[-1])
        if len(pieces) == PIECES:
            follower = Pipeline(fragment)
            for each in pieces:
                follower.apply_changes(each)
            pieces.clear()

    def take(outputs: list[tuple[str, Batch]]) -> None:
        nonlocal promised_us
        found.extend(batch for _, batch in outputs)
        for _, batch in outputs:
            assert not len(batch) or batch.time_us.min() >= promised_us, "a row came behind the promised frontier"
        promised_us = max(promised_us, pipeline.frontier_us(fragment.outputs[0].name))

    names = [entry.name for entry in fragment.inputs]
    for name in names:
        if name not in given:
            take(pipeline.advance(name, END_OF_TIME))
    while any(at[name] < len(given[name]["time"]) for name in given):
        name = str(draw.choice([name for name in given if at[name] < len(given[name]["time"])]))
        start = at[name]
        stop = min(len(given[name]["time"]), start + int(draw.choice([0, 1, 2, 7, 50, 400])))
        at[name] = stop
        piece = {column: values[start:stop] for column, values in given[name].items()}
        entry = fragment.input(name)
        take(pipeline.push(name, Batch.of(entry.schema, piece, piece["time"], lo=start)))
        rest = given[name]["time"][stop:]
        if draw.random() < 0.7:
            if by_device:
                devices = given[name]["device"]
                frontiers = {}
                for device in sorted(set(devices.tolist())):
                    own = rest[devices[stop:] == device]
                    frontiers[device] = int(own.min()) if len(own) else END_OF_TIME
                take(pipeline.advance_devices(name, frontiers))
            else:
                take(pipeline.advance(name, int(rest.min()) if len(rest) else END_OF_TIME))
        if draw.random() < 0.3:
            hand_over()
        if draw.random() < 0.15:
            if draw.random() < 0.5:
                hand_over()
                state = follower.snapshot()
            else:
                state = pipeline.snapshot()
            pipeline, follower = Pipeline(fragment), Pipeline(fragment)
            pipeline.restore(state)
            follower.restore(state)
            pieces.clear()
    for name in names:
        take(pipeline.advance(name, END_OF_TIME))
    out = fragment.outputs[0]
    columns = {"time": np.concatenate([batch.time_us for batch in found]) if found else np.empty(0, np.int64)}
    for column in out.schema:
        pieces = [batch.columns[column.name] for batch in found]
        columns[column.name] = np.concatenate(pieces) if pieces else np.empty(0)
    assert all(batch.frontier_us >= NO_FRONTIER for batch in found)
    return bits(columns)
