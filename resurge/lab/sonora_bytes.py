"""Sonora, Table 4: bytes of a sync stream that carries GPS for half an hour: one by one, in batches, compressed.

Real frames, envelopes and request headers are counted; nothing is sent. The paper's stream is 1 kilobyte of text
a second (its 2.087 MB are 1.16 kB a second, which is what "1Kb/s" must mean); here each second is one location in
the same JSON text form, so that the first two rows are the paper's situation and the third is the codec's work.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from resurge.bench import _recordings
from resurge.lab._figure import draw, report, shape
from shared.batch import Batch
from shared.identity import DeviceId, edge_id
from shared.language.schema import Schema
from shared.wire.columns import Cache, encode
from shared.wire.envelope import seal
from shared.wire.frame import encode as encode_frame
from shared.wire.messages import Data

SECONDS = 1800
BATCH_SECONDS = 60
READINGS_PER_SECOND = 8  # of about 130 bytes of text: the paper's kilobyte a second
FIELDS = ("lat", "lon", "altitude", "speed")
DEVICE = DeviceId(bytes(16))
EDGE = edge_id("gps")


def run() -> dict[str, Any]:
    columns, real = _gps()
    texts = [_text(columns, row) for row in range(len(columns["time"]))]
    alone = sum(_exchange(_frame(at, 1, text)) for at, text in enumerate(texts))
    per_batch = BATCH_SECONDS * READINGS_PER_SECOND
    starts = range(0, len(texts), per_batch)
    batched = sum(_exchange(_frame(at, per_batch, b"".join(texts[at : at + per_batch]))) for at in starts)
    cache = Cache()
    compressed = sum(_exchange(_frame(at, per_batch, _encoded(columns, at, per_batch, cache))) for at in starts)
    megabytes = {"none": alone / 1e6, "batch 1 min": batched / 1e6, "batch + codec": compressed / 1e6}
    saved = 100 * (1 - compressed / batched)
    shapes = [
        shape("batched text, MB", 2.087, round(batched / 1e6, 3), abs(batched / 1e6 - 2.087) < 0.4),
        shape("batched and compressed, MB", 0.392, round(compressed / 1e6, 3), compressed / 1e6 <= 0.392),
        shape("compression saves, percent", 81.2, round(saved, 1), saved >= 81.2),
        shape("radio wakes in half an hour: alone, batched", "1 a second, 1 a minute",
              [SECONDS, len(starts)], len(starts) == SECONDS // BATCH_SECONDS),
    ]  # fmt: skip
    minutes = list(range(0, SECONDS // 60 + 1, 5))
    series = {name: [(float(m), value * m / (SECONDS / 60)) for m in minutes] for name, value in megabytes.items()}
    figure = draw("sonora-bytes", "Bytes of a sync stream", "minutes", "MB sent", series)
    return report(
        "sonora-bytes", "Sonora Table 4", shapes, megabytes={k: round(v, 4) for k, v in megabytes.items()},
        rows="real" if real else "stand-in", drawn=figure,
    )  # fmt: skip


def _gps() -> tuple[dict[str, np.ndarray[Any, Any]], bool]:
    """Half an hour of locations: recorded ones where there are some, repeated at the paper's rate, else a walk."""
    rows = SECONDS * READINGS_PER_SECOND
    sets, real = _recordings.recordings()
    if real:
        track = sets["geolife"]
        speed = np.round(np.hypot(np.diff(track["lat"], prepend=track["lat"][0]), np.diff(track["lon"], prepend=0)), 4)
        columns = {"lat": track["lat"], "lon": track["lon"], "altitude": track["altitude"], "speed": speed}
        columns = {name: column[:rows] for name, column in columns.items()}
    else:
        random = np.random.default_rng(3)
        walk = np.cumsum(random.normal(0, 1e-5, (rows, 2)), axis=0)
        columns = {
            "lat": np.round(47.4 + walk[:, 0], 6),
            "lon": np.round(8.5 + walk[:, 1], 6),
            "altitude": np.round(400 + np.cumsum(random.normal(0, 0.1, rows))),
            "speed": np.round(np.abs(random.normal(1.4, 0.2, rows)), 4),
        }
    times = 1_700_000_000_000_000 + np.arange(rows) * (1_000_000 // READINGS_PER_SECOND)
    return {"time": times, **columns}, real


def _text(columns: dict[str, np.ndarray[Any, Any]], row: int) -> bytes:
    reading = {"time": int(columns["time"][row]), **{name: float(columns[name][row]) for name in FIELDS}}
    return json.dumps({"stream": "gps", "provider": "fused", **reading}).encode()


def _encoded(columns: dict[str, np.ndarray[Any, Any]], start: int, count: int, cache: Cache) -> bytes:
    values = {name: columns[name][start : start + count] for name in FIELDS}
    schema = Schema.of(dict.fromkeys(FIELDS, "float64"))
    return encode(Batch.of(schema, values, columns["time"][start : start + count], lo=start), cache=cache)[1]


def _frame(lo: int, count: int, payload: bytes) -> bytes:
    return encode_frame(Data(DEVICE, 1, EDGE, lo, lo + count, count, 0, 0, 1, payload).frame())


def _exchange(frames: bytes) -> int:
    """What one exchange puts on the wire upwards: request line, headers and the sealed body."""
    from requests import Request, Session

    body = seal(bytes(16), 1, [frames], bytes(32))
    headers = {"Content-Type": "application/vnd.resurge.exchange"}
    request = Session().prepare_request(
        Request("POST", "https://gateway.example/v1/exchange", data=body, headers=headers)
    )
    lines = sum(len(name) + len(value) + 4 for name, value in request.headers.items())
    return len("POST /v1/exchange HTTP/1.1\r\nHost: gateway.example\r\n\r\n") + lines + len(body)
