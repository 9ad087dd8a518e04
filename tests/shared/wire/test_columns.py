"""The columns codec: bit-exact round trips, sizes bounded before allocation, PeerError and nothing else on damage."""

from __future__ import annotations

import tracemalloc
import zlib

import numpy as np
import pytest

from shared.batch import Batch
from shared.errors import PeerError, UsageError
from shared.language.schema import KINDS, Schema, dtype
from shared.wire.columns import CODEC_COLUMNS, DECODED_BYTES_MAX, Cache, decode, encode
from shared.wire.grids import GridKind, find_grid, place_on_grid


def batch_of(columns: dict[str, np.ndarray], *, lo: int = 0) -> Batch:
    kinds = {name: "str" if values.dtype.kind in "TUO" else str(values.dtype.name) for name, values in columns.items()}
    rows = len(next(iter(columns.values()))) if columns else 0
    return Batch.of(Schema.of(kinds), columns, np.arange(rows) * 20_000 + 1_700_000_000_000_000, lo=lo)


def assert_round_trip(batch: Batch, cache: Cache | None = None) -> bytes:
    codec, payload = encode(batch, cache=cache)
    again = decode(codec, payload, batch.schema, lo=batch.lo, hi=batch.hi, frontier_us=batch.frontier_us)
    assert again.seq.tolist() == batch.seq.tolist()
    assert again.time_us.tobytes() == batch.time_us.tobytes()
    for name in batch.schema.names:
        ours, theirs = again.columns[name], batch.columns[name]
        assert ours.dtype == theirs.dtype
        if batch.schema.kind(name) == "str":
            assert ours.tolist() == theirs.tolist()
        else:
            assert ours.tobytes() == theirs.tobytes()
    return payload


@pytest.mark.covers("SO-12")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("bool", "str")])
def test_every_numeric_kind_comes_back_bit_for_bit_at_its_extremes(kind: str) -> None:
    kept = dtype(kind)
    limits = np.iinfo(kept) if kept.kind in "iu" else np.finfo(kept)
    rng = np.random.default_rng(1)
    extremes = np.array([limits.min, limits.max, 0, 1, limits.max, limits.min], kept)
    anything = np.frombuffer(rng.bytes(kept.itemsize * 500), kept).copy()
    for values in (extremes, anything, np.sort(anything), np.zeros(300, kept), extremes[:1]):
        assert_round_trip(batch_of({"value": values}))


@pytest.mark.parametrize("width", [4, 8])
def test_nan_payloads_negative_zero_and_infinities_survive_beside_a_grid(width: int) -> None:
    kept = np.dtype(f"f{width}")
    values = np.round(np.cumsum(np.random.default_rng(2).normal(0, 1, 2000)), 2).astype(kept)
    bits = values.view(f"u{width}")
    bits[10] = int(np.array(np.nan, kept).view(f"u{width}")) | 0x1234  # a NaN with a payload
    values[20], values[30], values[40] = -0.0, np.inf, -np.inf
    values[500:700] = np.nan
    assert find_grid(values).kind is GridKind.RATIO
    assert_round_trip(batch_of({"value": values}))


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("decimal degrees", np.round(np.cumsum(np.full(3000, 1.3e-5)) + 47.4072629, 7), GridKind.RATIO),
        ("milliseconds with binary fractions", np.arange(1, 3000) * 82 / 4096 / 1000, GridKind.RATIO),
        ("converter steps", (np.arange(3000) % 977 * np.float32(0.0006108652)).astype("f4"), GridKind.STEP),
        (
            "converter steps with a calibration offset",
            ((np.arange(3000) * 7919 % 4093 - 2000).astype("f4") * np.float32(9.80665 / 4096) + np.float32(0.0371)),
            GridKind.STEP,
        ),
    ],
)  # fmt: skip
def test_the_integer_grid_behind_sensor_values_is_found(name: str, values: np.ndarray, kind: GridKind) -> None:
    grid = find_grid(values)
    on = place_on_grid(values, grid)
    assert grid.kind is kind, name
    assert on.exceptions is None
    payload = assert_round_trip(batch_of({"value": values}))
    assert len(payload) < values.nbytes / 2


def test_text_and_truth_values_come_back() -> None:
    texts = ["", "walk", "köln 🚋", "walk", "a\0b", "x" * 3000] * 20
    batch = batch_of({"mode": np.array(texts, dtype=np.dtypes.StringDType()), "moving": np.arange(120) % 3 == 0})
    assert_round_trip(batch)


def test_rows_that_filters_left_keep_their_numbers() -> None:
    schema = Schema.of({"v": "float64"})
    seq = np.array([5, 6, 9, 30], np.int64)
    batch = Batch(schema, {"v": np.arange(4.0)}, np.arange(4), seq, 5, 40)
    assert_round_trip(batch)


def test_a_batch_that_filters_left_empty_still_covers_its_range() -> None:
    schema = Schema.of({kind: kind for kind in KINDS})
    columns = {kind: np.empty(0, dtype(kind)) for kind in KINDS}
    batch = Batch(schema, columns, np.empty(0, np.int64), np.empty(0, np.int64), 10, 70)
    assert len(assert_round_trip(batch)) < 120


def test_interleaved_sensors_are_gathered_by_their_number() -> None:
    rng = np.random.default_rng(3)
    sensor = np.tile(np.array([13, 14, 97, 98], np.uint16), 500)
    level = sensor * 1000.0
    position = np.round(level + np.cumsum(rng.normal(0, 1, 2000)))
    gathered = assert_round_trip(batch_of({"position": position, "sensor": sensor}))
    apart = assert_round_trip(batch_of({"position": position}))
    assert len(gathered) < len(apart)


def test_a_cache_changes_the_speed_and_never_the_rows() -> None:
    cache = Cache()
    rng = np.random.default_rng(4)
    for turn in range(70):
        digits = 2 if turn < 35 else 5  # the sensor's resolution changes under way
        values = np.round(np.cumsum(rng.normal(0, 1, 300)), digits)
        assert_round_trip(batch_of({"value": values}, lo=300 * turn), cache)


def test_a_remembered_choice_that_stops_fitting_costs_size_not_exactness() -> None:
    cache = Cache()
    assert_round_trip(batch_of({"v": np.round(np.arange(500) * 0.1, 1)}), cache)
    for values in (
        np.full(10, np.nan),
        np.array([np.inf, -0.0, 1e308]),
        np.empty(0),
        np.random.default_rng(1).random(900),
    ):
        assert_round_trip(batch_of({"v": values}), cache)


def damaged_payloads() -> list[tuple[str, bytes]]:
    rng = np.random.default_rng(7)
    rows = 400
    batch = batch_of(
        {
            "f": np.where(rng.random(rows) < 0.1, np.nan, np.round(rng.random(rows), 2)),
            "g": rng.random(rows).astype("f4"),
            "i": rng.integers(-5, 5, rows),
            "s": np.array([f"w{n % 7}" for n in range(rows)], dtype=np.dtypes.StringDType()),
            "b": rng.random(rows) < 0.5,
        }
    )
    _, payload = encode(batch)
    return [("f i g s b", payload)]


def test_a_decoder_fed_damaged_payloads_raises_peer_errors_only() -> None:
    rng = np.random.default_rng(11)
    schema = Schema.of({"f": "float64", "g": "float32", "i": "int64", "s": "str", "b": "bool"})
    ((_, payload),) = damaged_payloads()
    assert len(decode(CODEC_COLUMNS, payload, schema, lo=0, hi=400)) == 400
    refused = 0
    for turn in range(4000):
        mangled = bytearray(payload)
        for _ in range(1 + turn % 4):
            mangled[int(rng.integers(0, min(len(mangled), 60 if turn % 2 else len(mangled))))] = int(
                rng.integers(0, 256)
            )
        if turn % 5 == 0:
            mangled = mangled[: int(rng.integers(0, len(mangled)))]
        try:
            decode(CODEC_COLUMNS, bytes(mangled), schema, lo=0, hi=400)
        except PeerError:
            refused += 1
    assert refused > 2000


def test_bytes_left_over_and_early_ends_are_refused() -> None:
    batch = batch_of({"v": np.arange(50.0)})
    codec, payload = encode(batch)
    with pytest.raises(PeerError, match="columns-damaged"):
        decode(codec, payload + b"\0", batch.schema, lo=0, hi=50)
    for end in range(len(payload)):
        with pytest.raises(PeerError):
            decode(codec, payload[:end], batch.schema, lo=0, hi=50)


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(PeerError, match="columns-codec"):
        decode(9, b"", Schema.of({}), lo=0, hi=0)


def test_a_bomb_is_refused_before_it_is_allocated() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = packer.compress(bytes(64 << 20)) + packer.flush()
    schema = Schema.of({f"c{n}": "float64" for n in range(200)})
    rows = (1 << 20).to_bytes(3, "little")
    varint = bytes((rows[0] & 0x7F | 0x80, 0x80, 0x40))
    joint = bytes((1,)) + varint + b"\x02\xff\xff\xff\x1f\0\0" + bomb
    many = bytes((0,)) + varint + b"\x40" + b"\x01\x00\x00\x00" * 16 + b"\x02\x00" * 500
    tracemalloc.start()
    for payload in (joint, many):
        with pytest.raises(PeerError):
            decode(CODEC_COLUMNS, payload, schema, lo=0, hi=1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * DECODED_BYTES_MAX


def test_a_batch_too_large_to_decode_is_refused_when_encoded() -> None:
    batch = batch_of({f"c{n}": np.zeros(1 << 19) for n in range(8)})
    with pytest.raises(UsageError, match="columns-large"):
        encode(batch)


def test_a_cache_forgets_what_it_learnt_when_a_column_changes_its_kind() -> None:
    cache = Cache()
    for kind, values in (("float64", [0.5, 0.25, 1e300, 2.0] * 20), ("float32", [0.5, 0.25, 3.0, 2.0] * 20)):
        batch = Batch.of(Schema.of({"v": kind}), {"v": values}, list(range(80)), lo=0)
        for _ in range(3):
            codec, payload = encode(batch, cache=cache)
            again = decode(codec, payload, batch.schema, lo=batch.lo, hi=batch.hi)
            assert again.columns["v"].tobytes() == batch.columns["v"].tobytes()
    doubles = Batch.of(Schema.of({"v": "float64"}), {"v": [1.5] * 20}, list(range(20)), lo=0)
    singles = Batch.of(Schema.of({"v": "float32"}), {"v": [np.pi]}, [0], lo=0)
    cache = Cache()
    for batch in (doubles, singles):
        codec, payload = encode(batch, cache=cache)
        again = decode(codec, payload, batch.schema, lo=batch.lo, hi=batch.hi)
        assert again.columns["v"].tobytes() == batch.columns["v"].tobytes()
