"""Every choice of `.sync(codec=...)`: bit for bit back again, whatever was forged refused."""

from __future__ import annotations

import contextlib
import random
import zlib
from collections.abc import Iterator

import numpy as np
import pytest

from shared.batch import Batch
from shared.errors import PeerError, UsageError
from shared.language import codecs as registry
from shared.language.codecs import codec_names, register_codec
from shared.language.schema import KINDS, Schema, dtype
from shared.wire.codecs import CODEC_DEFLATE, CODEC_NONE, CODEC_REGISTERED, decode, encode
from shared.wire.columns import CODEC_COLUMNS
from shared.wire.frame import PAYLOAD_BYTES_MAX
from shared.wire.uncompressed_rows import PLAIN_BYTES_MAX, write_rows

NUMBERS = {"auto": CODEC_COLUMNS, "columns": CODEC_COLUMNS, "deflate": CODEC_DEFLATE, "none": CODEC_NONE, "turned": 3}


@pytest.fixture
def turned() -> Iterator[None]:
    """A codec of a user: every byte turned round, and nothing else."""
    register_codec("turned", pack=lambda data: data[::-1], unpack=lambda data, _: data[::-1])
    yield
    registry._codecs.clear()


def all_kinds(rows: int = 40, *, gaps: bool = True) -> Batch:
    columns: dict[str, np.ndarray] = {}
    for kind in KINDS:
        if kind == "str":
            columns[kind] = np.array([f"tram ü {n % 3}" for n in range(rows)], dtype=dtype("str"))
        else:
            columns[kind] = ((np.arange(rows) * 37) % 101).astype(dtype(kind))
    if rows > 5:
        columns["float64"][3:5] = [np.nan, -0.0]
    seq = np.arange(rows) * (2 if gaps else 1) + 100
    times = 1_700_000_000_000_000 + np.arange(rows) * 20_000
    return Batch(Schema.of({kind: kind for kind in KINDS}), columns, times, seq, 100, 100 + (2 if gaps else 1) * rows)


@pytest.mark.covers("SO-12")
@pytest.mark.parametrize("codec", NUMBERS)
@pytest.mark.parametrize("batch", [all_kinds(), all_kinds(gaps=False), all_kinds(0)], ids=["gaps", "dense", "empty"])
def test_a_batch_comes_back_bit_for_bit_and_the_number_says_how_it_was_packed(codec, batch, turned):
    number, payload = encode(batch, codec)
    assert number == NUMBERS[codec]
    back = decode(number, payload, batch.schema, lo=batch.lo, hi=batch.hi, frontier_us=7, applied=2)
    assert (back.lo, back.hi, back.frontier_us, back.applied) == (batch.lo, batch.hi, 7, 2)
    assert back.seq.tolist() == batch.seq.tolist()
    assert back.time_us.tolist() == batch.time_us.tolist()
    for name in batch.schema.names:
        ours, theirs = back.columns[name], batch.columns[name]
        assert ours.dtype == theirs.dtype
        assert ours.tolist() == theirs.tolist() if name == "str" else ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("codec", ["deflate", "none", "turned"])
def test_damaged_and_forged_payloads_raise_peer_errors_only(codec, turned):
    batch, rng = all_kinds(), random.Random(7)
    number, payload = encode(batch, codec)
    for _ in range(400):
        damaged = bytearray(payload)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        with contextlib.suppress(PeerError):
            decode(number, bytes(damaged[: rng.randrange(len(damaged) + 1)]), batch.schema, lo=batch.lo, hi=batch.hi)


def test_a_bomb_is_refused_before_it_goes_off():
    bomb = zlib.compress(bytes(PLAIN_BYTES_MAX + 100), 9)
    with pytest.raises(PeerError, match="columns-large"):
        decode(CODEC_DEFLATE, bomb, Schema.of({"x": "float64"}), lo=0, hi=9)


def test_a_codec_that_is_not_here_is_named():
    batch = all_kinds()
    with pytest.raises(UsageError, match="codec-unknown"):
        encode(batch, "mine")
    with pytest.raises(PeerError, match="codec-unknown"):
        decode(CODEC_REGISTERED, b"\x04mine" + write_rows(batch), batch.schema, lo=batch.lo, hi=batch.hi)
    with pytest.raises(PeerError, match="columns-codec"):
        decode(9, b"", batch.schema, lo=0, hi=9)


def test_a_codec_of_a_user_that_cannot_give_the_rows_back_is_not_used(turned):
    batch = all_kinds()
    register_codec("forgetful", pack=lambda data: data[:5], unpack=lambda data, _: data)
    register_codec("broken", pack=lambda data: data[0] / 0, unpack=lambda data, _: data)
    for name in ("forgetful", "broken"):
        number, payload = encode(batch, name)
        assert number == CODEC_COLUMNS
        assert decode(number, payload, batch.schema, lo=batch.lo, hi=batch.hi).seq.tolist() == batch.seq.tolist()


def test_codecs_are_named_for_plans_and_a_taken_name_is_refused(turned):
    assert codec_names() == ("auto", "columns", "deflate", "none", "turned")
    for name in ("deflate", "no name", "x" * 41, "ü"):
        with pytest.raises(UsageError, match="codec-name"):
            register_codec(name, pack=bytes, unpack=lambda data, _: data)


def test_what_fits_no_frame_as_it_is_goes_packed():
    schema = Schema.of({"n": "int64"})
    batch = Batch.of(schema, {"n": np.arange(300_000)}, np.arange(300_000), lo=0)
    number, payload = encode(batch, "none")
    assert (number, len(payload) < PAYLOAD_BYTES_MAX) == (NUMBERS["columns"], True)
    back = decode(number, payload, schema, lo=0, hi=300_000)
    assert np.array_equal(back.columns["n"], batch.columns["n"])
    assert encode(batch.slice(0, 1_000), "none")[0] == NUMBERS["none"]
