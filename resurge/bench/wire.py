"""`resurge bench wire`: the columns codec against JSON + gzip, pcodec and Parquet, on real recordings.

Goal 10. Every scheme is lossless; ours is checked bit for bit before it is timed. Speed is by processor time, of
batches as nodes send them, with the cache that every edge keeps. Sizes are of whole recordings, of batches of 2,000
rows, and of recordings that the codec was not made on (`_held_out`).
"""

from __future__ import annotations

import gzip
import io
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pcodec import ChunkConfig, standalone

from mobile_app.spool.spooler import encode_batch
from resurge.bench._random_recordings import FULL_PRECISION, held_out
from resurge.bench._recordings import Columns, batch_of, raw_bytes, recordings
from resurge.bench._rounds import at_least, at_most, interleave, ratio, versions
from shared.batch import Batch
from shared.wire import codecs
from shared.wire.columns import Cache, decode, encode

PCODEC_LEVEL = 8
BATCH_ROWS = 2000
TIMED_ROWS = 6000
HELD_OUT = 8  # recordings of each kind
# Rows in a batch: what a phone sends by default, and a relay or a replay; and how often a round goes through the parts.
SIZES = {60: 8, 1_024: 2}
PARTS = 64
RUNNING_BATCHES = 500  # a node that has run for a while: its cache is questioned after 480, and after 992
GOALS = {("encode", 60): 1.0, ("encode", 1_024): 5.0, ("decode", 60): 1.0, ("decode", 1_024): 8.0}


def run(rounds: int = 5, quick: bool = False) -> dict[str, Any]:
    sets, real = recordings()
    checks: list[dict[str, Any]] = []
    figures: dict[str, Any] = {"recordings": "real" if real else "stand-ins"}
    speeds: dict[tuple[str, int], list[float]] = {}
    for name, whole in sets.items():
        columns = {key: column[: 3000 if quick else None] for key, column in whole.items()}
        sizes = _sizes(columns)
        batched = _batched_sizes(columns)
        rates: dict[str, float] = {}
        for size, turns in SIZES.items():
            encode_ratio, decode_ratio, found = _speed(
                columns, size, 2 if quick else rounds, turns=1 if quick else turns
            )
            speeds.setdefault(("encode", size), []).append(encode_ratio)
            speeds.setdefault(("decode", size), []).append(decode_ratio)
            rates |= found
            rates[f"encode, {size} rows: ours / JSON + gzip"] = round(encode_ratio, 2)
            rates[f"decode, {size} rows: ours / JSON + gzip"] = round(decode_ratio, 2)
        rows = len(columns["time"])
        figures[name] = {
            "rows": rows,
            "raw, bytes/row": round(raw_bytes(columns) / rows, 2),
            **{f"{scheme}, bytes/row": round(size / rows, 3) for scheme, size in sizes.items()},
            "batches of 2,000: ours / pcodec": round(batched["ours"] / batched["pcodec"], 4),
            **rates,
        }
        checks += [
            at_most(f"{name}: size, ours / pcodec {PCODEC_LEVEL}", sizes["ours"] / sizes["pcodec"], 1.0),
            at_least(f"{name}: size, JSON + gzip / ours", sizes["json+gzip"] / sizes["ours"], 2.2),
            at_least(f"{name}: size, tuned Parquet / ours", sizes["parquet"] / sizes["ours"], 1.25),
        ]
    checks += _held_out(sets, 2 if quick else HELD_OUT, figures)
    checks += [
        at_least(
            f"{direction} at {size} rows, ours / JSON + gzip by CPU, median of recordings",
            statistics.median(speeds[direction, size]),
            goal,
        )
        for (direction, size), goal in GOALS.items()
    ]
    return {
        "bench": "wire",
        "checks": checks,
        "figures": figures,
        "rounds": 2 if quick else rounds,
        "versions": versions("numpy", "pcodec", "pyarrow"),
    }


def _held_out(recordings: dict[str, Columns], of_each_kind: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Sizes on what the codec was not made on: sensors drawn at random, and each recording's second half, coded with
    what its first half taught."""
    generated = {name: _size_ratio(columns) for name, columns in held_out(of_each_kind).items()}
    noise = {name: value for name, value in generated.items() if name.startswith(FULL_PRECISION)}
    sensors = {name: value for name, value in generated.items() if name not in noise}
    halves = {name: _second_half(columns) for name, columns in recordings.items()}
    figures["held out"] = {
        "generated, ours / pcodec": {name: round(value, 4) for name, value in generated.items()},
        "second halves, ours / pcodec": {name: round(value, 4) for name, value in halves.items()},
    }
    return [
        at_most(f"held out, {len(sensors)} drawn sensors: largest size, ours / pcodec", max(sensors.values()), 1.0),
        at_most(f"held out, second halves of {len(halves)} recordings: largest", max(halves.values()), 1.0),
        at_most("held out, noise in full precision: median", statistics.median(noise.values()), 1.0),
    ]


def _size_ratio(columns: Columns) -> float:
    return len(encode(batch_of(columns))[1]) / _pcodec_size(columns)


def _second_half(columns: Columns) -> float:
    middle = len(columns["time"]) // 2
    end = min(2 * middle, middle + TIMED_ROWS)
    cache = Cache()
    encode(batch_of(columns, max(0, middle - TIMED_ROWS), middle), cache=cache)
    _, payload = encode(batch_of(columns, middle, end), cache=cache)
    return len(payload) / _pcodec_size({name: column[middle:end] for name, column in columns.items()})


def _sizes(columns: Columns) -> dict[str, int]:
    batch = batch_of(columns)
    codec, payload = encode(batch)
    _check_exact(batch, decode(codec, payload, batch.schema, lo=batch.lo, hi=batch.hi))
    return {
        "ours": len(payload),
        "pcodec": _pcodec_size(columns),
        "json+gzip": len(_to_json(columns)),
        "parquet": len(_to_parquet(columns)),
    }


def _batched_sizes(columns: Columns) -> dict[str, int]:
    """As a device sends them: batch after batch through one cache."""
    cache = Cache()
    sizes = {"ours": 0, "pcodec": 0}
    rows = len(columns["time"])
    for start in range(0, min(rows, 30 * BATCH_ROWS), BATCH_ROWS):
        batch = batch_of(columns, start, start + BATCH_ROWS)
        codec, payload = encode(batch, cache=cache)
        _check_exact(batch, decode(codec, payload, batch.schema, lo=batch.lo, hi=batch.hi))
        sizes["ours"] += len(payload)
        sizes["pcodec"] += _pcodec_size({key: c[start : start + BATCH_ROWS] for key, c in columns.items()})
    return sizes


def _speed(columns: Columns, rows: int, rounds: int, *, turns: int) -> tuple[float, float, dict[str, float]]:
    """A node's batches of so many rows, one after the other through its edge's cache: encoded as the spooler does,
    decoded as whoever reads the log does. Rows per second of processor time, all that the cache costs included."""
    parts = [
        {name: column[start : start + rows] for name, column in columns.items()}
        for start in range(0, max(1, len(columns["time"]) - rows + 1), rows)
    ][:PARTS]
    batches = [batch_of(part) for part in parts]
    cache = Cache()

    def pack() -> None:
        for _ in range(turns):
            for batch in batches:
                encode_batch("bench", batch, 0, cache=cache)

    while cache.batches < RUNNING_BATCHES:
        pack()
    packed = [encode_batch("bench", batch, 0, cache=cache) for batch in batches]
    texts = [_to_json(part) for part in parts]

    def unpack() -> None:
        for one, batch in zip(packed, batches, strict=True):
            codecs.decode(one.codec, one.payload, batch.schema, lo=batch.lo, hi=batch.hi)

    amount = sum(map(len, batches))
    encoding = interleave(
        {"ours": _busy(pack, amount * turns), "json": _busy(lambda: [_to_json(part) for part in parts], amount)}, rounds
    )
    decoding = interleave(
        {
            "ours": _busy(unpack, amount),
            "json": _busy(lambda: [_from_json(text, part) for text, part in zip(texts, parts, strict=True)], amount),
        },
        rounds,
    )
    rates = {
        f"{direction} {scheme}, {rows} rows, thousand rows/s": round(statistics.median(values) / 1e3, 1)
        for direction, measured in (("encode", encoding), ("decode", decoding))
        for scheme, values in measured.items()
    }
    return ratio(encoding, "ours", "json"), ratio(decoding, "ours", "json"), rates


def _busy(work: Callable[[], object], amount: float) -> Callable[[], float]:
    """Amount per second of processor time."""

    def timed() -> float:
        start = time.process_time()
        work()
        return amount / (time.process_time() - start)

    return timed


def _check_exact(batch: Batch, again: Batch) -> None:
    same = again.time_us.tobytes() == batch.time_us.tobytes() and all(
        again.columns[name].tobytes() == batch.columns[name].tobytes() for name in batch.schema.names
    )
    if not same:
        raise RuntimeError("the codec did not give the columns back bit for bit")


def _to_json(columns: Columns) -> bytes:
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return gzip.compress(json.dumps([dict(zip(columns, row, strict=True)) for row in rows]).encode(), 6)


def _from_json(text: bytes, columns: Columns) -> Columns:
    rows = json.loads(gzip.decompress(text))
    return {name: np.array([row[name] for row in rows], column.dtype) for name, column in columns.items()}


def _to_parquet(columns: Columns) -> bytes:
    """Delta encoding for integers, byte-stream split for floats, zstd: the best Parquet does here."""
    sink = io.BytesIO()
    encodings = {n: "DELTA_BINARY_PACKED" if c.dtype.kind in "iu" else "BYTE_STREAM_SPLIT" for n, c in columns.items()}
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    pq.write_table(table, sink, compression="zstd", use_dictionary=False, column_encoding=encodings)
    return sink.getvalue()


def _pcodec(column: np.ndarray[Any, Any]) -> bytes:
    return bytes(standalone.simple_compress(np.ascontiguousarray(column), ChunkConfig(compression_level=PCODEC_LEVEL)))


def _pcodec_size(columns: Columns) -> int:
    return sum(len(_pcodec(column)) for column in columns.values())
