"""What runs next, what a change cascades to, and what a rollback would take: pure functions of manifest and graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from cloud_backend.log.partitions import distance
from cloud_backend.spark.graph import EdgeInput, JobGraph, LogInput
from cloud_backend.spark.manifest.entries import Cut
from cloud_backend.spark.manifest.lineage import Committed, Lineage, Physical
from cloud_backend.spark.manifest.manifest import Manifest
from cloud_backend.spark.manifest.plans import Configurations
from cloud_backend.spark.slots import Range
from cloud_backend.spark.storage.file_names import attempt_in
from cloud_backend.spark.storage.records import Footer
from cloud_backend.spark.task.specification import EpochInputs, Specification, slices_of
from shared.errors import BrokenInvariant
from shared.recovery.rollback import Merge, RecoveryPlan, Rule, VertexManifest, rollback

RUN_EPOCHS_MAX = 16  # epochs that one task runs again, and bytes it reads for them
RUN_BYTES_MAX = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RangeEpoch:
    """One range of a vertex runs one epoch."""

    vertex: str
    range: Range
    epoch: int

    @property
    def physical(self) -> Physical:
        return (self.vertex, self.range)


def ready_steps(manifest: Manifest, graph: JobGraph, *, parked: Collection[Physical] = ()) -> list[RangeEpoch]:
    """Every step that may run now, oldest epochs first; each range at most once."""
    steps = []
    for index, vertex in enumerate(graph.order):
        for range_, position in manifest.frontier_of(vertex).items():
            step = RangeEpoch(vertex, range_, position + 1)
            if step.epoch <= manifest.last_cut and step.physical not in parked and _readable(manifest, graph, step):
                steps.append((step.epoch, index, range_, step))
    return [step for *_, step in sorted(steps, key=lambda each: each[:3])]


def _readable(manifest: Manifest, graph: JobGraph, step: RangeEpoch) -> bool:
    return manifest.snapshot(step.physical, step.epoch - 1) is not None and _inputs_there(manifest, graph, step)


def _inputs_there(manifest: Manifest, graph: JobGraph, step: RangeEpoch) -> bool:
    for entry in graph.vertices[step.vertex].inputs:
        if isinstance(entry, LogInput):
            if step.epoch not in manifest.cuts:
                return False
        elif step.epoch - entry.delay >= 1 and manifest.record_at(entry.vertex, step.epoch - entry.delay) is None:
            return False
    return True


def run_again(manifest: Manifest, graph: JobGraph, step: RangeEpoch, *, seconds: float) -> list[RangeEpoch]:
    """The step and the epochs after it that its range has run before and whose inputs are all there: one task may run
    them one after the other. No more of them than took `seconds` before: what else is ready waits for the job's end."""
    lineage = manifest.lineage(step.physical)
    steps = [step]
    took, read = _former_cost(lineage, step.epoch)
    last = manifest.last_cut if lineage.last is None else lineage.last
    for epoch in range(step.epoch + 1, min(last, step.epoch + RUN_EPOCHS_MAX - 1) + 1):
        following = replace(step, epoch=epoch)
        more_took, more_read = _former_cost(lineage, epoch)
        took, read = took + more_took, read + more_read
        if took > seconds or read > RUN_BYTES_MAX or not _inputs_there(manifest, graph, following):
            break
        steps.append(following)
    return steps


def _former_cost(lineage: Lineage, epoch: int) -> tuple[float, float]:
    """Task time and input bytes of the epoch when the range last ran it; without end when it never did."""
    former = lineage.superseded.get(epoch) or lineage.former.get(epoch)
    before = lineage.commits.get(epoch) or (former[-1] if former else None)
    return (before.seconds, before.bytes_read) if before else (math.inf, math.inf)


def specification(
    manifest: Manifest,
    graph: JobGraph,
    step: RangeEpoch,
    *,
    log: str,
    store: str,
    code: str,
    chain_max: int = 32,
    then: Sequence[RangeEpoch] = (),
    given: bool = False,
    without: Sequence[str] = (),
    beside_others: bool = False,
) -> Specification:
    """What the task needs to know. `then`: epochs that it runs after this one; `without`: devices being erased;
    `beside_others`: other jobs read the log as well."""
    state = manifest.snapshot(step.physical, step.epoch - 1)
    if state is None:
        raise BrokenInvariant(f"{physical_name(step.physical)} has no state for epoch {step.epoch}", code="spark-state")
    emptied = manifest.emptied.get(step.vertex)
    return Specification(
        store, step.vertex, step.range, manifest.lineage(step.physical).term, manifest.term, manifest.plan, code, state,
        tuple(_inputs(manifest, graph, each, log) for each in (step, *then)), chain_max, given,
        without=tuple(without), incomplete_before_us=emptied.before_us if emptied else None,
        beside_others=beside_others,
    )  # fmt: skip


def _inputs(manifest: Manifest, graph: JobGraph, step: RangeEpoch, log: str) -> EpochInputs:
    cut = manifest.cuts.get(step.epoch) or Cut(step.epoch, {}, {})
    reads_log = any(isinstance(entry, LogInput) for entry in graph.vertices[step.vertex].inputs)
    slices = slices_of(cut) if reads_log else ()
    return EpochInputs(step.epoch, log, slices, _records(manifest, graph, step), cut.left, cut.returned)


def _records(manifest: Manifest, graph: JobGraph, step: RangeEpoch) -> dict[str, list[str]]:
    """Per edge the files that the step reads."""
    vertex = graph.vertices[step.vertex]
    records: dict[str, list[str]] = {}
    for entry in vertex.inputs:
        if isinstance(entry, EdgeInput):
            said_in = step.epoch - entry.delay
            found = manifest.record_at(entry.vertex, said_in) or []
            emptied = manifest.emptied.get(entry.vertex)
            if entry.delay and emptied and said_in <= emptied.epoch:
                found = []  # what it fed back then was forgotten with its state
            files = [committed.outputs[entry.edge, step.vertex].file for _, committed in found]
            # "arrival" takes its inputs as they came: by the attempts' names, which a second run does not repeat.
            records[entry.edge] = sorted(files, key=attempt_in) if vertex.merge == "arrival" else files
    return records


def still_counts(
    manifest: Manifest,
    graph: JobGraph,
    step: RangeEpoch,
    read: Mapping[str, Sequence[str]],
    footer: Callable[[str], Footer | None],
) -> bool:
    """Whether what a step has read is still what its inputs say. A producer that ran again meanwhile may have said the
    same in another file; when it said something else, it could not take this step back, which had not committed."""
    if not _inputs_there(manifest, graph, step):
        return False
    now = _records(manifest, graph, step)
    for edge, files in read.items():
        if len(files) != len(now[edge]):
            return False
        for old, new in zip(files, now[edge], strict=True):
            if old != new:
                was, came = footer(old), footer(new)
                if was is None or came is None or was.digest_of(step.range) != came.digest_of(step.range):
                    return False
    return True


def cascade(
    manifest: Manifest,
    graph: JobGraph,
    step: RangeEpoch,
    committed: Committed,
    footer: Callable[[str], Footer | None],
) -> list[tuple[str, Range, int]]:
    """Which readers must go back, and to where, because the range says something else in this epoch than they read."""
    lineage = manifest.lineage(step.physical)
    before = lineage.commits.get(step.epoch)
    if before is None and step.epoch in lineage.superseded:
        before = lineage.superseded[step.epoch][-1]
    if before is None:
        return []
    back: list[tuple[str, Range, int]] = []
    for (name, reader), record in committed.outputs.items():
        old = before.outputs.get((name, reader))
        if not reader or (old is not None and old.digest == record.digest):
            continue
        was, now = footer(old.file) if old else None, footer(record.file)
        delay = next(
            entry.delay
            for entry in graph.vertices[reader].inputs
            if isinstance(entry, EdgeInput) and entry.edge == name
        )
        read_in = step.epoch + delay
        for range_ in manifest.ranges_at(reader, read_in):
            same = was is not None and now is not None and was.digest_of(range_) == now.digest_of(range_)
            if not same and manifest.vertices[reader][range_].position >= read_in:
                back.append((reader, range_, read_in - 1))
    if step.epoch == lineage.last:  # ranges that took over from this one started from a state that is no more
        back += [
            (step.vertex, range_, step.epoch)
            for range_, child in manifest.vertices[step.vertex].items()
            if step.range in child.parents and child.position > step.epoch
        ]
    return list(dict.fromkeys(back))


# -- rollback ----------------------------------------------------------------------------------------------------------


def physical_name(physical: Physical) -> str:
    return f"{physical[0]} {physical[1]}"


def parse_physical(name: str) -> Physical:
    vertex, _, text = name.rpartition(" ")
    return vertex, Range.parse(text)


def recovery_manifests(
    manifest: Manifest,
    graph: JobGraph,
    *,
    code: str | None = None,
    damaged: Collection[str] = (),
    changed: Collection[str] = (),
    configurations: Configurations | None = None,
) -> dict[str, VertexManifest]:
    """The graph of physical vertices as `rollback` wants it. `damaged` are state files that cannot be used; `changed`
    vertices are known to run different code than before; `configurations` knows the plans that commits ran."""
    unusable, points = set(damaged), manifest.points()
    found = {}
    for vertex in graph.order:
        described = graph.vertices[vertex]
        for range_, lineage in manifest.vertices[vertex].items():
            sources = [
                physical_name((source, each)) for source in described.sources for each in manifest.vertices[source]
            ] + [physical_name((vertex, parent)) for parent in lineage.parents]
            snapshots = {
                epoch
                for epoch, committed in lineage.commits.items()
                if not committed.stale and not committed.state_files() & unusable
            }
            start = manifest.snapshot((vertex, range_), lineage.first - 1) or ()
            if _readable(manifest, graph, RangeEpoch(vertex, range_, lineage.first)) and not any(
                unusable & {*part.chain} for part in start
            ):  # it may start from nothing again, or from its parents' state
                snapshots.add(lineage.first - 1)
            # And where everything goes back to before it was there, it waits until its turn has come again.
            snapshots |= {epoch for epoch in points if epoch < lineage.first - 1}
            ran = [each for epoch, each in lineage.commits.items() if epoch <= lineage.position]
            plans = {each.plan for each in ran} - {manifest.plan}
            found[physical_name((vertex, range_))] = VertexManifest(
                inputs=tuple(sources),
                position=lineage.position,
                snapshots=frozenset(snapshots),
                deterministic=described.deterministic,
                merge=Merge(described.merge),
                same_code=vertex not in changed and (code is None or all(each.code == code for each in ran)),
                same_config=configurations is None or all(configurations.same(plan, vertex) for plan in plans),
            )
    return found


def recorded_from(manifest: Manifest) -> dict[str, int]:
    """By physical vertex the first epoch whose record was not collected."""
    return {
        physical_name((vertex, range_)): lineage.recorded_from()
        for vertex, lineages in manifest.vertices.items()
        for range_, lineage in lineages.items()
        if lineage.recorded_from() > lineage.first
    }


def is_from_log(manifest: Manifest, plan: RecoveryPlan) -> bool:
    """Whether the plan goes back to a point: beyond the records that say what its ranges read and said since."""
    lineages = (manifest.lineage(parse_physical(name)) for name in plan.rollback)
    return any(max(plan.epoch, each.first - 1) + 1 < each.recorded_from() for each in lineages)


def correction(
    manifest: Manifest,
    graph: JobGraph,
    vertex: str,
    to: int,
    *,
    ranges: Collection[Range] | None = None,
    code: str | None = None,
    rule: Rule = Rule.CHANGED,
    damaged: Collection[str] = (),
    configurations: Configurations | None = None,
) -> RecoveryPlan:
    """What rolling a vertex back to an epoch takes, when its operator was wrong: its output will change."""
    failed = {
        physical_name((vertex, range_))
        for range_, lineage in manifest.vertices[vertex].items()
        if lineage.position > to and (ranges is None or any(range_.overlaps(each) for each in ranges))
    }
    manifests = recovery_manifests(
        manifest, graph, code=code, changed=(vertex,), damaged=damaged, configurations=configurations
    )
    return rollback(failed, manifests, to=to, rule=rule, recorded_from=recorded_from(manifest))


def cost(manifest: Manifest, plan: RecoveryPlan) -> Mapping[str, float]:
    """What carrying out the plan reads and takes, judged by what the same epochs read and took before."""
    state_bytes = replayed = seconds = 0.0
    epochs = 0
    if is_from_log(manifest, plan):
        cuts = manifest.cuts
        start = cuts[plan.epoch].ends if plan.epoch in cuts else cuts[cuts.first].starts
        replayed += distance(start, cuts[cuts.last].ends)
    for name in plan.rollback:
        physical = parse_physical(name)
        lineage = manifest.lineage(physical)
        restored = lineage.commits.get(max(plan.epoch, lineage.first - 1))
        state_bytes += restored.state_bytes if restored else 0
        for epoch in range(max(plan.epoch, lineage.first - 1) + 1, lineage.position + 1):
            committed = lineage.commits.get(epoch)
            if committed is not None:
                replayed += committed.bytes_read
                seconds += committed.seconds
                epochs += 1
    return {"state_bytes": state_bytes, "replay_bytes": replayed, "task_seconds": seconds, "vertex_epochs": epochs}
