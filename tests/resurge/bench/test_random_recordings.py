"""The codec on recordings it was not made on; `resurge bench wire` tries more of them."""

from __future__ import annotations

from importlib.util import find_spec

from resurge.bench._random_recordings import FULL_PRECISION, held_out
from resurge.bench._recordings import batch_of, raw_bytes
from shared.wire.columns import decode, encode


def test_drawn_sensors_come_back_bit_for_bit_and_half_as_large():
    for name, columns in held_out(2).items():
        batch = batch_of(columns)
        codec, payload = encode(batch)
        again = decode(codec, payload, batch.schema, lo=batch.lo, hi=batch.hi)
        assert again.time_us.tobytes() == batch.time_us.tobytes()
        assert all(again.columns[key].tobytes() == batch.columns[key].tobytes() for key in batch.schema.names)
        if not name.startswith(FULL_PRECISION):
            assert 2 * len(payload) < raw_bytes(columns), name


def test_drawn_sensors_are_no_larger_than_from_pcodec_where_that_is_installed():
    if find_spec("pcodec") is None:  # it comes with the benches only, and they check the same
        return
    from resurge.bench.wire import _size_ratio

    ratios = {name: _size_ratio(columns) for name, columns in held_out(2).items()}
    assert len(ratios) == 10
    assert max(ratio for name, ratio in ratios.items() if not name.startswith(FULL_PRECISION)) <= 1.0, ratios
    assert max(ratios.values()) <= 1.02, ratios


def test_the_same_seed_draws_the_same_recordings():
    first, again = held_out(1), held_out(1)
    for name, columns in first.items():
        assert all(column.tobytes() == again[name][key].tobytes() for key, column in columns.items())
