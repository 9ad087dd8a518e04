"""Whatever the columns hold, they come back bit for bit; whatever the bytes are, decoding ends in a batch or a PeerError."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from shared.batch import Batch
from shared.errors import PeerError
from shared.language.schema import KINDS, Schema, dtype
from shared.wire.columns import CODEC_COLUMNS, Cache, decode, encode
from tests.examples_drawn import examples_drawn


@st.composite
def columns_of(draw: st.DrawFn, kind: str, rows: int) -> np.ndarray:
    if kind == "str":
        texts = draw(st.lists(st.text(max_size=12), min_size=rows, max_size=rows))
        return np.array(texts, dtype=dtype("str"))
    anything = hnp.arrays(dtype(kind), rows)
    if kind.startswith("float"):
        digits = draw(st.integers(0, 6))
        step = draw(st.floats(1e-6, 10))
        gridded = hnp.arrays(np.int32, rows).map(
            lambda k: (np.round(k / 10.0**digits, digits) if digits % 2 else k * step).astype(dtype(kind))
        )
        return draw(anything | gridded)
    return draw(anything)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=4))
    rows = draw(st.integers(0, 40) | st.sampled_from([64, 200]))
    schema = Schema.of({f"c{place}": kind for place, kind in enumerate(kinds)})
    columns = {field.name: draw(columns_of(field.kind, rows)) for field in schema}
    gaps = draw(hnp.arrays(np.int64, rows, elements=st.integers(1, 5)) | st.just(np.ones(rows, np.int64)))
    lo = draw(st.integers(0, 2**40))
    seq = lo - 1 + np.cumsum(gaps)
    times = draw(hnp.arrays(np.int64, rows))
    return Batch(schema, columns, times, seq, lo, int(seq[-1]) + 1 if rows else lo + 3)


@pytest.mark.covers("SO-12")
@examples_drawn(50, 1_000, st.lists(batches(), min_size=1, max_size=3))
def test_any_batches_through_one_cache_come_back_bit_for_bit(several: list[Batch]) -> None:
    cache = Cache()
    for batch in several:
        codec, payload = encode(batch, cache=cache)
        again = decode(codec, payload, batch.schema, lo=batch.lo, hi=batch.hi)
        assert again.seq.tobytes() == batch.seq.tobytes()
        assert again.time_us.tobytes() == batch.time_us.tobytes()
        for field in batch.schema:
            ours, theirs = again.columns[field.name], batch.columns[field.name]
            assert ours.dtype == theirs.dtype
            assert ours.tolist() == theirs.tolist() if field.kind == "str" else ours.tobytes() == theirs.tobytes()


@examples_drawn(150, 2_000, st.binary(max_size=400), st.lists(st.sampled_from(KINDS), max_size=4), st.integers(0, 5000))
def test_any_bytes_decode_to_a_batch_or_a_peer_error(payload: bytes, kinds: list[str], count: int) -> None:
    schema = Schema.of({f"c{place}": kind for place, kind in enumerate(kinds)})
    try:
        batch = decode(CODEC_COLUMNS, payload, schema, lo=0, hi=count)
    except PeerError:
        return
    assert len(batch) <= count


@examples_drawn(50, 1_000, batches(), st.data())
def test_a_mangled_payload_decodes_to_a_batch_or_a_peer_error(batch: Batch, data: st.DataObject) -> None:
    _, payload = encode(batch)
    mangled = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 4))):
        mangled[data.draw(st.integers(0, len(mangled) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PeerError):
        assert len(decode(CODEC_COLUMNS, bytes(mangled), batch.schema, lo=batch.lo, hi=batch.hi)) <= batch.hi - batch.lo
