"""When a coordinator begins a cut through a region, when it is complete, and what each node is told of it.

    idle --period is over, all run--> begun n: sources are told, their marks go through the region
         --every vertex has stored its part, who reads the region has all before it, every source's readers too
         --> complete n: all are told, and forget what was before
         --it takes too long, or the region goes back--> idle; the next one is n + 1, and n is void

Both numbers are stored before anybody hears of them. So a coordinator that was restarted never begins a cut under a
number that was used, and a region goes back to what every member has. Marks of a cut that was given up may still be on
their way; a later mark passes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from shared.plan.deployment import Cuts, HostedQuery
from shared.wire.messages import CutOrder
from shared.wire.status import CutStatus, DeviceStatus, InstanceStatus

PERIOD_S = 300.0
UNDER_WAY_S_MIN = 10.0  # that a cut may take, or a period if that is longer
RUNNING = "running"
Status = Callable[[str], DeviceStatus | None]


@dataclass(slots=True)
class _Times:
    """Of one query, since this coordinator started."""

    last: float  # when a cut began, or the query did
    begun: int = 0  # the one under way; 0: none is


class RegionCuts:
    """The cuts through the regions of all queries of a coordinator."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._times: dict[str, _Times] = {}

    def look(self, query: HostedQuery, status: Status, alive: frozenset[str], now: float, *, version: int) -> Cuts:
        """What the cuts of a query are now, in a fleet of this version. Another value than before is to be stored
        before anybody is told."""
        times = self._times.setdefault(query.name, _Times(now))
        cuts = query.cuts
        if not cuts.begun and not cuts.holders:
            return replace(cuts, holders=tuple(sorted(query.members)))
        if times.begun:
            if times.begun != cuts.begun or now - times.last > max(self._period_s, UNDER_WAY_S_MIN):
                times.begun = 0
            elif _is_complete(query, times.begun, status):
                times.begun = 0
                return replace(cuts, complete=cuts.begun, holders=tuple(sorted(query.members)))
        elif now - times.last >= self._period_s and _may_begin(query, status, alive, version):
            times.last, times.begun = now, cuts.begun + 1
            return replace(cuts, begun=times.begun)
        return cuts

    def give_up(self, query: str, now: float) -> None:
        """The region goes back, or a vertex moves: what is under way is void."""
        self._times[query] = _Times(now)

    def under_way(self, query: str) -> int:
        """The cut that is under way; 0 when none is."""
        return self._times[query].begun if query in self._times else 0

    def next_wake(self) -> float | None:
        waits_s = {0: self._period_s}
        longest = max(self._period_s, UNDER_WAY_S_MIN)
        return min((each.last + waits_s.get(each.begun, longest) for each in self._times.values()), default=None)

    def order(self, query: HostedQuery, said: CutStatus) -> CutOrder | None:
        """What a node should hear, that has said this; None where it knows."""
        complete = query.cuts.complete
        begun = max(self.under_way(query.name), complete)
        if said.complete >= complete and said.begun >= begun * bool(self.under_way(query.name)):
            return None
        return CutOrder(query.name, begun, complete)


def held_by(query: HostedQuery) -> Cuts:
    """Its cuts, when its placements are others: who was no member for a while has lost what came meanwhile."""
    return replace(query.cuts, holders=tuple(node for node in query.cuts.holders if node in query.members))


def _instances(query: HostedQuery, status: Status) -> list[InstanceStatus | None]:
    """What the hosts of its vertices say of them, under the terms that they have now."""
    found: list[InstanceStatus | None] = []
    for placed in query.placements:
        for host in placed.hosts:
            heard = status(host)
            name = (query.name, placed.vertex, placed.term)
            said = () if heard is None else heard.instances
            found.append(next((one for one in said if (one.query, one.vertex, one.term) == name), None))
    return found


def _may_begin(query: HostedQuery, status: Status, alive: frozenset[str], version: int) -> bool:
    if any(placed.to for placed in query.placements) or not alive >= {*query.members, *query.sources, query.sink}:
        return False
    # Who has not heard of the newest members would send its part of the cut to those it knows, and call that stored.
    if any(_follows(status(node)) < version for node in (*query.members, *query.sources)):
        return False
    return all(one is not None and one.state == RUNNING for one in _instances(query, status))


def _follows(status: DeviceStatus | None) -> int:
    """The version of the deployment that a node runs."""
    if status is None:
        return 0
    return status.plan if status.deployment is None else status.deployment[1]


def _is_complete(query: HostedQuery, number: int, status: Status) -> bool:
    if any(placed.to for placed in query.placements):
        return False
    stored = all(one is not None and one.cut == number for one in _instances(query, status))
    return stored and all(_reached(status(node), query.name) >= number for node in query.sources)


def _reached(status: DeviceStatus | None, query: str) -> int:
    said = () if status is None else status.cuts
    return next((one.reached for one in said if one.query == query), 0)
