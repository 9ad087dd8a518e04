"""A machine that gives rows later than it took them, with their old times, holds back the frontier of what follows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import resurge as rs
from resurge.evaluate import plan_of, whole_fragment
from shared.batch import END_OF_TIME, Batch
from shared.engine.pipeline import Pipeline
from shared.language.registry import Row

SECOND = 1_000_000


@rs.operator("held_in_pairs", takes={"v": "int64"}, gives={"v": "int64"})
class InPairs:
    """A key's rows two by two: the first of each pair waits for the second."""

    def __init__(self) -> None:
        self.first: tuple[int, int] | None = None

    def process(self, _port: str, row: Row) -> Iterator[Row]:
        own = (int(row["time"]), int(row["v"]))
        if self.first is None:
            self.first = own
            return
        for time, value in (self.first, own):
            yield {"time": time, "v": value}
        self.first = None

    def holds_since(self) -> int | None:
        return None if self.first is None else self.first[0]

    def snapshot(self) -> bytes:
        return b"" if self.first is None else np.array(self.first, np.int64).tobytes()

    def restore(self, state: bytes) -> None:
        held = np.frombuffer(state, np.int64).tolist()
        self.first = (held[0], held[1]) if held else None


def pipeline() -> Pipeline:
    return Pipeline(whole_fragment(plan_of(rs.sensor("x", every="1s", columns={"v": "int64"}).apply("held_in_pairs"))))


def push(running: Pipeline, *rows: tuple[int, str]) -> list[int]:
    """Rows of (time, device); the times of what comes out."""
    schema = running.fragment.input("x").schema
    times = [time for time, _ in rows]
    columns = {"v": times, "device": [device for _, device in rows]}
    made = Batch.of(schema, {name: columns[name] for name in schema.names}, times)
    return [time for _, batch in running.push("x", made) for time in batch.time_us.tolist()]


def promised(running: Pipeline) -> int:
    return running.frontier_us(running.fragment.outputs[0].name)


def test_time_passes_as_far_as_the_earliest_row_that_is_held() -> None:
    running = pipeline()
    assert push(running, (1 * SECOND, "a"), (2 * SECOND, "a"), (3 * SECOND, "a")) == [1 * SECOND, 2 * SECOND]
    running.advance("x", 9 * SECOND)
    assert promised(running) == 3 * SECOND, "the third row still waits"
    assert push(running, (9 * SECOND, "a")) == [3 * SECOND, 9 * SECOND]
    running.advance("x", 10 * SECOND)
    assert promised(running) == 10 * SECOND


def test_what_is_held_is_known_again_after_a_restore() -> None:
    running, follower, other = pipeline(), pipeline(), pipeline()
    follower.restore(running.snapshot())
    push(running, (3 * SECOND, "a"))
    follower.apply_changes(running.changes_since_snapshot())
    other.restore(running.snapshot())
    for one in (follower, other):
        one.advance("x", 9 * SECOND)
        assert promised(one) == 3 * SECOND


def test_at_the_end_of_time_nothing_waits_any_more() -> None:
    running = pipeline()
    push(running, (3 * SECOND, "a"))
    running.advance("x", END_OF_TIME)
    assert promised(running) == END_OF_TIME


def test_one_devices_rows_hold_back_that_device_alone() -> None:
    counted = rs.sensor("x", every="1s", columns={"v": "int64"}).apply("held_in_pairs").tumbling("1s")
    running = Pipeline(whole_fragment(plan_of(counted.aggregate(n=rs.count()))))
    push(running, (1 * SECOND, "a"), (1 * SECOND, "b"), (1 * SECOND, "b"))
    closed = [batch for _, batch in running.advance_devices("x", {"a": 9 * SECOND, "b": 9 * SECOND})]
    assert [batch.columns["n"].tolist() for batch in closed] == [[2]], "b's window"
    push(running, (9 * SECOND, "a"))
    closed = [batch for _, batch in running.advance_devices("x", {"a": 10 * SECOND})]
    assert [batch.columns["n"].tolist() for batch in closed] == [[1], [1]], "a's first row was not late"
