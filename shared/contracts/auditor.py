"""Measures a promise while the product runs: one auditor per sink, from numbers, times and frontiers alone.

A sink here is an edge by name; its streams are that edge of each device. Whoever reads the log tells the auditor what
it finds, in the order of the log, and closes an hour when everything received in it was told. An hour is one of
arrival: what came in it is final, so its findings can be signed.

* kept: delivered / (delivered + given up), by sequence numbers. A number that is skipped counts as given up without a
  reason. The verdict goes by the share since the stream began, as the phone's eviction does, in hours that lost
  something.
* delay: arrival minus event time of every row. A row is late when even the device's clock uncertainty does not explain
  it; between the two it is in doubt.
* order: within a stream by number; a row behind its own stream's frontier breaks it too, because that frontier said
  "nothing earlier follows". Between streams: a row behind the frontier that all streams together had passed. Times that
  go back while the frontier allows it are counted and break nothing: stream order is by number.
* once-only: a number that is told twice.
* wrong: elements that no operator could use (quarantined), and answers that had to be corrected. Only the first are
  elements of this sink, so only they are held against the promise.
* A stream that said nothing in the hour is silent. Nothing is known of it, so the sink is *unknown* and never *kept*.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np

from shared.batch import NO_FRONTIER
from shared.contracts.delays import Delays
from shared.plan.contracts import Contract

RANGES_MAX = 50  # named in the findings of an hour; the rest is counted
SILENT_MAX = 20
OUTAGES_MAX = 20
GAP_US = 90 * 1_000_000  # a longer silence of a stream is an outage: three of a node's longest polls
IDLE_US = 15 * 60 * 1_000_000  # a stream silent so long holds the frontier of all streams back no longer
LOOK_US = 60 * 1_000_000
NEVER = -(2**62)


class Verdict(Enum):
    """From good to bad, as a light shows it: green, grey, amber, red."""

    KEPT = "kept"
    UNKNOWN = "unknown"
    AT_RISK = "at risk"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Lost:
    stream: str
    lo: int
    hi: int
    reason: str


@dataclass(frozen=True, slots=True)
class Outage:
    """Nothing was heard of the stream in this span; it ended in the hour."""

    stream: str
    from_us: int
    to_us: int


@dataclass(frozen=True, slots=True)
class Findings:
    """What one hour of one sink was like."""

    verdict: Verdict
    why: tuple[str, ...]  # a word for each part of the promise that is not kept, or not known
    streams: int
    silent: tuple[str, ...]  # at most SILENT_MAX of them
    silent_count: int
    coverage: float  # which share of the hour the streams' frontiers cover
    delivered: int
    ledgered: int
    kept: float | None  # None: nothing was numbered
    kept_to_date: float | None
    quarantined: int
    corrected: int
    rows: int  # whose delay is known
    delay_p50_us: int | None
    delay_p99_us: int | None
    delay_max_us: int | None
    late: int  # rows beyond the bound
    late_in_doubt: int  # and beyond it by less than the clock's uncertainty
    swapped: int  # by number
    times_back: int
    behind: int  # its own stream's frontier
    behind_all: int  # the frontier of all streams
    twice: int  # elements told again
    lost: tuple[Lost, ...]
    lost_left_off: int  # ranges
    outages: tuple[Outage, ...]
    outages_left_off: int
    unread: bool  # a part of the log was gone before it was read here

    @property
    def wrong(self) -> int:
        return self.quarantined + self.corrected


@dataclass(slots=True)
class _Stream:
    first_us: int
    next: int | None = None  # the number that should come; None: nothing numbered was heard yet
    frontier_us: int = NO_FRONTIER
    heard_us: int = NEVER
    last_time_us: int = NEVER
    delivered: int = 0  # to date
    ledgered: int = 0
    skipped: list[list[int]] = field(default_factory=list)  # [lo, hi) that did not come; they may still, out of order

    def to_json(self) -> list[Any]:
        return [
            self.first_us, self.next, self.frontier_us, self.heard_us, self.last_time_us, self.delivered, self.ledgered,
            self.skipped,
        ]  # fmt: skip


@dataclass(slots=True)
class _Hour:
    delivered: int = 0
    ledgered: int = 0
    quarantined: int = 0
    corrected: int = 0
    late: int = 0
    late_in_doubt: int = 0
    swapped: int = 0
    times_back: int = 0
    behind: int = 0
    behind_all: int = 0
    twice: int = 0
    lost_left_off: int = 0
    delays: Delays = field(default_factory=Delays)
    lost: list[Lost] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    outages_left_off: int = 0
    unread: bool = False


_COUNTS = ("delivered", "ledgered", "quarantined", "corrected", "late", "late_in_doubt", "swapped", "times_back",
           "behind", "behind_all", "twice", "lost_left_off", "outages_left_off", "unread")  # fmt: skip


class Auditor:
    """One sink. `recovery_us` is how long a recovery takes: a delay nearer to the bound than that is at risk."""

    def __init__(
        self, contract: Contract, *, recovery_us: int = 0, idle_us: int = IDLE_US, gap_us: int = GAP_US
    ) -> None:
        self.contract = contract
        self.recovery_us = recovery_us
        self._idle_us = idle_us
        self._gap_us = gap_us
        self._streams: dict[str, _Stream] = {}
        self._passed_us = NO_FRONTIER  # by all streams together; never goes back
        self._look_us = NEVER  # look at all streams again then: some may have fallen silent
        self._hour = _Hour()

    # -- what the log says -------------------------------------------------------------------------------------------

    def expect(self, stream: str, since_us: int) -> None:
        """Something is due from this stream from then on: its silence counts."""
        self._streams.setdefault(stream, _Stream(since_us))

    def forget(self, stream: str) -> None:
        """Nothing more is due from it: its device was revoked, or began anew under another incarnation."""
        self._streams.pop(stream, None)

    def streams(self) -> list[str]:
        return list(self._streams)

    def delivered(
        self,
        stream: str,
        lo: int,
        hi: int,
        *,
        at_us: int,
        times_us: np.ndarray | None = None,
        frontier_us: int = NO_FRONTIER,
        uncertainty_us: int = 0,
    ) -> None:
        """A batch that covers [lo, hi), with its rows' event times if they could be read."""
        known = self._heard(stream, at_us)
        fresh = self._number(known, lo, hi)
        known.delivered += fresh
        self._hour.delivered += fresh
        if times_us is not None and len(times_us) and fresh:
            self._times(known, times_us, at_us, uncertainty_us)
        self._reach(known, frontier_us, at_us)

    def given_up(self, stream: str, lo: int, hi: int, reason: str, *, at_us: int) -> None:
        """A tombstone over [lo, hi)."""
        known = self._heard(stream, at_us)
        self._lose(stream, known, hi - self._number(known, lo, hi), hi, reason)

    def reached(self, stream: str, frontier_us: int, *, at_us: int) -> None:
        """Nothing earlier than this follows on the stream."""
        self._reach(self._heard(stream, at_us), frontier_us, at_us)

    def quarantined(self, elements: int) -> None:
        self._hour.quarantined += elements

    def corrected(self, answers: int) -> None:
        self._hour.corrected += answers

    def unread(self) -> None:
        """A part of the log was trimmed before it was told: what was in it is not known."""
        self._hour.unread = True
        for known in self._streams.values():
            known.next = None
            known.skipped.clear()

    # -- an hour -----------------------------------------------------------------------------------------------------

    def findings(self, from_us: int, to_us: int) -> Findings:
        """What was told so far, as of this span; changes nothing."""
        hour, streams = self._hour, self._streams
        due = {name: known for name, known in streams.items() if known.first_us < to_us}
        silent = sorted(name for name, known in due.items() if known.heard_us < from_us)
        covered = [_coverage(known, from_us, to_us) for known in due.values()]
        delivered, ledgered = (
            sum(getattr(known, each) for known in streams.values()) for each in ("delivered", "ledgered")
        )
        rows = hour.delays.count
        found = Findings(
            verdict=Verdict.KEPT, why=(), streams=len(due), silent=tuple(silent[:SILENT_MAX]), silent_count=len(silent),
            coverage=sum(covered) / len(covered) if covered else 0.0, delivered=hour.delivered, ledgered=hour.ledgered,
            kept=_share(hour.delivered, hour.ledgered), kept_to_date=_share(delivered, ledgered),
            quarantined=hour.quarantined, corrected=hour.corrected, rows=rows,
            delay_p50_us=hour.delays.quantile_us(0.5), delay_p99_us=hour.delays.quantile_us(0.99),
            delay_max_us=hour.delays.us_max if rows else None, late=hour.late, late_in_doubt=hour.late_in_doubt,
            swapped=hour.swapped, times_back=hour.times_back, behind=hour.behind, behind_all=hour.behind_all,
            twice=hour.twice, lost=tuple(hour.lost), lost_left_off=hour.lost_left_off,
            outages=tuple(hour.outages), outages_left_off=hour.outages_left_off, unread=hour.unread,
        )  # fmt: skip
        verdict, why = self._judge(found)
        return replace(found, verdict=verdict, why=why)

    def close(self, from_us: int, to_us: int) -> Findings:
        """The findings of the hour, and begin the next."""
        self._lose_skipped()
        found = self.findings(from_us, to_us)
        self._hour = _Hour()
        return found

    def _judge(self, found: Findings) -> tuple[Verdict, tuple[str, ...]]:
        contract = self.contract
        numbered = found.delivered + found.ledgered
        short = found.kept is not None and found.kept < contract.kept_min
        short_to_date = found.kept_to_date is not None and found.kept_to_date < contract.kept_min
        disordered = found.swapped or found.behind or (contract.order == "all" and found.behind_all)
        broken = [
            word
            for word, holds in (
                ("loss", found.ledgered and short_to_date),
                ("wrong", found.quarantined > contract.wrong_max * max(1, numbered)),
                ("delay", found.late),
                ("order", disordered),
                ("twice", found.twice),
            )
            if holds
        ]
        if broken:
            return Verdict.BROKEN, tuple(broken)
        bound_us = contract.delay_us_max
        near = bound_us is not None and (found.delay_max_us or 0) > bound_us - self.recovery_us
        risks = [word for word, holds in (("loss", short), ("delay", found.late_in_doubt or near)) if holds]
        if risks:
            return Verdict.AT_RISK, tuple(risks)
        if found.silent_count or not found.streams or found.unread:
            return Verdict.UNKNOWN, ("unread",) if found.unread else ("silent",)
        return Verdict.KEPT, ()

    # -- taking in ---------------------------------------------------------------------------------------------------

    def _heard(self, stream: str, at_us: int) -> _Stream:
        known = self._streams.get(stream)
        if known is None:
            known = self._streams[stream] = _Stream(at_us)
        if known.heard_us != NEVER and at_us - known.heard_us > self._gap_us:
            if len(self._hour.outages) < OUTAGES_MAX:
                self._hour.outages.append(Outage(stream, known.heard_us, at_us))
            else:
                self._hour.outages_left_off += 1
        known.heard_us = max(known.heard_us, at_us)
        return known

    def _number(self, known: _Stream, lo: int, hi: int) -> int:
        """Move the stream's next number to `hi`; how many of [lo, hi) were not told before."""
        if known.next is None:
            known.next = lo  # what came before belongs to an earlier audit, or to a part of the log that is gone
        if lo > known.next:
            known.skipped.append([known.next, lo])
            known.next = lo
        fresh = max(0, hi - known.next)
        if lo < known.next:
            filled = _fill(known.skipped, lo, hi)
            self._hour.swapped += filled > 0
            self._hour.twice += min(hi, known.next) - lo - filled
            fresh += filled
        known.next = max(known.next, hi)
        return fresh

    def _lose_skipped(self) -> None:
        """The hour is over: what was skipped in it and did not come is lost, and nobody said why."""
        for stream, known in self._streams.items():
            for lo, hi in known.skipped:
                self._lose(stream, known, lo, hi, "skipped")
            known.skipped.clear()

    def _lose(self, stream: str, known: _Stream, lo: int, hi: int, reason: str) -> None:
        if hi <= lo:
            return
        hour = self._hour
        known.ledgered += hi - lo
        hour.ledgered += hi - lo
        last = hour.lost[-1] if hour.lost else None
        if last is not None and (last.stream, last.hi, last.reason) == (stream, lo, reason):
            hour.lost[-1] = Lost(stream, last.lo, hi, reason)
        elif len(hour.lost) < RANGES_MAX:
            hour.lost.append(Lost(stream, lo, hi, reason))
        else:
            hour.lost_left_off += 1

    def _times(self, known: _Stream, times_us: np.ndarray, at_us: int, uncertainty_us: int) -> None:
        hour, bound_us = self._hour, self.contract.delay_us_max
        delays_us = at_us - times_us
        hour.delays.add(delays_us)
        if bound_us is not None:
            beyond = int(np.count_nonzero(delays_us > bound_us))
            late = int(np.count_nonzero(delays_us > bound_us + uncertainty_us)) if beyond else 0
            hour.late += late
            hour.late_in_doubt += beyond - late
        hour.times_back += int(np.count_nonzero(times_us[1:] < times_us[:-1])) + int(times_us[0] < known.last_time_us)
        hour.behind += int(np.count_nonzero(times_us < known.frontier_us))
        hour.behind_all += int(np.count_nonzero(times_us < self._passed_us))
        known.last_time_us = int(times_us[-1])

    def _reach(self, known: _Stream, frontier_us: int, at_us: int) -> None:
        before_us = known.frontier_us
        # A device's clock may be wrong: its frontier is believed no further than its arrival, as everywhere.
        known.frontier_us = max(before_us, min(frontier_us, at_us))
        if known.frontier_us == before_us or (before_us > self._passed_us and at_us < self._look_us):
            return  # it was not the one that held the others back
        self._look_us = at_us + LOOK_US
        since_us = at_us - self._idle_us
        active = [each.frontier_us for each in self._streams.values() if max(each.heard_us, each.first_us) >= since_us]
        self._passed_us = max(self._passed_us, min(active))

    # -- a restart ---------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Everything but the contract, to go on from after a restart."""
        hour = self._hour
        return {
            "passed_us": self._passed_us,
            "streams": {name: known.to_json() for name, known in self._streams.items()},
            "counts": [getattr(hour, name) for name in _COUNTS],
            "delays": hour.delays.to_json(),
            "lost": [[each.stream, each.lo, each.hi, each.reason] for each in hour.lost],
            "outages": [[each.stream, each.from_us, each.to_us] for each in hour.outages],
        }

    def resume(self, state: dict[str, Any]) -> None:
        self._passed_us = state["passed_us"]
        self._streams = {name: _Stream(*values) for name, values in state["streams"].items()}
        counts = dict(zip(_COUNTS, state["counts"], strict=True))
        lost = [Lost(*each) for each in state["lost"]]
        outages = [Outage(*each) for each in state["outages"]]
        self._hour = _Hour(**counts, delays=Delays.from_json(state["delays"]), lost=lost, outages=outages)


def _share(delivered: int, ledgered: int) -> float | None:
    return delivered / (delivered + ledgered) if delivered + ledgered else None


def _coverage(known: _Stream, from_us: int, to_us: int) -> float:
    start = max(from_us, known.first_us)
    return min(1.0, max(0.0, (known.frontier_us - start) / (to_us - start)))


def _fill(skipped: list[list[int]], lo: int, hi: int) -> int:
    """Take [lo, hi) out of the skipped ranges; how many numbers of it were in them."""
    left: list[list[int]] = []
    filled = 0
    for start, end in skipped:
        common = max(0, min(end, hi) - max(start, lo))
        filled += common
        left += [[start, end]] if not common else [part for part in ([start, lo], [hi, end]) if part[0] < part[1]]
    skipped[:] = left
    return filled
