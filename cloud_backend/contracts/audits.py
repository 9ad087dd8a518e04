"""Reads the log for the auditors, one per sink with a contract, and writes their reports.

It follows the log by itself, off the exchanges' way: what an exchange costs does not change. Of a batch only the header
and the event times are read. Everything received in an hour is told before the hour is closed; where the audit stands
is saved with what it has counted, so a restart goes on in the middle of an hour and counts nothing twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from cloud_backend.contracts.recoveries import Recoveries
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
from shared.moves import Recovery
from shared.plan import operators as op
from shared.plan.contracts import Contract
from shared.plan.cuts import device_streams, synced_outputs
from shared.plan.graph import Plan, SyncEdge
from shared.recovery.strategies import STRATEGIES
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
    revoked: bool = False


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What became of delivered elements, counted since ever: the audit takes the difference."""

    quarantined: Mapping[str, int]  # elements by edge
    corrected: Mapping[str, int]  # answers by result sink
    rollbacks: tuple[Mapping[str, Any], ...] = ()  # of all jobs, each with `job` and its number `n`


@dataclass(frozen=True, slots=True)
class Query:
    """A query whose nodes send streams of their own to the log."""

    name: str
    origin: str  # hex, in the place of a device's id
    incarnation: int
    plan: Plan
    row: str
    every: int


@dataclass(frozen=True, slots=True)
class SinkNow:
    """A sink in the hour that runs."""

    sink: str
    contract: Contract
    choice: Choice
    findings: Findings
    query: dict[str, Any] | None = None  # whose nodes make it, and what had to begin again there


@dataclass(slots=True)
class _Sink:
    name: str
    contract: Contract
    choice: Choice
    auditor: Auditor
    answers: tuple[str, ...]  # the result sinks that read this edge
    of_devices: bool = True  # devices send it themselves; else nodes, for a query
    query: Query | None = None  # None also while nodes should send it and nobody submitted the query


NOTHING = Aftermath({}, {})


class Audits:
    """Safe to share between threads: `follow` takes in what is new, readers wait for a part of it at most."""

    def __init__(
        self,
        log: Log,
        path: Location | None,
        *,
        plan: Callable[[], Plan | None],
        devices: Callable[[int], tuple[int, Collection[Device]]],
        sign: Sign,
        aftermath: Callable[[], Aftermath] = lambda: NOTHING,
        queries: Callable[[], tuple[Query, ...]] = tuple,
        recoveries: Callable[[], Collection[Recovery]] = tuple,
        hour_us: int = HOUR_US,
        begin_us: int | None = None,
    ) -> None:
        """`devices`: those of which something changed since the change of this number, from 0 on all, and the newest
        number. `begin_us`: the first time, read all that is kept of the log, as of then; None begins with what comes
        now, because nobody told what was promised before."""
        self._log = log
        self._plan = plan
        self._devices = devices
        self._aftermath = aftermath
        self._queries, self._look_at_recoveries = queries, recoveries
        self._hour_us = hour_us
        self._begin_us = begin_us
        self.stored = Reports(path, sign=sign)
        self._following = threading.Lock()
        self._lock = threading.Lock()
        self._sinks: dict[int, _Sink] = {}  # by edge number
        self._known: tuple[Plan | None, tuple[Query, ...]] = (None, ())
        self._seen_change = 0  # of the devices
        self._due: dict[str, Device] = {}  # by stream
        self._streams: dict[str, str] = {}  # by device: the stream that is due from it
        self._taken: set[str] = set()  # streams of which something was read since it was looked whether it was due
        self._saved_at = time.monotonic()
        place = self.stored.state("place") or {}
        self._position = int(place.get("position", -1))
        self._from_us = int(place.get("from_us", -1))
        self._counted: dict[str, Any] = self.stored.state("aftermath") or {}
        self._rollbacks: list[Mapping[str, Any]] = list(self.stored.state("rollbacks") or ())
        self._recoveries = Recoveries(self.stored.state("recoveries") or ())

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
                    _made_by(sink, self._recoveries, now_us + 1),
                )
                for name, sink in ((sink_name, self._sinks[edge_id(sink_name)]) for sink_name in self._names())
            ]
        return sorted(found, key=lambda each: each.sink)

    def reports(self, **which: Any) -> list[Report]:
        return self.stored.reports(**which)

    # -- what is promised, and by whom --------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        return [sink.name for sink in self._sinks.values()]

    def _begin(self, now_us: int) -> None:
        if self._position >= 0:
            return
        if self._begin_us is not None:
            self._position, self._from_us = self._log.start, self._begin_us
        else:
            self._position, self._from_us = self._log.durable_end, now_us
        self._save(())  # after a kill it goes on from here, and not from where the log ends then

    def _look_around(self, now_us: int) -> None:
        plan, queries = self._plan() or self._known[0], self._queries()
        promised = (plan, queries) != self._known
        if promised:
            self._take_promises(plan, queries, now_us)
        changed = self._take_devices()
        self._forget_gone(everywhere=promised)
        due = self._due if promised else {name: self._due[name] for name in changed if name in self._due}
        with self._lock:
            for sink in self._sinks.values():
                for name, each in due.items():
                    if each.has_plan and sink.of_devices:
                        sink.auditor.expect(name, each.since_us)
                if sink.query is not None:
                    sink.auditor.expect(_stream(sink.query.origin, sink.query.incarnation), now_us)
            self._take_aftermath(self._aftermath())
            self._recoveries.take(self._look_at_recoveries(), self._from_us)

    def _take_devices(self) -> set[str]:
        """Take in of which devices something changed; the streams that are due or not since then."""
        self._seen_change, devices = self._devices(self._seen_change)
        changed = set()
        for each in devices:
            name = _stream(each.id, each.incarnation)
            former = self._streams.get(each.id)
            if former is not None and (former != name or each.revoked):
                del self._due[former], self._streams[each.id]
                changed.add(former)
            if not each.revoked:
                self._due[name], self._streams[each.id] = each, name
                changed.add(name)
        self._taken |= changed
        return changed

    def _forget_gone(self, *, everywhere: bool = False) -> None:
        """Nothing is due from a device that was revoked, nor from an earlier incarnation. Costs what was read since."""
        with self._lock:
            for sink in self._sinks.values():
                due: Collection[str] = self._due if sink.of_devices else ()
                if sink.query is not None:
                    due = (_stream(sink.query.origin, sink.query.incarnation),)
                for name in sink.auditor.streams() if everywhere else self._taken:
                    if name not in due:
                        sink.auditor.forget(name)
            self._taken.clear()

    def _take_promises(self, plan: Plan | None, queries: tuple[Query, ...], now_us: int) -> None:
        """Others may promise otherwise: what ran until now is reported by the promise it ran under."""
        promised = _promised(plan, queries)
        contracts = {each.edge.name: each.edge.contract for each in promised}
        before = {name: self._sinks[edge_id(name)].contract for name in self._names()}
        if before and any(contracts.get(name) != contract for name, contract in before.items()):
            self._close(now_us)
        with self._lock:
            former, self._sinks = self._sinks, {}
            for each in promised:
                edge, choice = each.edge, each.choice
                gap_us = max(GAP_US, 3 * edge.within_us)
                auditor = Auditor(edge.contract, recovery_us=round(choice.recovery_s * SECOND_US), gap_us=gap_us)
                known = former.get(edge_id(edge.name))
                state = self.stored.state(f"sink {edge.name}") if known is None else known.auditor.to_json()
                if state is not None:
                    auditor.resume(state)
                self._sinks[edge_id(edge.name)] = _Sink(
                    edge.name, edge.contract, choice, auditor, _answers(each.plan, edge.name), each.of_devices,
                    each.query,
                )  # fmt: skip
            self._known = plan, queries

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
                self._rollbacks += [] if first else [each]
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
        self._taken.add(stream)
        known = self._due.get(stream)
        if header.kind == FrameType.FRONTIER:
            auditor.reached(stream, header.frontier_us, at_us=at_us)
        elif header.kind == FrameType.DATA:
            auditor.delivered(
                stream, header.seq, header.hi, at_us=at_us, times_us=_times(record, header),
                frontier_us=header.frontier_us, uncertainty_us=0 if known is None else known.uncertainty_us,
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
                _content(sink, self._from_us, to_us, self._rollbacks, _made_by(sink, self._recoveries, to_us))
                for sink in self._sinks.values()
            )
            self._rollbacks = []
            self._recoveries.forget(to_us)
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
            states["rollbacks"] = list(self._rollbacks)
            states["recoveries"] = self._recoveries.to_json()
        self.stored.save(states, contents)
        self._saved_at = time.monotonic()


@dataclass(frozen=True, slots=True)
class _Promised:
    edge: SyncEdge
    choice: Choice
    plan: Plan
    of_devices: bool
    query: Query | None


def _promised(plan: Plan | None, queries: tuple[Query, ...]) -> list[_Promised]:
    """Every stream that is promised to the log: by the program, and by queries that nodes run."""
    found: dict[str, _Promised] = {}
    if plan is not None:
        chosen, own = promises(plan), device_streams(plan)
        found = {each.name: _Promised(each, chosen[each.name], plan, each.name in own, None) for each in plan.edges}
    for query in queries:
        chosen, sent = promises(query.plan), {output.name for output in synced_outputs(query.plan)}
        for edge in query.plan.edges:
            if edge.name in sent:
                choice = replace(chosen[edge.name], row=STRATEGIES[query.row].row, every=query.every)
                found[edge.name] = _Promised(edge, choice, query.plan, False, query)
    return list(found.values())


def _made_by(sink: _Sink, recoveries: Recoveries, to_us: int) -> dict[str, Any] | None:
    if sink.query is None:
        return None
    return {"name": sink.query.name, "recovered": recoveries.report(sink.query.name, to_us)}


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
    sink: _Sink, from_us: int, to_us: int, rollbacks: Collection[Mapping[str, Any]], made_by: dict[str, Any] | None
) -> dict[str, Any]:
    """A report as JSON says it."""
    found = sink.auditor.close(from_us, to_us)
    choice = sink.choice
    return {
        "sink": sink.name, "from_us": from_us, "to_us": to_us,
        "promise": {**asdict(sink.contract), "text": sink.contract.describe(), "levels": level_of(sink.contract).names},
        "strategy": {
            "row": None if choice.row is None else choice.row.name, "every": choice.every,
            "recovery_s": choice.recovery_s, "refused": choice.refused,
        },
        "recoveries": [dict(each) for each in rollbacks],
        **({} if made_by is None else {"query": made_by}),
        **findings_json(found),
    }  # fmt: skip


def findings_json(found: Findings) -> dict[str, Any]:
    """Findings as reports and the API say them."""
    return {**asdict(found), "verdict": found.verdict.value, "wrong": found.wrong}
