"""A record file gives each reader exactly its rows, in the producer's order, or says that it is damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud_backend.spark.slots import SLOTS, Range
from cloud_backend.spark.storage import records
from cloud_backend.spark.storage.records import Rows
from cloud_backend.spark.storage.store import Store
from shared.errors import DamagedData
from shared.language.schema import Schema

SCHEMA = Schema.of({"name": "str", "value": "float64", "flag": "bool"})


def make(slots: list[int], *, texts: list[str] | None = None) -> Rows:
    count = len(slots)
    return Rows(
        SCHEMA,
        {
            "name": np.array(texts or [f"é{i}" for i in range(count)], np.dtypes.StringDType()),
            "value": np.arange(count) / 3,
            "flag": np.arange(count) % 2 == 0,
        },
        np.arange(count, dtype=np.int64) * 10,
        np.arange(count, dtype=np.int64),
        np.array(slots, np.uint16),
    )


@settings(deadline=None)
@given(slots=st.lists(st.integers(0, SLOTS - 1), max_size=60), cut=st.integers(1, SLOTS - 1))
def test_two_readers_get_every_row_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, slots: list[int], cut: int
) -> None:
    store = Store(tmp_path_factory.mktemp("records"))
    store.create()
    path = store.files / "r"
    rows = make(slots)
    path.write_bytes(records.encode(rows)[0])
    seen = []
    for range_ in (Range(0, cut), Range(cut, SLOTS)):
        part = records.read_slice(store, "r", range_)[0].plain()
        inside = [index for index, slot in enumerate(slots) if range_.lo <= slot < range_.hi]
        wanted = rows.take(np.array(sorted(inside, key=lambda index: slots[index]), np.intp))
        assert part.seq.tolist() == wanted.seq.tolist()
        assert part.columns["name"].tolist() == wanted.columns["name"].tolist()
        assert part.columns["value"].tobytes() == wanted.columns["value"].tobytes()
        seen += part.seq.tolist()
    assert sorted(seen) == list(range(len(slots)))


def test_digests_compare_content_not_numbering() -> None:
    rows = make([5, 5, 900])
    renumbered = Rows(rows.schema, rows.columns, rows.time_us, rows.seq + 7, rows.slot)
    footer, other = records.encode(rows)[1], records.encode(renumbered)[1]
    assert footer.digest_of(Range(0, SLOTS)) == other.digest_of(Range(0, SLOTS))
    changed = records.encode(make([5, 5, 900], texts=["é0", "é1", "x"]))[1]
    assert changed.digest_of(Range(0, 512)) == footer.digest_of(Range(0, 512))
    assert changed.digest_of(Range(512, SLOTS)) != footer.digest_of(Range(512, SLOTS))


def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    data = records.encode(make([1, 2, 700]))[0]
    store = Store(tmp_path)
    store.create()
    path = store.files / "r"
    for position in range(8, len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        try:
            rows = records.read_slice(store, "r", Range(0, SLOTS))[0].plain()
        except DamagedData:
            continue
        # Only `seq` is outside the digest: it numbers rows and says nothing.
        assert rows.columns["name"].tolist() == ["é0", "é1", "é2"]


def test_a_missing_or_torn_file_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create()
    with pytest.raises(DamagedData, match=r"\[record-missing\]"):
        records.read_footer(store, "gone")
    data = records.encode(make([1]))[0]
    for length in (0, 5, len(data) // 2, len(data) - 1):
        (store.files / "torn").write_bytes(data[:length])
        with pytest.raises(DamagedData, match=r"\[record-torn\]"):
            records.read_slice(store, "torn", Range(0, SLOTS))
