"""NebulaStream-MSS, Fig 7: data loss against the size of the buffer for 30 seconds out of reach, through
production nodes (`_paper_load`)."""

from __future__ import annotations

from typing import Any

from resurge.bench._recordings import football_compression
from resurge.lab._figure import draw, report, shape
from resurge.lab._paper_load import MEGABYTE, SETTING, football_note, loss, model
from shared.language.codecs import COLUMNS, NONE
from shared.spool.evict import Evict

MEGABYTES = (10, 25, 50, 75, 100, 125, 150)
PACKED_MEGABYTES = (10, 25, 50)
SECONDS = 30
QUICK = {"sizes": (25, 100, 125), "packed_sizes": (50,)}


def run(sizes: tuple[int, ...] = MEGABYTES, packed_sizes: tuple[int, ...] = PACKED_MEGABYTES) -> dict[str, Any]:
    smaller, real = football_compression()
    curves = {
        "FIFO, unfiltered": _curve("unfiltered", Evict.OLDEST, sizes),
        "query-aware, unfiltered": _curve("unfiltered", Evict.QUERY_AWARE, sizes),
        "query-aware": _curve("filtered", Evict.QUERY_AWARE, sizes),
        "query-aware, compressed": _curve("filtered", Evict.QUERY_AWARE, packed_sizes, COLUMNS),
    }
    aware = dict(curves["query-aware, unfiltered"])
    fifo = dict(curves["FIFO, unfiltered"])
    filtered = dict(curves["query-aware"])
    compressed = dict(curves["query-aware, compressed"])
    errors = [
        abs(value - 100 * model(SECONDS, int(size) * MEGABYTE, setting))
        for setting, curve in (("filtered", filtered), ("unfiltered", aware))
        for size, value in curve.items()
    ]
    falling = all(left >= right for left, right in zip(list(aware.values()), list(aware.values())[1:], strict=False))
    shapes = [
        shape("125 MB lose nothing, percent", 0, aware[125.0], aware[125.0] == 0),
        shape("100 MB almost hold everything, percent lost", "small", aware[100.0], 0 < aware[100.0] < 15),
        shape("at 100 MB FIFO and query-aware differ by at most 6 points", 6, round(fifo[100.0] - aware[100.0], 2),
              abs(fifo[100.0] - aware[100.0]) <= 6),
        shape("loss falls with the size", True, falling, falling),
        shape("with the rates its text gives 100 MB lose nothing, percent", "not stated", filtered[100.0],
              filtered[100.0] == 0),
        shape("loss follows the arithmetic, largest difference in points", "-", round(max(errors), 2),
              max(errors) <= 2),
        shape("compressed, 50 MB lose nothing, percent", "future work", compressed[50.0], compressed[50.0] == 0),
    ]  # fmt: skip
    figure = draw("mss-buffer", "Loss after 30 s offline", "spool size, MB", "loss, percent",
                  curves | {"paper: holds everything": [(125.0, 0.0)]})  # fmt: skip
    return report(
        "mss-buffer", "NebulaStream-MSS Fig 7", shapes, curves=curves, drawn=figure,
        football=football_note(smaller, real=real), setting=SETTING,
    )  # fmt: skip


def _curve(setting: str, evict: Evict, sizes: tuple[int, ...], codec: str = NONE) -> list[tuple[float, float]]:
    return [(float(size), round(100 * loss(SECONDS, size * MEGABYTE, setting, evict, codec), 3)) for size in sizes]
