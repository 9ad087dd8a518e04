"""Publishing many rows at once says what publishing them one after the other would have said."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud_backend.results.rows import Identity, ResultRow, decode_key, decode_values, encode_key, encode_values
from cloud_backend.results.store import Results
from shared.errors import BrokenInvariant
from tests.examples_drawn import examples_drawn
from tests.postgres import PostgresServer

values = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text())


@examples_drawn(60, 2_000, st.lists(values, max_size=4), st.dictionaries(st.text(), values, max_size=4))
def test_keys_and_values_are_written_as_json_writes_them(key, found):
    def tagged(value: object) -> object:
        return f"f{value.hex()}" if isinstance(value, float) else f"s{value}" if isinstance(value, str) else value

    plain = {"separators": (",", ":"), "ensure_ascii": False}
    assert encode_key(tuple(key)) == json.dumps([tagged(value) for value in key], **plain)
    assert encode_values(found) == json.dumps({name: tagged(found[name]) for name in sorted(found)}, **plain)
    assert repr(decode_key(encode_key(tuple(key)))) == repr(tuple(key))
    assert repr(decode_values(encode_values(found))) == repr({name: found[name] for name in sorted(found)})


def test_numpys_scalars_are_written_as_pythons_are():
    given = {"f": np.float64(0.1), "g": np.float32(0.5), "i": np.int32(-3), "b": np.bool_(1), "s": np.str_("ü")}
    assert encode_values(given) == encode_values({"f": 0.1, "g": 0.5, "i": -3, "b": True, "s": "ü"})


class OneByOne:
    """The meaning of `publish`, row by row, in memory."""

    def __init__(self) -> None:
        self.answers: dict[Identity, tuple[ResultRow, int]] = {}
        self.downlinks: list[tuple[str, int, ResultRow]] = []
        self.heads: Counter[str] = Counter()
        self.corrections: Counter[str] = Counter()
        self.change = 0

    def publish(self, rows: Sequence[ResultRow], sessions: set[str]) -> int:
        before = {identity: row.revision for identity, (row, _) in self.answers.items()}
        news = [row for row in rows if before.get(row.identity, -1) < row.revision]
        for row in news:
            replaced = []
            former = self.answers.get((*row.identity[:4], 0))
            if row.row and former and not former[0].retract and former[0].revision < row.revision >> 32 << 32:
                replaced += [former[0]] if not row.retract or former[0].content() == row.content() else []
            if row.sink in sessions and not row.retract:
                grown_over = [each for each, _ in self.answers.values() if self._within(each, row)]
                replaced += sorted(grown_over, key=lambda each: (each.window_start_us, each.window_end_us, each.row))
            for each in (*(replace(one, revision=row.revision, retract=True) for one in replaced), row):
                self._put(each)
        return len(news)

    @staticmethod
    def _within(each: ResultRow, row: ResultRow) -> bool:
        inside = row.window_start_us <= each.window_start_us and each.window_end_us <= row.window_end_us
        same = (each.sink, each.key) == (row.sink, row.key) and each.identity != row.identity
        return same and inside and not each.retract and each.revision < row.revision

    def _put(self, row: ResultRow) -> None:
        known = self.answers.get(row.identity)
        self.corrections[row.sink] += known is not None and not known[0].retract
        self.change += 1
        self.answers[row.identity] = (row, self.change)
        if row.device:
            self.heads[row.device] += 1
            self.downlinks.append((row.device, self.heads[row.device], row))


def drawn_rows(epoch: int) -> st.SearchStrategy[list[ResultRow]]:
    def row(
        sink: str, key: int, start: int, length: int, term: int, retract: bool, device: str, value: int, number: int
    ):
        row_number = number if sink == "pairs" else 0
        return ResultRow(
            sink, device, (key,), start, start + length, term << 32 | epoch, retract, True, {} if retract else {"v": value},
            row_number,
        )  # fmt: skip

    one = st.builds(
        row, st.sampled_from(["windows", "sessions", "pairs"]), st.integers(0, 1), st.integers(0, 3), st.integers(1, 3),
        st.integers(1, 2), st.booleans(), st.sampled_from(["", "ann", "bob"]), st.integers(0, 2), st.integers(0, 2),
    )  # fmt: skip
    return st.lists(one, max_size=8, unique_by=lambda row: (row.identity, row.revision))


EPOCHS = st.tuples(*(drawn_rows(epoch) for epoch in range(1, 5)))


@examples_drawn(60, 2_000, EPOCHS)
def test_rows_at_once_say_what_rows_one_by_one_say(epochs):
    with tempfile.TemporaryDirectory() as directory:
        compare(Results(Path(directory) / "results.sqlite"), epochs)


@pytest.mark.parametrize("examples", [6, pytest.param(500, marks=pytest.mark.soak)])
def test_so_they_do_on_a_server(postgres: PostgresServer, examples: int):
    def on_a_server(epochs) -> None:
        postgres.clear()
        compare(Results(postgres.url()), epochs)

    settings(max_examples=examples, deadline=None)(given(EPOCHS)(on_a_server))()


def compare(results: Results, epochs) -> None:
    model = OneByOne()
    try:
        for epoch, rows in enumerate(epochs, start=1):
            try:
                found = results.publish(epoch, rows, sessions={"sessions"})
            except BrokenInvariant:  # two answers under one revision, which no job gives
                break
            assert found == model.publish(rows, {"sessions"})
            assert results.publish(epoch, rows, sessions={"sessions"}) == 0
        change, answers = results.changes(0, 10_000)
        assert answers == [row for row, _ in sorted(model.answers.values(), key=lambda each: each[1])]
        assert change == max((number for _, number in model.answers.values()), default=0)
        downlinks = [
            (device, seq, row) for device in ("ann", "bob") for seq, row in results.downlink(device, 0, limit=10_000)
        ]
        assert downlinks == sorted(model.downlinks, key=lambda each: each[:2])
        assert results.corrections() == {sink: count for sink, count in sorted(model.corrections.items()) if count}
    finally:
        results.close()


def test_two_answers_under_one_revision_change_nothing(tmp_path):
    results = Results(tmp_path / "results.sqlite")
    row = ResultRow("s", "ann", ("k",), 0, 10, 5, False, True, {"v": 1})
    results.publish(1, [row])
    with pytest.raises(BrokenInvariant, match="two answers with revision 5"):
        results.publish(2, [replace(row, key=("other",)), replace(row, values={"v": 2})])
    assert [found.key for found in results.current()] == [("k",)]
    assert results.downlink_head("ann") == 1


def test_only_windows_that_may_be_known_are_asked_about(tmp_path):
    def said(window: int, revision: int, number: int) -> ResultRow:
        return ResultRow(
            sink="mine", device="", key=(number,), window_start_us=60 * window, window_end_us=60 * window + 60,
            revision=revision, retract=False, complete=True, values={"n": revision},
        )  # fmt: skip

    results, traced = Results(tmp_path / "results.sqlite"), []
    results.publish(1, [said(1, 1, number) for number in range(20)])
    results._database._kept.statements.set_trace_callback(traced.append)
    assert (
        results.publish(2, [*(said(2, 2, each) for each in range(20)), *(said(1, 2, each) for each in (3, 99))]) == 22
    )
    assert sum("INSERT INTO incoming VALUES" in statement for statement in traced) == 2
    assert results.corrections() == {"mine": 1}
    results.close()
