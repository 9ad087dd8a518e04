"""Publishing an epoch's results: rows per second of the driver's processor time, against one row after the other."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cloud_backend.results.rows import ResultRow
from cloud_backend.results.store import Results
from resurge.bench._rounds import at_least, interleave, ratio
from resurge.bench._row_by_row import RowByRow
from shared.identity import device_id

MINUTE = 60_000_000
TIMES_MIN = 5.0


def epoch_rows(epoch: int, count: int) -> list[ResultRow]:
    """Half of them for a device each, half for the dashboard alone; a tenth corrects what the epoch before said."""
    found = []
    for number in range(count):
        corrects = number % 10 == 0 and epoch > 1
        window = (epoch - corrects) * MINUTE
        found.append(ResultRow(
            sink="mine" if number % 2 else "cells", device=device_id(b"%d" % number).hex() if number % 2 else "",
            key=(number,), window_start_us=window, window_end_us=window + MINUTE, revision=epoch, retract=False,
            complete=True, values={"km": number / 7, "points": epoch, "place": "somewhere"},
        ))  # fmt: skip
    return found


def checks_of_publishing(root: Path, *, quick: bool, rounds: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    root.mkdir()
    count = 300 if quick else 5_000
    ours, peer = Results(root / "ours.sqlite"), RowByRow(root / "peer.sqlite")

    def published(publish: Callable[[int, list[ResultRow]], int]) -> Callable[[], float]:
        epochs = itertools.count(1)

        def once() -> float:
            epoch = next(epochs)
            rows = epoch_rows(epoch, count)
            begun = time.process_time()
            publish(epoch, rows)
            return count / (time.process_time() - begun)

        return once

    rates = interleave({"set": published(ours.publish), "row by row": published(peer.publish)}, rounds)
    digest = ours.digest()
    peer.close()
    again = Results(root / "peer.sqlite")
    assert again.digest() == digest, "the two ways to publish do not say the same"
    for store in (ours, again):
        store.close()
    figures["publishing"] = {
        "rows": count, "us_per_row": {name: round(1e6 / (sum(each) / len(each)), 1) for name, each in rates.items()}
    }  # fmt: skip
    return [
        at_least(
            "publishing: rows per processor second, times row by row", ratio(rates, "set", "row by row"), TIMES_MIN
        )
    ]
