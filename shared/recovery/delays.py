"""When a silent node is given up: as late as the query's promise allows, and no later.

A node that says nothing may come back by itself, and then nothing has to move. Until then what it runs is late. So a
query that promises a delay waits as long as a recovery, begun now, would still keep the promise: recovery starts when
the delay exceeds the bound less the time that a recovery takes (EC-15). How long that is, a fleet measures.
"""

from __future__ import annotations

from shared.plan.graph import Plan

SILENCE_S = 10.0  # where nothing is promised
SILENCE_S_MIN = 6.0  # nodes speak every second; a busy one, or one whose network hiccups, is no failure
SILENCE_S_MAX = 300.0  # what its inputs spool meanwhile has room only for so long
RECOVERY_S = 3.0  # before any was measured
RECOVERY_S_MAX = 60.0  # a recovery that waits for other nodes says nothing of the next one
NEWEST = 0.3  # what the newest recovery counts
REMEMBERED_MAX = 100  # recoveries whose time is known one by one


class RecoveryTimes:
    """How long recoveries take, from the decision until a vertex is restored and its readers have answered it."""

    def __init__(self) -> None:
        self.average_s = RECOVERY_S
        self.measured = 0
        self._begun: dict[tuple[str, str], tuple[int, float]] = {}  # (query, vertex) -> term, when
        self._took_s: dict[tuple[str, str, int], float] = {}  # (query, vertex, term), the newest last

    def began(self, query: str, vertex: str, term: int, now: float) -> None:
        self._begun[query, vertex] = (term, now)

    def runs(self, query: str, vertex: str, term: int, now: float) -> None:
        """A vertex is at work under this term."""
        found = self._begun.get((query, vertex))
        if found is None or found[0] != term:
            return
        del self._begun[query, vertex]
        self._took_s.pop((query, vertex, term), None)
        self._took_s[query, vertex, term] = now - found[1]
        if len(self._took_s) > REMEMBERED_MAX:
            del self._took_s[next(iter(self._took_s))]
        took_s = min(RECOVERY_S_MAX, now - found[1])
        self.average_s = took_s if not self.measured else self.average_s + NEWEST * (took_s - self.average_s)
        self.measured += 1

    def took_s(self, query: str, vertex: str, term: int) -> float | None:
        """How long it took until a vertex was at work under this term; None while it is not, and where nobody here saw
        both its beginning and its end."""
        return self._took_s.get((query, vertex, term))


def delay_left_s(plan: Plan) -> float | None:
    """How late a query's rows may be on their way through the region: what they may wait in a batch before it does not
    count. None where it promises no delay."""
    bounds = [
        (edge.contract.delay_us_max - edge.within_us) / 1e6
        for edge in plan.gathers
        if edge.contract.delay_us_max is not None
    ]
    return min(bounds, default=None)


def silence_allowed_s(left_s: float | None, recovery_s: float, *, usual_s: float, least_s: float) -> float:
    """How long a node may say nothing before a query's vertices are taken from it."""
    if left_s is None:
        return usual_s
    return max(least_s, min(SILENCE_S_MAX, left_s - recovery_s))
