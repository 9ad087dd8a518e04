"""Where the pages' data comes from: the log's index and its newest records, the roster, the results.

Nothing is counted while it happens: each look reads what the log holds since the last one. So a page opened after a
restart shows the same as one that was open all the time, and a page nobody looks at costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cloud_backend.dashboard.fleet.crowd import Crowd
from cloud_backend.dashboard.fleet.devices import logged
from cloud_backend.dashboard.fleet.headline import headline
from cloud_backend.dashboard.fleet.phones import Contact, phones
from cloud_backend.dashboard.history.arrivals import HISTORY_S, SECOND_US
from cloud_backend.dashboard.history.history import History
from cloud_backend.dashboard.views.results import row_shown
from cloud_backend.log.log import Log
from cloud_backend.results.store import ResultRow, Results

RESULTS_MAX = 2000  # per event: a page that was away long catches up over several
PHONES_MAX = 12  # on the overview; the devices page has all of them
TRACKS_MAX = 6
LOOK_S_MAX = 0.2  # of reading the log: a gateway that has much to catch up with answers meanwhile
ALL = "all"


class FleetOverview:
    def __init__(
        self,
        *,
        log: Log,
        results: Results,
        contacts: Callable[[], Sequence[Contact]] | None = None,
        crowd: Callable[[], Crowd] | None = None,
        clock_us: Callable[[], int],
        quarantined: Callable[[], int] = lambda: 0,
        alerts: Callable[[], int] = lambda: 0,
        history: History | None = None,
        hidden: Callable[[str], Container[str]] = lambda _: (),
        names: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._log = log
        self._results = results
        self._contacts = contacts or (lambda: ())
        self._kept = crowd  # of all devices, where somebody keeps it; else it is made of the contacts at each look
        self._clock_us = clock_us
        self._quarantined = quarantined
        self._alerts = alerts  # how many are open, those about contact aside: phones show that themselves
        self._hidden = hidden  # columns of a sink that give a place away, for those who may not know places
        self._names = names  # of all devices: results also tell of revoked ones
        self.history = history or History(log)

    def recent_change(self) -> int:
        """Where a page that was just opened begins with results: the newest are enough for it."""
        return max(self._results.last_change() - RESULTS_MAX, 0)

    def overview(self, *, after_second: int = 0, after_change: int = 0, exact: bool = True) -> dict[str, Any]:
        """The page as data. Arrivals and results are only those after the given second and change; `exact`: places as
        they are, else on a kilometre's grid."""
        now_us = self._clock_us()
        self.history.follow(seconds_max=LOOK_S_MAX)
        crowd = self._crowd(now_us)
        shown = crowd.concerning(PHONES_MAX)
        with self.history.lock:
            end = now_us // SECOND_US
            start = min(max(after_second, end - HISTORY_S), end)
            charted = {phone.id for phone in shown[:TRACKS_MAX]}
            counts = self.history.arrivals.per_second(start=start, end=end, devices=charted)
            counts[ALL] = self.history.arrivals.total(start=start, end=end)
        total = crowd.account
        first, second = headline(crowd, self._quarantined(), self._alerts())
        change, rows = self._results.changes(after_change, RESULTS_MAX)
        return {
            "now_us": now_us,
            "headline": first,
            "subline": second,
            "account": total.as_json(),
            "phones": [asdict(phone) for phone in shown],
            "phones_count": len(crowd),
            "phones_connected": crowd.connected,
            "arrivals": {"from": start, "until": end, "counts": counts},
            "sinks": self._results.sinks(),
            "results": self._shown(rows, exact=exact),
            "change": change,
        }

    def _crowd(self, now_us: int) -> Crowd:
        if self._kept is not None:
            return self._kept()
        contacts = self._contacts()
        with self.history.lock:
            return Crowd(phones(contacts, logged(self._log), self.history.arrivals, now_us))

    def _shown(self, rows: Sequence[ResultRow], *, exact: bool) -> list[dict[str, Any]]:
        hidden = {} if exact else {sink: self._hidden(sink) for sink in {row.sink for row in rows}}
        names = self._names() if rows else {}
        return [
            row_shown(row, exact=exact, hidden=hidden.get(row.sink, ()))
            | {"sink": row.sink, "retract": row.retract, "name": names.get(row.device, row.device[:8])}
            for row in rows
        ]
