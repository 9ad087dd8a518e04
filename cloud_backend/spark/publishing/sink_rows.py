"""From a sink's records to results with identity and revision, and the corrections after a rollback.

A revision is (term of the physical vertex, epoch): it grows within a run, and every rollback starts above all
that was said before. A range that runs epochs again publishes nothing while their digests are the same. From the first
difference on it publishes its rows as upserts; once it has caught up with where it was, whatever it had said then and
did not say again is corrected: back to the last thing said about it before the rollback, or retracted. Publishing
again what was published changes nothing, so the driver may die anywhere in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from cloud_backend.results.rows import Identity, ResultRow, last_sessions
from cloud_backend.results.store import Results
from cloud_backend.spark.graph import Sink
from cloud_backend.spark.manifest.lineage import Committed, Lineage
from cloud_backend.spark.slots import WHOLE
from cloud_backend.spark.storage import records
from cloud_backend.spark.storage.store import Store
from shared.batch import Batch
from shared.plan.operators import COMPLETE, DEVICE, WINDOW_END, WINDOW_START

_ABOUT = (WINDOW_START, WINDOW_END, COMPLETE)


def revision_of(term: int, epoch: int) -> int:
    return term << 32 | epoch


def result_rows(sink: Sink, rows: records.Rows | Batch, revision: int = 0) -> list[ResultRow]:
    """A sink's rows as results. Where rows have no window, the event time stands for it."""
    key = sink.key
    # Rows that say their device under another key keep it as a value; where rows go down, it is whom they go to.
    hidden = {*_ABOUT, *key} | ({DEVICE} if sink.down else set())
    names = [name for name in rows.schema.names if name not in hidden]
    columns = {name: column.tolist() for name, column in rows.columns.items()}
    times = rows.time_us.tolist()
    starts = columns.get(WINDOW_START, times)
    ends = columns.get(WINDOW_END, times)
    complete = columns.get(COMPLETE, [True] * len(times))
    devices = columns[DEVICE] if sink.down and DEVICE in columns else [""] * len(times)
    keys = [tuple(columns[name][index] for name in key) for index in range(len(times))]
    about = zip(keys, starts, ends, strict=True)
    numbers = [0] * len(times) if sink.windows else _numbers(about, revision)
    return [
        ResultRow(
            sink=sink.name,
            device=devices[index],
            key=keys[index],
            window_start_us=starts[index],
            window_end_us=ends[index],
            revision=revision,
            retract=False,
            complete=complete[index],
            values={name: columns[name][index] for name in names},
            row=numbers[index],
        )
        for index in range(len(times))
    ]


def _numbers(about: Iterable[object], revision: int) -> list[int]:
    """Numbers of rows, above 0, which tell those about the same apart: by the epoch that made them, and by their place
    in it. A replay cuts the same epochs and keeps each key's order, so it gives the same ones."""
    epoch = revision & 0xFFFF_FFFF
    found: Counter[object] = Counter()
    numbers = []
    for each in about:
        numbers.append(1 + (epoch << 24 | found[each]))
        found[each] += 1
    return numbers


def read_sink(store: Store, committed: Committed, sink: Sink) -> list[ResultRow]:
    """What one range said in one epoch. Of several rows about one identity the last one counts, and of sessions those
    that no later one has grown over."""
    record = committed.outputs.get((sink.name, ""))
    if record is None or not record.rows:
        return []
    rows, _, _ = records.read_slice(store, record.file, WHOLE)
    found = result_rows(sink, rows.plain(), revision_of(committed.term, committed.epoch))
    return last_sessions(found) if sink.sessions else list({row.identity: row for row in found}.values())


def same_as_before(lineage: Lineage, committed: Committed, sink: str) -> bool:
    """True when this epoch was run before, and it and every earlier epoch of the second run said the same: nothing to
    publish. After a difference all later epochs speak again, because a higher term outranks any epoch before; and so do
    all of a range whose former run is not known as a whole."""
    if committed.epoch not in lineage.superseded or lineage.anew_after is not None:
        return False
    return all(
        _digest(each, sink) == _digest(lineage.commits.get(epoch), sink)
        for epoch, earlier in lineage.superseded.items()
        if epoch <= committed.epoch
        for each in earlier
    )


def corrections(store: Store, lineage: Lineage, sink: Sink) -> list[ResultRow]:
    """What must still be said about rows of superseded runs that the new run did not repeat."""
    changed = [
        epoch
        for epoch, earlier in lineage.superseded.items()
        if any(_digest(each, sink.name) != _digest(lineage.commits.get(epoch), sink.name) for each in earlier)
    ]
    if not changed:
        return []
    before = _latest(
        row for epoch in changed for each in lineage.superseded[epoch] for row in read_sink(store, each, sink)
    )
    again = {
        row.identity
        for epoch, committed in lineage.commits.items()
        if epoch >= min(changed)
        for row in read_sink(store, committed, sink)
    }
    missing = {identity: row for identity, row in before.items() if identity not in again}
    if not missing:
        return []
    kept = _latest(
        row
        for epoch, committed in sorted(lineage.commits.items())
        if epoch < min(changed)
        for row in read_sink(store, committed, sink)
    )
    revision = revision_of(lineage.term, lineage.position)
    left = {
        identity: replace(kept[identity], revision=revision)
        if identity in kept
        else replace(row, revision=revision, retract=True)
        for identity, row in missing.items()
    }
    if sink.sessions:  # what they had grown over stands again
        uncovered = [row for row in kept.values() if any(_within(row, gone) for gone in missing.values())]
        left |= {row.identity: replace(row, revision=revision) for row in uncovered if row.identity not in again}
    return list(left.values())


def not_said_again(results: Results, lineages: Collection[Lineage], sink: Sink) -> list[ResultRow]:
    """Retractions of what a sink said after the point that its whole vertex went back to, and has not said again."""
    after = min(lineage.anew_after for lineage in lineages if lineage.anew_after is not None)
    term = min(lineage.term for lineage in lineages)
    revision = revision_of(max(each.term for each in lineages), max(each.position for each in lineages))
    former = results.said(sink.name, after_epoch=after, before_revision=revision_of(term, 0))
    return [replace(row, revision=revision, retract=True) for row in former]


def _within(row: ResultRow, other: ResultRow) -> bool:
    return (
        row.identity[:2] == other.identity[:2]
        and other.window_start_us <= row.window_start_us
        and row.window_end_us <= other.window_end_us
    )


def _latest(rows: Iterable[ResultRow]) -> Mapping[Identity, ResultRow]:
    latest: dict[Identity, ResultRow] = {}
    for row in rows:
        if row.identity not in latest or latest[row.identity].revision <= row.revision:
            latest[row.identity] = row
    return latest


def _digest(committed: Committed | None, sink: str) -> str:
    record = committed.outputs.get((sink, "")) if committed else None
    return record.digest if record else ""
