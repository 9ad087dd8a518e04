"""Sonora, Table 4: bytes of a sync stream that carries GPS for half an hour: one by one, in batches, compressed.

Real frames, envelopes and request headers are counted; nothing is sent. The phone's own batcher decides when a batch is
closed. The paper's stream is 1 kilobyte of text a second (its 2.087 MB are 1.16 kB a second, which is what "1Kb/s"
must mean); here each second has eight locations in the same JSON text form, so that the first two rows are the paper's
situation and the third is the codec's work.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import resurge as rs
from mobile_app.spool.batching import EdgeBatcher
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
SECOND_US = 1_000_000
EXCHANGES = {"none": SECONDS, "batch 1 min": SECONDS // 60}  # of the paper: one a second, one a minute
READINGS_PER_SECOND = 8  # of about 130 bytes of text: the paper's kilobyte a second
PAPER_MB = {"batch 1 min": 2.087, "batch + codec": 0.392}
FIELDS = ("lat", "lon", "altitude", "speed")
DEVICE = DeviceId(bytes(16))
EDGE = edge_id("gps")


def run() -> dict[str, Any]:
    columns, real = _gps()
    schema = Schema.of(dict.fromkeys(FIELDS, "float64"))
    every = {"none": _batches(columns, schema, "1s"), "batch 1 min": _batches(columns, schema, "60s")}
    sent = {name: sum(_exchange(_frame(batch, _text(batch))) for batch in batches) for name, batches in every.items()}
    cache = Cache()
    sent["batch + codec"] = sum(_exchange(_frame(each, encode(each, cache=cache)[1])) for each in every["batch 1 min"])
    megabytes = {name: size / 1e6 for name, size in sent.items()}
    batched, compressed = megabytes["batch 1 min"], megabytes["batch + codec"]
    saved = 100 * (1 - compressed / batched)
    exchanges = {name: len(batches) for name, batches in every.items()}
    shapes = [
        shape("batched text, MB", PAPER_MB["batch 1 min"], round(batched, 3),
              abs(batched - PAPER_MB["batch 1 min"]) < 0.4),
        shape("batched and compressed, MB", PAPER_MB["batch + codec"], round(compressed, 3),
              compressed <= PAPER_MB["batch + codec"]),
        shape("compression saves, percent", 81.2, round(saved, 1), saved >= 81.2),
        shape("exchanges in half an hour, as the phone's batcher closes them: none, batched", list(EXCHANGES.values()),
              list(exchanges.values()), all(abs(exchanges[name] - EXCHANGES[name]) <= 1 for name in EXCHANGES)),
        shape("readings in all exchanges of a stream", "-", sorted({_rows(batches) for batches in every.values()}),
              {_rows(batches) for batches in every.values()} == {SECONDS * READINGS_PER_SECOND}),
    ]  # fmt: skip
    minutes = list(range(0, SECONDS // 60 + 1, 5))
    series = {name: [(float(m), value * m / (SECONDS / 60)) for m in minutes] for name, value in megabytes.items()}
    series |= {f"paper: {name}": [(SECONDS / 60, value)] for name, value in PAPER_MB.items()}
    figure = draw("sonora-bytes", "Bytes of a sync stream", "minutes", "MB sent", series)
    return report(
        "sonora-bytes", "Sonora Table 4", shapes, megabytes={k: round(v, 4) for k, v in megabytes.items()},
        exchanges=exchanges, rows="real" if real else "stand-in", drawn=figure,
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


def _batches(columns: dict[str, np.ndarray[Any, Any]], schema: Schema, within: str) -> list[Batch]:
    """What the phone would spool of these rows, which come second by second."""
    edge = rs.plan_of(rs.sensor("gps", every="125ms", columns=dict.fromkeys(FIELDS, "float64")).sync(
        "gps", batch=SECONDS * READINGS_PER_SECOND, within=within)).edges[0]  # fmt: skip
    batcher = EdgeBatcher(edge, head=0)
    found = []
    for second in range(SECONDS):
        rows = slice(second * READINGS_PER_SECOND, (second + 1) * READINGS_PER_SECOND)
        values = {name: columns[name][rows] for name in FIELDS}
        if batcher.due(second * SECOND_US):
            found.append(batcher.take())
        batcher.add(Batch.of(schema, values, columns["time"][rows], lo=rows.start), second * SECOND_US)
    return [*found, batcher.take()]


def _rows(batches: list[Batch]) -> int:
    return sum(len(batch) for batch in batches)


def _text(batch: Batch) -> bytes:
    """The batch's readings as a program without a codec would send them."""
    texts = []
    for row in range(len(batch)):
        reading = {"time": int(batch.time_us[row]), **{name: float(batch.columns[name][row]) for name in FIELDS}}
        texts.append(json.dumps({"stream": "gps", "provider": "fused", **reading}))
    return "".join(texts).encode()


def _frame(batch: Batch, payload: bytes) -> bytes:
    return encode_frame(Data(DEVICE, 1, EDGE, batch.lo, batch.hi, len(batch), 0, 0, 1, payload).frame())


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
