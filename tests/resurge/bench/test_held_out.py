"""The codec on recordings it was not made on; `resurge bench wire` tries more of them."""

from __future__ import annotations

import pytest

from resurge.bench._held_out import FULL_PRECISION, held_out
from resurge.bench._recordings import batch_of
from shared.wire.columns import decode, encode


def test_drawn_sensors_come_back_bit_for_bit_and_no_larger_than_from_pcodec():
    wire = pytest.importorskip("resurge.bench.wire", reason="pcodec is only installed for benches")
    ratios: dict[str, float] = {}
    for name, columns in held_out(2).items():
        batch = batch_of(columns)
        codec, payload = encode(batch)
        again = decode(codec, payload, batch.schema, lo=batch.lo, hi=batch.hi)
        assert again.time_us.tobytes() == batch.time_us.tobytes()
        assert all(again.columns[key].tobytes() == batch.columns[key].tobytes() for key in batch.schema.names)
        ratios[name] = len(payload) / wire._pcodec_size(columns)
    assert len(ratios) == 10
    assert max(ratio for name, ratio in ratios.items() if not name.startswith(FULL_PRECISION)) <= 1.0, ratios
    assert max(ratios.values()) <= 1.02, ratios


def test_the_same_seed_draws_the_same_recordings():
    first, again = held_out(1), held_out(1)
    for name, columns in first.items():
        assert all(column.tobytes() == again[name][key].tobytes() for key, column in columns.items())
