"""The pieces of a base, byte by byte: stores hold them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import resurge as rs
from resurge import col, state
from resurge.evaluate import plan_of, whole_fragment
from shared.batch import Batch
from shared.engine.pipeline import Pipeline

FROZEN = Path(__file__).parent / "state_pieces_v2.json"
FORMER = Path(__file__).parent / "state_pieces_v1.json"  # with all devices in each piece
PARTS, KEYS = 3, 7


def _pipeline() -> Pipeline:
    readings = rs.sensor("probe", every="1s", columns={"group": "int64", "x": "int64"}).sync("probe", batch=10)
    counted = readings.key_by("group").state({"n": 0, "total": 0}, n=state.n + 1, total=state.total + col.x)
    sums = counted.key_by("group").tumbling("1d").aggregate(k=rs.count(), most=rs.max("total"))
    return Pipeline(whole_fragment(plan_of(sums)))


def _push(pipeline: Pipeline, first: int, groups: list[int]) -> None:
    (entry,) = pipeline.fragment.inputs
    times = 1_000_000 * np.arange(first, first + len(groups))
    values = {"group": np.array(groups), "x": times // 1_000_000}
    if "device" in entry.schema:
        values["device"] = np.array(["d"] * len(groups))
    pipeline.push(entry.name, Batch.of(entry.schema, values, times, lo=first))


def written() -> list[str]:
    """A piece with each of a few changes, one of them a key that came in between."""
    pipeline = _pipeline()
    _push(pipeline, 0, list(range(KEYS)))
    pipeline.snapshot()
    pieces = []
    for part in range(PARTS):
        _push(pipeline, 10 + part, [part + 2] if part != 1 else [KEYS])
        pieces.append(pipeline.piece(part, PARTS).hex())
    return [*pieces, pipeline.snapshot().hex()]


def test_pieces_are_written_as_they_were() -> None:
    assert json.loads(FROZEN.read_text()) == written()


@pytest.mark.parametrize("file", [FROZEN, FORMER], ids=["now", "former"])
def test_pieces_make_the_state_they_made(file: Path) -> None:
    *pieces, state_after = map(bytes.fromhex, json.loads(file.read_text()))
    pipeline, whole = _pipeline(), _pipeline()
    for each in pieces:
        pipeline.apply_changes(each)
    whole.restore(state_after)
    assert pipeline.snapshot() == whole.snapshot()
    assert file == FORMER or whole.snapshot() == state_after


if __name__ == "__main__":
    FROZEN.write_text(json.dumps(written(), indent=1) + "\n")
