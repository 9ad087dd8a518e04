"""The job manager: cuts epochs from the ingest log and drives every vertex through them.

One driver at a time holds the term. Its loop: fold in what others appended to the manifest; cut an epoch when the log
has grown; run every step that is ready, as one Spark job with a task per hash range; commit what came back; publish.
Steps of different epochs run side by side when their inputs are there, so a long chain of vertices is a pipeline.

The one rule: nothing counts until its manifest entry is put. A driver killed anywhere leaves files nobody names and
an entry that is there or is not; the next driver takes the term and goes on from the last entry.
"""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from cloud_backend.lease import Lease
from cloud_backend.log.kafka.topics import Unreachable
from cloud_backend.log.partitions import LogReader, Place, open_log
from cloud_backend.results.store import Results
from cloud_backend.spark.cluster.faults import ClusterFault
from cloud_backend.spark.control.balance import Overload, redivision, sampling_rate
from cloud_backend.spark.control.collection import collect, delete_unnamed, log_places
from cloud_backend.spark.control.erasure import erasure, forget_what_was_erased, is_level
from cloud_backend.spark.control.failures import ATTEMPTS_MAX, Failures, producer_of, repair
from cloud_backend.spark.control.log_needs import LogUse, Use
from cloud_backend.spark.control.schedule import (
    RangeEpoch,
    cascade,
    physical_name,
    ready_steps,
    run_again,
    specification,
    still_counts,
)
from cloud_backend.spark.control.shared_state import meeting_sinks, run_without
from cloud_backend.spark.graph import JobGraph, job_graph
from cloud_backend.spark.job_facts import counted_snapshots, lag_s
from cloud_backend.spark.manifest.entries import Commit, Cut, Division, Entry, PlanChange
from cloud_backend.spark.manifest.lineage import Committed, LeftOut, Physical
from cloud_backend.spark.manifest.manifest import Manifest, ManifestLog
from cloud_backend.spark.manifest.plans import Configurations, PlanFile, replaced, store_plan, stored_plan
from cloud_backend.spark.manifest.quarantine import quarantine, quarantined_count, quarantined_elements
from cloud_backend.spark.publishing.publisher import NOTES_EVERY_S, Publication
from cloud_backend.spark.slots import Range
from cloud_backend.spark.storage import records
from cloud_backend.spark.storage.files import is_uri
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task.specification import Done, Failed, LogBytes, Outcome, Specification
from shared.errors import DamagedData, UsageError
from shared.plan.encoding import encode_plan
from shared.plan.graph import Plan
from shared.recovery.retention import Retention

COLLECT_SHARE = 8  # the part of the epochs that are kept, after which it is time to collect again
RENEWALS = 4  # of a lease before it would run out
IDLE_REMOTE_S = 0.5  # each look for what others appended is a request
LOOK_EVERY_S = 5.0  # while there is work; whoever appends finds out anyway
LOADS_KEPT = 8  # of each range: more than `redivision` looks at
_log = logging.getLogger("resurge.spark")


class Runner(Protocol):
    """Runs tasks: on Spark, or in this process."""

    code: str

    def run(self, specs: Sequence[Specification], *, timeout_s: float | None = None) -> list[list[Outcome]]: ...


@dataclass(frozen=True, slots=True)
class JobSettings:
    ranges: int = 2  # hash ranges of a vertex at its start
    ranges_of: Mapping[str, int] = field(default_factory=dict)  # the same for single vertices
    epoch_s: float = 1.0  # at most one cut per this many seconds
    epochs_ahead_max: int = 8  # cuts that no vertex has finished; above it the log absorbs
    epoch_bytes_max: int = 64 * 1024 * 1024
    task_timeout_s: float | None = 120.0
    retention: Retention = field(default_factory=Retention)
    collect_every: int = 20  # epochs
    chain_max: int = 32  # files of a snapshot, base and deltas
    balance: bool = True
    ranges_max: int = 64
    overload: Overload = field(default_factory=Overload)
    lease_s: float = 10.0
    run_again_s: float = 1.0  # task time that one job may spend on running a range's epochs again; what is new waits


@dataclass(slots=True)
class Events:
    """What happened since the start, for status and tests."""

    commits: int = 0
    rollbacks: int = 0
    cascades: int = 0
    lost_races: int = 0
    timeouts: int = 0
    quarantined: list[LeftOut] = field(default_factory=list)
    cache: dict[str, int] = field(default_factory=dict)
    log_bytes: LogBytes = field(default_factory=LogBytes)


class JobManager:
    def __init__(
        self,
        log_dir: Path | str,
        store_dir: Path | str,
        plan: Plan,
        master: str = "local[*]",
        *,
        results: Results,
        runner: Runner | None = None,
        operator_modules: Sequence[str] = (),
        settings: JobSettings | None = None,
        session_settings: Mapping[str, str] | None = None,
        name: str = "main",
        local_dir: Path | None = None,
        log_use: LogUse | None = None,
        reader: LogReader | None = None,
        clock: Callable[[], float] = time.time,
        gone: Callable[[], Mapping[str, int]] = dict,
        deleted: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self.name = name
        self._deleted = deleted  # devices whose data is to be erased -> when that was asked for; the log holds none
        self._gone = gone  # devices that were revoked or deleted -> when, in microseconds
        self.settings = settings or JobSettings()
        self.store = Store(store_dir if is_uri(str(store_dir)) else Path(store_dir).absolute())
        self.store.create()
        self._log = str(log_dir) if is_uri(str(log_dir)) else str(Path(log_dir).absolute())
        self._reader = reader or open_log(self._log)  # jobs of one process share theirs
        self._clock = clock
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self.lease = Lease(self.store, owner=self.owner, duration_s=self.settings.lease_s, now=clock)
        if runner is None:
            from cloud_backend.spark.cluster.session import SparkRunner, open_session

            session = open_session(master, settings=dict(session_settings or {}))
            runner = SparkRunner(session, self._local(local_dir) / "code", operator_modules)
        self.runner = runner
        self.manifest_log = ManifestLog(self.store)
        self.events = Events()
        self.failures = Failures(exceptions=list(self.store.note("status").get("exceptions", [])))
        self._results = results
        self._cut_at = float("-inf")
        self._status_at = self._caught_up_at = float("-inf")
        self._worked = False  # in the last round
        self._collected_commits = 0
        self._rate = 1.0
        self._backlog_bytes = 0
        self._log_use = log_use or LogUse(self._local(local_dir))
        self._loads: dict[Physical, deque[float]] = {}
        self._alone: dict[Physical, int] = {}  # up to this epoch a range runs one at a time: several together failed
        self.term = self.manifest_log.take_over(self.owner)
        self._coming: Plan | None = None
        self._program: PlanFile | None = None
        if not self.manifest.plan:
            self._put_plan(plan)
        self._follow_plan()
        if self.manifest.erased:  # the driver before may have died before it had deleted the files
            self.publication.publish(self.manifest_log, self.term, self.snapshots)
            self._forget_erased()
        self.take(plan)

    def _local(self, directory: Path | None) -> Path:
        """Where files for this machine go: what the gateway reads, and the code that is shipped."""
        return directory or self.store.root

    # -- plans -----------------------------------------------------------------------------------------------------

    @property
    def manifest(self) -> Manifest:
        return self.manifest_log.state

    def take(self, plan: Plan) -> None:
        """Go on with this plan once everything that was cut has been worked off under the one at hand. An older version
        than that one is left alone: what a rollback corrected must not come back with the next start."""
        current = self.graph.plan
        news = plan.version >= current.version and encode_plan(current) != encode_plan(plan)
        self._coming = plan if news else None

    def _follow_program(self) -> bool:
        """Take what was deployed since this was last asked; whether there was something."""
        plan = None if self._program is None else self._program.newer()
        if plan is not None:
            self.take(plan)
        return plan is not None

    def _change_plan(self) -> bool:
        """Put the plan that comes in the place of the one at hand, between two epochs, when nothing is left to do."""
        if self._coming is None or ready_steps(self.manifest, self.graph, parked=self.failures.waiting()):
            return False
        self.publication.publish(self.manifest_log, self.term, self.snapshots)
        self.publication.write_place()
        anew, gone = replaced(self.graph.plan, self._coming)
        if not self._put_plan(self._coming, anew=anew, gone=gone):
            return False
        self._coming = None
        self.failures.parked.clear()
        self._alone.clear()
        self._loads.clear()
        self._follow_plan()
        return True

    def _put_plan(self, plan: Plan, *, anew: Sequence[str] = (), gone: Sequence[str] = ()) -> bool:
        """Store a plan and make it count; vertices that are new start at the next epoch."""
        ranges = {name: self.settings.ranges_of.get(name, self.settings.ranges) for name in job_graph(plan).order}
        number, first = store_plan(self.store, plan), self.manifest.last_cut + 1
        return self._append(PlanChange(number, ranges, first, tuple(anew), tuple(gone)))

    def _follow_plan(self) -> None:
        plan = stored_plan(self.store, self.manifest.plan)
        self.graph: JobGraph = job_graph(plan)
        self._plan_number = self.manifest.plan
        self.publication = Publication(self.store, self.graph, self._results, self._clock)
        self.snapshots = counted_snapshots(self.manifest, self.graph)

    # -- the loop --------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """One round; False when there was nothing to do. Raises Fenced once another driver has taken over."""
        if not (self.store.counts_requests and self._worked and self._clock() - self._caught_up_at < LOOK_EVERY_S):
            self._catch_up()
        self.failures.lift(self._clock())
        worked = self._erase() or (self._cut() if self._coming is None else self._change_plan())
        steps = ready_steps(self.manifest, self.graph, parked=self.failures.waiting())
        if steps:
            self._run(steps)
            worked = True
        self.publication.publish(self.manifest_log, self.term, self.snapshots)
        if worked:
            self._after_work()
        self._worked = worked
        return worked

    def _to_erase(self) -> dict[str, int]:
        return {device: at for device, at in self._deleted().items() if self.manifest.erased.get(device) != at}

    def _erase(self) -> bool:
        """Erase what deleted devices delivered, once everything that was cut is worked off and published; what several
        devices share runs again without them first."""
        devices = self._to_erase()
        if not devices or not self.manifest.cuts or not self._is_settled():
            return False
        if devices.items() - self.manifest.erasing.items() and not self._run_without(devices):
            return False
        self._results.forget_corrected(meeting_sinks(self.graph))
        entry = erasure(self.manifest, self.graph, self.store, devices, term=self.term)
        if not self._append(entry):
            return False
        self.snapshots = counted_snapshots(self.manifest, self.graph)
        self.failures.exceptions.clear()  # they quote what operators raised
        self.publication.publish(self.manifest_log, self.term, self.snapshots)
        self._forget_erased()
        self.write_status()
        return True

    def _is_settled(self) -> bool:
        return is_level(self.manifest) and not self.publication.holds_back

    def _run_without(self, devices: Mapping[str, int]) -> bool:
        """Send back what shares state with these devices; True when nothing of it has to run again."""
        entry = run_without(self.manifest, self.graph, self.store, self._results, devices)
        if entry is None:
            return True
        if not self._append(entry):
            return False
        self.events.rollbacks += 1
        self.snapshots = counted_snapshots(self.manifest, self.graph)
        return self._is_settled()

    def _forget_erased(self) -> None:
        forget_what_was_erased(self.manifest_log)
        delete_unnamed(self.store, self.manifest, self.term)

    def erase_and_stop(self) -> None:
        """Work off what was cut, cut nothing, and erase: for a job that is not running."""
        while not self._erase():
            steps = ready_steps(self.manifest, self.graph, parked=self.failures.waiting())
            if not steps or not self._to_erase():
                return
            self._run(steps)
            self.publication.publish(self.manifest_log, self.term, self.snapshots)

    def drain(self) -> None:
        """Work until everything in the log was processed and published; parked ranges stay behind."""
        self._cut_at = float("-inf")
        while self.step():
            self._cut_at = float("-inf")

    def _catch_up(self) -> None:
        self._caught_up_at = self._clock()
        if self.manifest_log.catch_up():
            self.events.lost_races += 1
            self.failures.parked.clear()  # somebody rolled back or changed something: try again
            if self.manifest.plan != self._plan_number:
                self._follow_plan()
            else:
                self.snapshots = counted_snapshots(self.manifest, self.graph)

    def _append(self, entry: Entry) -> bool:
        if self.manifest_log.try_append(entry, term=self.term) is not None:
            return True
        self._catch_up()
        return False

    def _cut(self) -> bool:
        """Cut the next epoch where the log ends now. The entry is durable before any task of the epoch runs."""
        now = self._clock()
        if now - self._cut_at < self.settings.epoch_s:
            return False
        try:
            return self._cut_where_it_ends(now)
        except Unreachable as error:  # brokers come back; what was cut before is worked off meanwhile
            _log.warning("no epoch is cut: %s", error)
            self._cut_at = now
            return False

    def _cut_where_it_ends(self, now: float) -> bool:
        behind = min((self.manifest.position(name) for name in self.graph.order), default=0)
        starts = self.manifest.cuts[self.manifest.last_cut].ends if self.manifest.cuts else self._reader.starts()
        reached = self._reader.ends()
        if {*reached} != {*starts}:
            raise UsageError(
                f"the log has {len(reached)} partitions, this job has read {len(starts)}: devices would change theirs. "
                "Restore the log as it was, or begin a job with a new store",
                code="spark-log-partitions",
            )
        if self._follow_program():
            return False  # phones that run it already may have delivered what the plan at hand cannot read
        ends = {partition: max(start, reached[partition]) for partition, start in starts.items()}
        self._hint(self._reader.size(starts, ends))
        if ends == starts or self.manifest.last_cut - behind >= self.settings.epochs_ahead_max:
            return False
        # About so much at most, so that catching up after a long stop makes many epochs.
        ends = self._reader.bounded(starts, ends, self.settings.epoch_bytes_max)
        self._cut_at = now
        left, returned = self._departures(starts, ends)
        cut = Cut(self.manifest.last_cut + 1, starts, ends, left, returned, round(now * 1000))
        return self._append(cut)

    def _departures(self, starts: Place, ends: Place) -> tuple[dict[str, int], tuple[str, ...]]:
        """Devices that nobody waits for from this epoch on, and those that are back. One that was revoked counts as
        gone from the first epoch on that was received after it; a vertex that begins now is told of all of them."""
        gone = self._gone()
        firsts = (next(iter(self._reader.read(each, starts[each], end)), None) for each, end in ends.items())
        received_us = min((first[1].received_us for first in firsts if first), default=0)
        known, epoch = self.manifest.left, self.manifest.last_cut + 1
        beginning = any(each.first == epoch for ranges in self.manifest.vertices.values() for each in ranges.values())
        left = {
            device: at_us
            for device, at_us in gone.items()
            if at_us <= received_us and (beginning or known.get(device) != at_us)
        }
        return left, tuple(sorted(device for device in known if device not in gone))

    # -- running and committing ------------------------------------------------------------------------------------

    def _run(self, steps: list[RangeEpoch]) -> None:
        runs = [self._with_following(step) for step in steps]
        specs = [
            specification(
                self.manifest,
                self.graph,
                run[0],
                log=self._log,
                store=self.store.location,
                code=self.runner.code,
                chain_max=self.settings.chain_max,
                then=run[1:],
                without=sorted(self._to_erase()),
                beside_others=self._log_use.reading() > 1,
            )
            for run in runs
        ]
        for step in (step for run in runs for step in run):
            self.snapshots.begin(step.vertex, step.epoch)
        outcomes = self._outcomes(steps, specs)
        self.store.sync_files()
        done: dict[tuple[int, int], dict[RangeEpoch, Done]] = {}
        failed: list[tuple[RangeEpoch, Specification, Failed]] = []
        read: dict[RangeEpoch, Mapping[str, Sequence[str]]] = {}
        for run, spec, answers in zip(runs, specs, outcomes, strict=True):
            state = spec.state
            for index, (step, outcome) in enumerate(zip(run, answers, strict=False)):
                read[step] = spec.epochs[index].records
                if isinstance(outcome, Done):
                    state = outcome.committed.state
                    done.setdefault((step.epoch, self.graph.order.index(step.vertex)), {})[step] = outcome
                else:
                    failed.append((step, spec.of_epoch(index, state), outcome))
        for place in sorted(done):  # epoch by epoch: a driver that dies in between leaves a prefix
            self._commit(done[place], read)
        for step, own, outcome in failed:
            self._failed(step, own, outcome)

    def _with_following(self, step: RangeEpoch) -> list[RangeEpoch]:
        """The epochs that one task runs: several while the range runs again what it has run before."""
        alone = self._alone.get(step.physical, 0)
        if alone >= step.epoch:
            return [step]
        return run_again(self.manifest, self.graph, step, seconds=self.settings.run_again_s)

    def _outcomes(self, steps: list[RangeEpoch], specs: list[Specification]) -> list[list[Outcome]]:
        """Run all as one job. When that dies or hangs, each by itself and epoch by epoch: one range must not hold up
        the rest, and one epoch not those before it."""
        try:
            return self.runner.run(specs, timeout_s=self.settings.task_timeout_s)
        except ClusterFault as fault:  # one by one they would fare no better
            return [[Failed("cluster", str(fault))] for _ in specs]
        except Exception as error:
            if len(specs) > 1:
                return [self._outcomes([step], [spec])[0] for step, spec in zip(steps, specs, strict=True)]
            ((step,), (spec,)) = steps, specs
            if len(spec.epochs) > 1:
                self._alone[step.physical] = spec.epochs[-1].epoch
                return self._outcomes(steps, [spec.of_epoch(0, spec.state)])
            self.events.timeouts += isinstance(error, TimeoutError)
            return [[Failed("hung" if isinstance(error, TimeoutError) else "died", str(error)[:500])]]

    def _commit(self, done: dict[RangeEpoch, Done], read: Mapping[RangeEpoch, Mapping[str, Sequence[str]]]) -> None:
        """Commit the ranges of one vertex and epoch that are still wanted: another writer may have moved them, and a
        range they read may have said something else meanwhile."""
        while done:
            ranges: dict[Range, Committed] = {}
            back: list[tuple[str, Range, int]] = []
            for step, outcome in list(done.items()):
                committed = outcome.committed
                lineage = self.manifest.vertices.get(step.vertex, {}).get(step.range)
                if (
                    lineage is None
                    or (lineage.position, lineage.term, self.manifest.plan)
                    != (step.epoch - 1, committed.term, committed.plan)
                    or not still_counts(self.manifest, self.graph, step, read[step], self._footer)
                ):
                    del done[step]
                    continue
                ranges[step.range] = committed
                back += cascade(self.manifest, self.graph, step, committed, self._footer)
            if not ranges:
                return
            (vertex, epoch) = next((step.vertex, step.epoch) for step in done)
            if self._append(Commit(vertex, ranges, tuple(back))):
                self._committed(vertex, epoch, done, back)
                return

    def _committed(
        self, vertex: str, epoch: int, done: dict[RangeEpoch, Done], back: list[tuple[str, Range, int]]
    ) -> None:
        self.events.commits += 1
        self.events.cascades += len(back)
        for step, outcome in done.items():
            committed = outcome.committed
            self.store.give(outcome.said)
            self.failures.parked.pop(step.physical, None)
            loads = self._loads.setdefault(step.physical, deque(maxlen=LOADS_KEPT))
            loads.append(committed.seconds / max(self.settings.epoch_s, 1e-3))
            self.events.quarantined += committed.quarantined
            for how in outcome.cache:
                self.events.cache[how] = self.events.cache.get(how, 0) + 1
            before, more = self.events.log_bytes, outcome.log_bytes
            self.events.log_bytes = LogBytes(before.read + more.read, before.decoded + more.decoded)
        for reader, _, to in back:
            self.snapshots.roll_back(reader, to)
        if self.manifest.position(vertex) >= epoch:
            self.snapshots.complete(vertex, epoch)

    def _footer(self, name: str) -> records.Footer | None:
        try:
            return records.read_footer(self.store, name)
        except DamagedData:
            return None

    # -- failures --------------------------------------------------------------------------------------------------

    def _failed(self, step: RangeEpoch, spec: Specification, outcome: Failed) -> None:
        kind, message = outcome.kind, outcome.message
        # Not the message: an operator's may say what somebody measured. The job's page has it.
        _log.warning("range %s failed in epoch %d (%s)", physical_name(step.physical), step.epoch, kind)
        self.failures.note(step, kind, message, self._clock())
        if self._moved(step, spec):
            return
        if kind == "state":
            self._mend(step.physical, damaged=[outcome.file], reason=message)
        elif kind == "record":
            owner = producer_of(self.manifest, outcome.file)
            if owner is not None:
                physical, epoch = owner
                self._mend(physical, to=epoch - 1, lost=[(*physical, epoch)], reason=message)
        elif kind == "cluster":
            self.failures.wait(step.physical, message, self._clock())
        # An operator that raises on its state will raise again; a hung or dead task may have been the machine.
        elif self.failures.count(step.physical) >= (1 if kind == "operator" else ATTEMPTS_MAX):
            self._park(step.physical, f"{kind}: {message}")
        else:
            self._retry(step, spec)

    def _moved(self, step: RangeEpoch, spec: Specification) -> bool:
        """Whether the range, or one whose state it starts from, has gone back since the step began: then it runs again
        from there, and what failed may not come up."""
        lineage = self.manifest.vertices.get(step.vertex, {}).get(step.range)
        return (
            lineage is None
            or (lineage.position, lineage.term) != (step.epoch - 1, spec.term)
            or self.manifest.snapshot(step.physical, step.epoch - 1) is None
        )

    def _retry(self, step: RangeEpoch, spec: Specification) -> None:
        ((outcome,),) = self._outcomes([step], [spec])
        if isinstance(outcome, Done):
            self.store.sync_files()
            self._commit({step: outcome}, {step: spec.first.records})
        else:
            self._failed(step, spec, outcome)

    def _park(self, physical: Physical, reason: str) -> None:
        self.failures.park(physical, reason)
        _log.error("range %s is parked; the job's page says why", physical_name(physical))

    def _mend(
        self,
        failed: Physical,
        *,
        reason: str,
        to: int | None = None,
        damaged: Sequence[str] = (),
        lost: Sequence[tuple[str, Range, int]] = (),
    ) -> None:
        """Roll back what was damaged or lost. What reads it follows only if the second run differs (`cascade`)."""
        try:
            entry = repair(
                self.manifest, self.graph, [failed], code=self.runner.code, reason=reason, to=to, damaged=damaged,
                lost=lost, configurations=Configurations(self.store, self.graph),
            )  # fmt: skip
        except UsageError as error:  # nothing intact is left inside the horizon: say so, the rest goes on
            self._park(failed, f"{reason}; {error.message}")
            return
        ranges = map(self.manifest.lineage, entry.rollback)
        moves = any(lineage.position > max(entry.to, lineage.first - 1) for lineage in ranges)
        if not entry.lost and not moves:  # nobody would wait for a record either, and it would come up without end
            self._park(failed, reason)
            return
        if self._append(entry):
            self.events.rollbacks += 1
            for vertex, _ in entry.rollback:
                self.snapshots.roll_back(vertex, entry.to)

    # -- around the work -------------------------------------------------------------------------------------------

    def _after_work(self) -> None:
        if self.settings.balance:
            self._balance()
        # Collecting looks at all that is kept: the more that is, the rarer, so that it costs each epoch the same.
        kept = self.manifest.commit_entries() // len(self.graph.order)
        every = max(self.settings.collect_every, kept // COLLECT_SHARE)
        # A long way back is many commits and few cuts.
        many = self.events.commits - self._collected_commits >= every * len(self.graph.order)
        if many or self.manifest.last_cut - self.manifest.collected.at >= every:
            self._collected_commits = self.events.commits
            collect(
                self.manifest_log, self.term, self.graph, self.snapshots, retention=self.settings.retention,
                now_s=self._clock(),
            )  # fmt: skip
        self.write_status()

    def _balance(self) -> None:
        for vertex in self.graph.order:
            epoch = self.manifest.position(vertex)
            if not self.graph.vertices[vertex].key or not epoch:
                continue
            ranges = self.manifest.ranges_at(vertex, epoch + 1)
            level = all(self.manifest.vertices[vertex][range_].position == epoch for range_ in ranges)
            if not level:
                continue
            loads = {range_: self._loads.get((vertex, range_), ()) for range_ in ranges}
            division = redivision(loads, ranges_max=self.settings.ranges_max, ranges_min=self.settings.ranges)
            if division is not None:
                for range_ in division.old:
                    self._loads.pop((vertex, range_), None)
                new = tuple(replace(each, since=epoch + 1) for each in division.new)
                self._append(Division(vertex, division.old, new, epoch + 1))

    def _hint(self, backlog_bytes: int) -> None:
        """Ask phones to sample less while the log holds more than it should."""
        self._backlog_bytes = backlog_bytes
        self._rate = sampling_rate(backlog_bytes, self._rate, self.settings.overload)
        self._log_use.ask(self.name, rate=self._rate, backlog_bytes=backlog_bytes)

    def write_status(self) -> None:
        if self._clock() - self._status_at >= (NOTES_EVERY_S if self.store.counts_requests else 0):
            self._status_at = self._clock()
            self.store.put_note("status", self.status())
        left_out = quarantined_elements(self.manifest)
        oldest, read = log_places(self.manifest) or (self._reader.starts(),) * 2
        self._log_use.say(self.name, Use(oldest, read, left_out))

    def status(self) -> dict[str, Any]:
        """What only the driver knows, beside what the manifest says; `facts` puts both together."""
        return {
            "owner": self.owner, "term": self.term, "epoch": self.manifest.last_cut, "code": self.runner.code,
            "stable": self.snapshots.stable_everywhere(), "entries": self.manifest.n, "at": self._clock(),
            "vertices": {
                name: {
                    "position": self.manifest.position(name),
                    "ranges": {str(range_): at for range_, at in sorted(self.manifest.frontier_of(name).items())},
                }
                for name in self.graph.order
            },
            "parked": {physical_name(physical): reason for physical, reason in self.failures.waiting().items()},
            "exceptions": self.failures.exceptions, "backlog_bytes": self._backlog_bytes,
            "loads": {physical_name(each): round(values[-1], 3) for each, values in self._loads.items() if values},
            "quarantined": quarantine(self.manifest, newest=100),
            "quarantined_count": quarantined_count(self.manifest),
            "cache": self.events.cache, "log_bytes": self.events.log_bytes._asdict(), "sampling_rate": self._rate,
            "to_erase": sorted(self._to_erase()),
            "retention": asdict(self.settings.retention), "lag_s": round(lag_s(self.manifest, self._clock()), 3),
        }  # fmt: skip

    def run(
        self, *, stop: Callable[[], bool] = lambda: False, program: PlanFile | None = None, idle_s: float = 0.05
    ) -> None:
        """Work until told to stop, renewing the lease; with `program`, go on with what is deployed there."""
        renewed_at = float("-inf")
        self._program = program
        while not stop():
            if self._clock() - renewed_at >= self.settings.lease_s / RENEWALS:
                renewed_at = self._clock()
                self.lease.acquire()
            self._follow_program()
            if not self.step():
                time.sleep(IDLE_REMOTE_S if self.store.counts_requests else idle_s)
        self.publication.write_place()
        self.lease.release()
