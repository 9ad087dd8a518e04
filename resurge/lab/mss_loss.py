"""NebulaStream-MSS, Fig 5: data loss against the length of a disconnection, through production nodes (`_paper_load`).

The paper's comparison of total bytes hides what its policy is for: with equal cadence FIFO and query-aware lose the
same. The difference is who loses, so the loss of a rare alert is run beside it.
"""

from __future__ import annotations

from typing import Any

from resurge.bench._recordings import football_compression
from resurge.lab._figure import draw, report, shape
from resurge.lab._paper_load import MEGABYTE, SETTING, alerts_lost, football_note, loss, model, vanilla_loss
from shared.language.codecs import COLUMNS, NONE
from shared.spool.evict import Evict

CAPACITY = 50 * MEGABYTE
SECONDS = (0, 5, 10, 13, 14, 15, 17, 18, 19, 20, 25, 30, 40, 50, 60)
PACKED_SECONDS = (0, 15, 30, 60)
VANILLA_SECONDS = (0, 5, 15, 30, 60)
AT = 30
PAPER_LESS = 63  # percent below vanilla at that time
QUICK = {"seconds": (0, 14, 15, 18, 19, 30), "packed_seconds": (30,)}


def run(seconds: tuple[int, ...] = SECONDS, packed_seconds: tuple[int, ...] = PACKED_SECONDS) -> dict[str, Any]:
    smaller, real = football_compression()
    curves = {
        "no spool (vanilla)": [
            (float(s), round(100 * vanilla_loss(s, "filtered"), 3)) for s in VANILLA_SECONDS if s in seconds
        ],
        "FIFO, unfiltered": _curve("unfiltered", Evict.OLDEST, seconds),
        "query-aware, unfiltered": _curve("unfiltered", Evict.QUERY_AWARE, seconds),
        "FIFO": _curve("filtered", Evict.OLDEST, seconds),
        "query-aware": _curve("filtered", Evict.QUERY_AWARE, seconds),
        "query-aware, compressed": _curve("filtered", Evict.QUERY_AWARE, packed_seconds, COLUMNS),
    }
    at = {name: dict(curve)[float(AT)] for name, curve in curves.items()}
    below = at["no spool (vanilla)"] - at["query-aware"]
    errors = [
        abs(value - 100 * model(int(s), CAPACITY, setting))
        for setting, name in (("filtered", "query-aware"), ("unfiltered", "query-aware, unfiltered"))
        for s, value in curves[name]
    ]
    fifo_alerts, aware_alerts = (alerts_lost(CAPACITY, evict) for evict in (Evict.OLDEST, Evict.QUERY_AWARE))
    full_after = {
        setting: next(s for s, value in curves[name] if value)
        for setting, name in (("filtered", "query-aware"), ("unfiltered", "query-aware, unfiltered"))
    }
    shapes = [
        shape("loss at 30 s is this much below vanilla, percent", PAPER_LESS, round(below, 1),
              abs(below - PAPER_LESS) <= 5),
        shape("the spool is full after about 15 s (unfiltered rates), s", 15, full_after["unfiltered"],
              13 <= full_after["unfiltered"] <= 16),
        shape("with the rates its text gives it is full after, s", "not stated", full_after["filtered"],
              17 <= full_after["filtered"] <= 20),
        shape("loss at 30 s with unfiltered rates, percent", "not stated", round(at["query-aware, unfiltered"], 1),
              abs(at["query-aware, unfiltered"] - 100 * model(AT, CAPACITY, "unfiltered")) <= 2),
        shape("loss follows the arithmetic, largest difference in points", "-", round(max(errors), 2),
              max(errors) <= 2),
        shape("at equal cadence FIFO and query-aware lose the same bytes, at most a batch apart, points",
              "draws a gap", round(at["FIFO"] - at["query-aware"], 2), abs(at["FIFO"] - at["query-aware"]) <= 2.8),
        shape("alerts lost of 6 in 60 s offline: FIFO, query-aware", "fairness is claimed, not measured",
              [fifo_alerts, aware_alerts], fifo_alerts == 3 and aware_alerts == 0),
        shape("loss at 30 s with compressed batches, percent", "future work", round(at["query-aware, compressed"], 2),
              at["query-aware, compressed"] == 0),
    ]  # fmt: skip
    figure = draw("mss-loss", "Loss against time offline, 50 MB", "seconds offline", "loss, percent",
                  curves | {"paper: query-aware": [(float(AT), 100.0 - PAPER_LESS)]})  # fmt: skip
    return report(
        "mss-loss", "NebulaStream-MSS Fig 5", shapes, curves=curves, drawn=figure,
        football=football_note(smaller, real=real), setting=SETTING,
    )  # fmt: skip


def _curve(setting: str, evict: Evict, seconds: tuple[int, ...], codec: str = NONE) -> list[tuple[float, float]]:
    return [(float(s), round(100 * loss(s, CAPACITY, setting, evict, codec), 3)) for s in seconds]
