"""Reads the log for the auditors, one per sink with a contract, and writes their reports.

It follows the log by itself, off the exchanges' way: what an exchange costs does not change. Of a batch only the header
and the event times are read. Everything received in an hour is told before the hour is closed; where the audit stands
is saved with what it has counted, so a restart goes on in the middle of an hour and counts nothing twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np

from cloud_backend.contracts.reports import Report, Reports, Sign
from cloud_backend.database import Location
from cloud_backend.log.format import RECORD_HEADER_BYTES, Record
from cloud_backend.log.log import Log
from shared.contracts.auditor import GAP_US, Auditor, Findings
from shared.contracts.costs import Choice
from shared.contracts.levels import level_of
from shared.contracts.promises import promises
from shared.errors import PeerError
from shared.identity import edge_id
from shared.plan import operators as op
from shared.plan.contracts import Contract
from shared.plan.graph import Plan
from shared.wire.codecs import decode_times
from shared.wire.frame import FrameHeader, FrameType, decode_one, stored_header
from shared.wire.messages import Data, LostRange

SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US
SETTLE_US = 5 * SECOND_US  # an exchange that was received before the hour ended may reach the log after it
HOURS_MISSED_MAX = 48  # each has its report; of a longer stop only the last of them
RECORDS_AT_ONCE = 500
SAVE_EVERY_S = 20.0
_TOLD = frozenset({FrameType.DATA, FrameType.TOMBSTONE, FrameType.FRONTIER})


@dataclass(frozen=True, slots=True)
class Device:
    """A device from which something is due, as the roster has it."""

    id: str  # hex
    incarnation: int
    since_us: int
    uncertainty_us: int = 0
    has_plan: bool = True


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What became of delivered elements, counted since ever: the audit takes the difference."""

    quarantined: Mapping[str, int]  # elements by edge
    corrected: Mapping[str, int]  # answers by result sink
    rollbacks: tuple[Mapping[str, Any], ...] = ()  # of all jobs, each with `job` and its number `n`


@dataclass(frozen=True, slots=True)
class SinkNow:
    """A sink in the hour that runs."""

    sink: str
    contract: Contract
    choice: Choice
    findings: Findings


@dataclass(slots=True)
class _Sink:
    contract: Contract
    choice: Choice
    auditor: Auditor
    answers: tuple[str, ...]  # the result sinks that read this edge


NOTHING = Aftermath({}, {})


class Audits:
    """Safe to share between threads: `follow` takes in what is new, readers wait for a part of it at most."""

    def __init__(
        self,
        log: Log,
        path: Location | None,
        *,
        plan: Callable[[], Plan | None],
        devices: Callable[[], Collection[Device]],
        sign: Sign,
        aftermath: Callable[[], Aftermath] = lambda: NOTHING,
        hour_us: int = HOUR_US,
        begin_us: int | None = None,
    ) -> None:
        """`begin_us`: the first time, read all that is kept of the log, as of then; None begins with what comes now,
        because nobody told what was promised before."""
        self._log = log
        self._plan = plan
        self._devices = devices
        self._aftermath = aftermath
        self._hour_us = hour_us
        self._begin_us = begin_us
        self.stored = Reports(path, sign=sign)
        self._following = threading.Lock()
        self._lock = threading.Lock()
        self._sinks: dict[int, _Sink] = {}  # by edge number
        self._known_plan: Plan | None = None
        self._uncertainty_us: dict[str, int] = {}  # of every stream that is due
        self._saved_at = time.monotonic()
        place = self.stored.state("place") or {}
        self._position = int(place.get("position", -1))
        self._from_us = int(place.get("from_us", -1))
        self._counted: dict[str, Any] = self.stored.state("aftermath") or {}
        self._recoveries: list[Mapping[str, Any]] = []

    def close(self) -> None:
        with self._following:
            self._save(())
            self.stored.close()

    @property
    def behind_bytes(self) -> int:
        return max(self._log.durable_end - max(self._position, 0), 0)

    def follow(self, now_us: int, *, seconds_max: float = 1.0) -> int:
        """Take in what the log holds now, or as much as fits the time, and close the hours that are over; returns how
        many bytes are left."""
        deadline = time.monotonic() + seconds_max
        with self._following:
            self._begin(now_us)
            self._look_around(now_us)
            end = self._log.durable_end
            self._catch_up_with_trim()
            records = self._log.read(self._position, end, erased=True)
            while chunk := list(islice(records, RECORDS_AT_ONCE)):
                for offset, record in chunk:
                    self._close_hours(record.received_us, now_us)
                    with self._lock:
                        self._take(record)
                    self._position = offset + RECORD_HEADER_BYTES + len(record.frame)
                if time.monotonic() > deadline:
                    break
            else:
                self._position = end
                self._forget_gone()
                self._close_hours(now_us - SETTLE_US, now_us)
            if time.monotonic() - self._saved_at > SAVE_EVERY_S:
                self._save(())
            return end - self._position

    def now(self, now_us: int) -> list[SinkNow]:
        """Every sink that promises something, in the hour that runs, by name."""
        with self._lock:
            found = [
                SinkNow(
                    name,
                    sink.contract,
                    sink.choice,
                    sink.auditor.findings(self._from_us, max(now_us, self._from_us + 1)),
                )
                for name, sink in ((sink_name, self._sinks[edge_id(sink_name)]) for sink_name in self._names())
            ]
        return sorted(found, key=lambda each: each.sink)

    def reports(self, **which: Any) -> list[Report]:
        return self.stored.reports(**which)

    # -- what is promised, and by whom --------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        plan = self._known_plan
        return [] if plan is None else [edge.name for edge in plan.edges if edge_id(edge.name) in self._sinks]

    def _begin(self, now_us: int) -> None:
        if self._position >= 0:
            return
        if self._begin_us is not None:
            self._position, self._from_us = self._log.start, self._begin_us
        else:
            self._position, self._from_us = self._log.durable_end, now_us
        self._save(())  # after a kill it goes on from here, and not from where the log ends then

    def _look_around(self, now_us: int) -> None:
        plan = self._plan()
        if plan is not None and plan is not self._known_plan:
            self._take_plan(plan, now_us)
        devices = self._devices()
        due = {_stream(each.id, each.incarnation): each for each in devices}
        self._uncertainty_us = {name: each.uncertainty_us for name, each in due.items()}
        self._forget_gone()
        with self._lock:
            for sink in self._sinks.values():
                for name, each in due.items():
                    if each.has_plan:
                        sink.auditor.expect(name, each.since_us)
            self._take_aftermath(self._aftermath())

    def _forget_gone(self) -> None:
        """Nothing is due from a device that was revoked, nor from an earlier incarnation."""
        with self._lock:
            for sink in self._sinks.values():
                for name in [name for name in sink.auditor.streams() if name not in self._uncertainty_us]:
                    sink.auditor.forget(name)

    def _take_plan(self, plan: Plan, now_us: int) -> None:
        """Another program may promise otherwise: what ran until now is reported by the promise it ran under."""
        chosen = promises(plan)
        contracts = {edge.name: edge.contract for edge in plan.edges}
        before = {name: self._sinks[edge_id(name)].contract for name in self._names()}
        if before and any(contracts.get(name) != contract for name, contract in before.items()):
            self._close(now_us)
        with self._lock:
            former, self._sinks = self._sinks, {}
            for edge in plan.edges:
                choice = chosen[edge.name]
                gap_us = max(GAP_US, 3 * edge.within_us)
                auditor = Auditor(edge.contract, recovery_us=round(choice.recovery_s * SECOND_US), gap_us=gap_us)
                known = former.get(edge_id(edge.name))
                state = self.stored.state(f"sink {edge.name}") if known is None else known.auditor.to_json()
                if state is not None:
                    auditor.resume(state)
                self._sinks[edge_id(edge.name)] = _Sink(edge.contract, choice, auditor, _answers(plan, edge.name))
            self._known_plan = plan

    def _take_aftermath(self, found: Aftermath) -> None:
        """Count what is more than at the last look; less is a correction of the count itself, and no news."""
        counted = self._counted
        first = not counted
        quarantined, corrected = counted.get("quarantined", {}), counted.get("corrected", {})
        newest: dict[str, int] = dict(counted.get("rollbacks", {}))
        for name in self._names():
            sink = self._sinks[edge_id(name)]
            if not first:
                sink.auditor.quarantined(max(0, found.quarantined.get(name, 0) - quarantined.get(name, 0)))
                sink.auditor.corrected(
                    sum(max(0, found.corrected.get(each, 0) - corrected.get(each, 0)) for each in sink.answers)
                )
        for each in found.rollbacks:
            if each["n"] > newest.get(each["job"], 0):
                newest[each["job"]] = each["n"]
                self._recoveries += [] if first else [each]
        self._counted = {
            "quarantined": dict(found.quarantined), "corrected": dict(found.corrected), "rollbacks": newest,
        }  # fmt: skip

    # -- reading ------------------------------------------------------------------------------------------------------

    def _catch_up_with_trim(self) -> None:
        start = self._log.start
        if self._position < start:
            self._position = start
            for sink in self._sinks.values():
                sink.auditor.unread()

    def _take(self, record: Record) -> None:
        if not record.frame:
            return
        header = stored_header(record.frame)
        sink = self._sinks.get(header.edge)
        if sink is None or header.kind not in _TOLD:
            return
        stream, at_us, auditor = _stream(header.source.hex(), header.incarnation), record.received_us, sink.auditor
        if header.kind == FrameType.FRONTIER:
            auditor.reached(stream, header.frontier_us, at_us=at_us)
        elif header.kind == FrameType.DATA:
            auditor.delivered(
                stream, header.seq, header.hi, at_us=at_us, times_us=_times(record, header),
                frontier_us=header.frontier_us, uncertainty_us=self._uncertainty_us.get(stream, 0),
            )  # fmt: skip
        else:
            auditor.given_up(stream, header.seq, header.hi, _reason(record), at_us=at_us)

    # -- reporting ----------------------------------------------------------------------------------------------------

    def _close_hours(self, reached_us: int, now_us: int) -> None:
        """Everything received before `reached_us` was told: close what ended by then."""
        if reached_us - self._from_us > HOURS_MISSED_MAX * self._hour_us:
            self._from_us = reached_us // self._hour_us * self._hour_us - HOURS_MISSED_MAX * self._hour_us
        while (end_us := (self._from_us // self._hour_us + 1) * self._hour_us) <= min(reached_us, now_us):
            self._close(end_us)

    def _close(self, to_us: int) -> None:
        with self._lock:
            contents = tuple(
                _content(name, self._sinks[edge_id(name)], self._from_us, to_us, self._recoveries)
                for name in self._names()
            )
            self._recoveries = []
            self._from_us = to_us
        self._save(contents)

    def _save(self, contents: tuple[dict[str, Any], ...]) -> None:
        if self._position < 0:
            return
        with self._lock:
            states: dict[str, object] = {
                f"sink {name}": self._sinks[edge_id(name)].auditor.to_json() for name in self._names()
            }
            states["place"] = {"position": self._position, "from_us": self._from_us}
            states["aftermath"] = self._counted
        self.stored.save(states, contents)
        self._saved_at = time.monotonic()


def _stream(device: str, incarnation: int) -> str:
    return f"{device}/{incarnation}"


def _answers(plan: Plan, edge: str) -> tuple[str, ...]:
    """The result sinks that what arrives on this edge reaches."""
    reached: set[int] = set()
    found: list[str] = []
    for node in plan.nodes:
        if (isinstance(node.operator, op.Sync) and node.operator.name == edge) or reached & set(node.inputs):
            reached.add(node.id)
            if isinstance(node.operator, op.SyncBack | op.Subscribe):
                found.append(node.operator.name)
    return tuple(found)


def _times(record: Record, header: FrameHeader) -> np.ndarray | None:
    """The rows' event times; None where the batch cannot be read: Spark will say so, here its numbers count."""
    if not header.payload_bytes:
        return None
    try:
        return decode_times(Data.of(decode_one(record.frame)[0]))
    except PeerError:
        return None


def _reason(record: Record) -> str:
    try:
        return LostRange.of(decode_one(record.frame)[0]).reason
    except PeerError:
        return "unknown"


def _content(
    name: str, sink: _Sink, from_us: int, to_us: int, recoveries: Collection[Mapping[str, Any]]
) -> dict[str, Any]:
    """A report as JSON says it."""
    found = sink.auditor.close(from_us, to_us)
    choice = sink.choice
    return {
        "sink": name, "from_us": from_us, "to_us": to_us,
        "promise": {**asdict(sink.contract), "text": sink.contract.describe(), "levels": level_of(sink.contract).names},
        "strategy": {
            "row": None if choice.row is None else choice.row.name, "every": choice.every,
            "recovery_s": choice.recovery_s, "refused": choice.refused,
        },
        "recoveries": [dict(each) for each in recoveries],
        **findings_json(found),
    }  # fmt: skip


def findings_json(found: Findings) -> dict[str, Any]:
    """Findings as reports and the API say them."""
    return {**asdict(found), "verdict": found.verdict.value, "wrong": found.wrong}
