"""Publishing an epoch's results: rows per second of the driver's processor time, against one row after the other.

And against the bare statements that write the same rows, encoded before: nothing is asked of the database there and
nothing decided. Faster than these no publishing to the same tables can be, so they say which goals can be had.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cloud_backend.database import Database
from cloud_backend.results.publication import PUT_ANSWER, PUT_DOWNLINK, PUT_HEAD, stored_of
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

    def bare() -> float:
        epoch = next(bare_epochs)
        rows = [stored_of(row) for row in epoch_rows(epoch, count)]
        answers = sorted((*row, 1 + number + epoch * count) for number, row in enumerate(rows))
        down = [(*row, epoch) for row in rows if row.device]
        begun = time.process_time()
        with floor.transaction() as database:
            database.executemany(PUT_ANSWER, answers)
            database.executemany(PUT_DOWNLINK, down)
            database.executemany(PUT_HEAD, [(row[5], epoch) for row in down])
        return count / (time.process_time() - begun)

    Results(root / "bare.sqlite").close()
    floor, bare_epochs = Database(root / "bare.sqlite", large=True), itertools.count(1)
    rates = interleave({"set": published(ours.publish), "row by row": published(peer.publish), "bare": bare}, rounds)
    floor.close()
    digest = ours.digest()
    peer.close()
    again = Results(root / "peer.sqlite")
    assert again.digest() == digest, "the two ways to publish do not say the same"
    for store in (ours, again):
        store.close()
    most = round(ratio(rates, "bare", "row by row"), 2)
    figures["publishing"] = {
        "rows": count,
        "us_per_row": {name: round(1e6 / statistics.fmean(each), 1) for name, each in rates.items()},
        "set_times_bare": round(ratio(rates, "set", "bare"), 2),
    }
    check = at_least(
        "publishing: rows per processor second, times row by row", ratio(rates, "set", "row by row"), TIMES_MIN
    )
    return [check | {"context": f"the bare statements for the same rows, which ask and decide nothing: {most} times"}]
