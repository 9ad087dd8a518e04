"""`resurge bench wire`: the columns codec against JSON + gzip, pcodec and Parquet, on real recordings.

Goal 10. Every scheme is lossless; ours is checked bit for bit before it is timed. Speed is of raw column bytes, with
the cache that every edge keeps; sizes are of whole recordings, and of batches of 2,000 rows, and of recordings that
the codec was not made on (`_held_out`).
"""

from __future__ import annotations

import gzip
import io
import json
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pcodec import ChunkConfig, standalone

from resurge.bench._random_recordings import FULL_PRECISION, held_out
from resurge.bench._recordings import Columns, batch_of, raw_bytes, recordings
from resurge.bench._rounds import at_least, at_most, interleave, ratio, timed, versions
from shared.batch import Batch
from shared.wire.columns import Cache, decode, encode

PCODEC_LEVEL = 8
BATCH_ROWS = 2000
TIMED_ROWS = 6000
HELD_OUT = 8  # recordings of each kind


def run(rounds: int = 5, quick: bool = False) -> dict[str, Any]:
    sets, real = recordings()
    checks: list[dict[str, Any]] = []
    figures: dict[str, Any] = {"recordings": "real" if real else "stand-ins"}
    speeds: dict[str, list[float]] = {"encode": [], "decode": []}
    for name, whole in sets.items():
        columns = {key: column[: 3000 if quick else None] for key, column in whole.items()}
        sizes = _sizes(columns)
        batched = _batched_sizes(columns)
        timed_columns = {key: column[:TIMED_ROWS] for key, column in columns.items()}
        encode_ratio, decode_ratio, rates = _speed(timed_columns, 2 if quick else rounds)
        speeds["encode"].append(encode_ratio)
        speeds["decode"].append(decode_ratio)
        rows = len(columns["time"])
        figures[name] = {
            "rows": rows,
            "raw, bytes/row": round(raw_bytes(columns) / rows, 2),
            **{f"{scheme}, bytes/row": round(size / rows, 3) for scheme, size in sizes.items()},
            "batches of 2,000: ours / pcodec": round(batched["ours"] / batched["pcodec"], 4),
            **rates,
            "encode: ours / JSON + gzip": round(encode_ratio, 2),
            "decode: ours / JSON + gzip": round(decode_ratio, 2),
        }
        checks += [
            at_most(f"{name}: size, ours / pcodec {PCODEC_LEVEL}", sizes["ours"] / sizes["pcodec"], 1.0),
            at_least(f"{name}: size, JSON + gzip / ours", sizes["json+gzip"] / sizes["ours"], 2.2),
            at_least(f"{name}: size, tuned Parquet / ours", sizes["parquet"] / sizes["ours"], 1.25),
        ]
    checks += _held_out(sets, 2 if quick else HELD_OUT, figures)
    checks += [
        at_least("encode speed, ours / JSON + gzip, median of recordings", statistics.median(speeds["encode"]), 5),
        at_least("decode speed, ours / JSON + gzip, median of recordings", statistics.median(speeds["decode"]), 8),
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


def _speed(columns: Columns, rounds: int) -> tuple[float, float, dict[str, float]]:
    batch = batch_of(columns)
    cache = Cache()
    encode(batch, cache=cache)
    codec, payload = encode(batch, cache=cache)
    text = _to_json(columns)
    packed = [_pcodec(column) for column in columns.values()]
    amount = raw_bytes(columns) / 1e6

    def several(work: Callable[[], object], times: int) -> Callable[[], float]:
        return lambda: timed(lambda: [work() for _ in range(times)], amount * times)

    encoding = interleave(
        {
            "ours": several(lambda: encode(batch, cache=cache), 4),
            "json": several(lambda: _to_json(columns), 1),
            "pcodec": several(lambda: [_pcodec(column) for column in columns.values()], 4),
        },
        rounds,
    )
    decoding = interleave(
        {
            "ours": several(lambda: decode(codec, payload, batch.schema, lo=batch.lo, hi=batch.hi), 4),
            "json": several(lambda: _from_json(text, columns), 1),
            "pcodec": several(lambda: [standalone.simple_decompress(part) for part in packed], 4),
        },
        rounds,
    )
    rates = {
        f"{direction} {scheme}, MB/s": round(statistics.median(values), 1)
        for direction, measured in (("encode", encoding), ("decode", decoding))
        for scheme, values in measured.items()
    }
    return ratio(encoding, "ours", "json"), ratio(decoding, "ours", "json"), rates


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
