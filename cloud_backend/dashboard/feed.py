"""Where the pages' data comes from: the log's index and its newest records, the roster, the results.

Nothing is counted while it happens: each look reads what the log holds since the last one. So a page opened after a
restart shows the same as one that was open all the time, and a page nobody looks at costs nothing.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from cloud_backend.dashboard.arrivals import HISTORY_S, SECOND_US, Arrivals
from cloud_backend.dashboard.overview import Contact, Logged, account, headline, phones
from cloud_backend.log.log import Log
from cloud_backend.results.store import ResultRow, Results

FIRST_LOOK_BYTES = (
    64 * 1024 * 1024
)  # of the log, at least: enough for minutes of a large fleet, read in a second or two
RESULTS_MAX = 2000  # per event: a page that was away long catches up over several


class Feed:
    def __init__(
        self,
        *,
        log: Log,
        results: Results,
        contacts: Callable[[], Sequence[Contact]],
        clock_us: Callable[[], int],
        quarantined: Callable[[], int] = lambda: 0,
    ) -> None:
        self._log = log
        self._results = results
        self._contacts = contacts
        self._clock_us = clock_us
        self._quarantined = quarantined
        self._arrivals = Arrivals()
        self._position: int | None = None
        self._reading = threading.Lock()

    def overview(self, *, after_second: int = 0, after_change: int = 0) -> dict[str, Any]:
        """The page as data. Arrivals and results are only those after the given second and change."""
        now_us = self._clock_us()
        with self._reading:
            self._read_log()
            devices = phones(self._contacts(), self._logged(), self._arrivals, now_us)
            end = now_us // SECOND_US
            start = min(max(after_second, end - HISTORY_S), end)
            counts = self._arrivals.per_second(start=start, end=end)
        total = account(devices)
        first, second = headline(devices, total, self._quarantined())
        change, rows = self._results.changes(after_change, RESULTS_MAX)
        return {
            "now_us": now_us,
            "headline": first,
            "subline": second,
            "account": total.as_json(),
            "phones": [asdict(phone) for phone in devices],
            "arrivals": {"from": start, "until": end, "counts": counts},
            "sinks": self._results.sinks(),
            "results": [_result(row) for row in rows],
            "change": change,
        }

    def _read_log(self) -> None:
        end = self._log.durable_end
        if self._position is None:
            starts = self._log.segment_starts()
            self._position = max((start for start in starts if start <= end - FIRST_LOOK_BYTES), default=starts[0])
        for _, record in self._log.read(self._position, end):
            if record.frame:
                self._arrivals.take(record.received_us, record.frame)
        self._position = end

    def _logged(self) -> Logged:
        totals: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
        for key, state in self._log.edges():
            incarnations = totals[key.device.hex()]
            delivered, ledgered = incarnations.get(key.incarnation, (0, 0))
            incarnations[key.incarnation] = (
                delivered + state.high_water - state.ledgered,
                ledgered + state.ledgered,
            )
        return totals


def _result(row: ResultRow) -> dict[str, Any]:
    return {
        "sink": row.sink,
        "key": list(row.key),
        "device": row.device,
        "window_start_us": row.window_start_us,
        "window_end_us": row.window_end_us,
        "complete": row.complete,
        "retract": row.retract,
        "values": {name: _shown(value) for name, value in row.values.items()},
    }


def _shown(value: object) -> object:
    """JSON has no NaN and no infinity; a browser would refuse the whole event."""
    return None if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))) else value  # noqa: PLR0124
