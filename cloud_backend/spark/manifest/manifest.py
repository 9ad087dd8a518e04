"""The manifest: the job's truth, as a numbered list of entries that are put once and never changed.

Every entry is a JSON object with `n` (its number), `term` (of the driver that wrote it) and `kind`; `entries` says what
each kind holds.

The driver is not the only writer. Anyone may append an entry of the current term: `resurge job rollback` does, while
the job runs. A writer that finds its number taken reads what was put there, folds it in, and decides again.

`Manifest` folds the entries into what counts now. It reads no other file and knows no clock, so a test can drive it.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cloud_backend.spark.manifest.cuts import Cuts
from cloud_backend.spark.manifest.entries import (
    Collect,
    Commit,
    Cut,
    Division,
    Entry,
    Erasure,
    Json,
    PastRollback,
    PlanChange,
    Position,
    Rollback,
    Savepoint,
    Settled,
    Term,
    Undo,
    entry_from_json,
)
from cloud_backend.spark.manifest.lineage import Committed, LeftOut, Lineage, Physical, StatePart
from cloud_backend.spark.slots import Range, even_ranges
from cloud_backend.spark.storage.store import GONE, Store, is_whole
from shared.errors import BrokenInvariant, DamagedData, ResurgeError

SUMMARY_EVERY = 200  # entries, at least
SUMMARY_SHARE = 2  # and this part of the entries that it holds, so that writing it again costs each entry the same
log = logging.getLogger("resurge.spark")


class Fenced(ResurgeError):
    """Another driver took over; this one must stop without writing anything more."""


class Emptied(NamedTuple):
    """A vertex started from nothing after an epoch; its windows that begin before a time are incomplete."""

    epoch: int
    before_us: int


@dataclass(slots=True)
class Manifest:
    """The fold of all entries."""

    n: int = 0
    term: int = 0
    owner: str = ""
    plan: int = 0
    cuts: Cuts = field(default_factory=Cuts)
    vertices: dict[str, dict[Range, Lineage]] = field(default_factory=dict)
    collected: Collect = field(default_factory=Collect)
    savepoints: dict[str, Savepoint] = field(default_factory=dict)
    rollbacks: list[PastRollback] = field(default_factory=list)
    erased: dict[str, int] = field(default_factory=dict)  # devices whose data is gone, by when that was asked for
    left: dict[str, int] = field(default_factory=dict)  # devices that nobody waits for any more, and since when
    erasing: dict[str, int] = field(default_factory=dict)  # devices that shared state holds nothing of once it is level
    emptied: dict[str, Emptied] = field(default_factory=dict)  # by vertex
    divisions: list[tuple[int, Division]] = field(default_factory=list)  # with the number of the entry
    # What the last run of a range's epoch left out. Part of the ledger, so it outlives the commits it came with.
    quarantined: dict[tuple[str, Range, int], tuple[LeftOut, ...]] = field(default_factory=dict)

    @property
    def last_cut(self) -> int:
        return self.cuts.last

    def commit_entries(self) -> int:
        """About how many entries the commits that are kept came in."""
        return sum(max(len(each.commits) for each in lineages.values()) for lineages in self.vertices.values())

    def points(self) -> set[int]:
        """The epochs before the newest ones that everything can return to."""
        named = {each.epoch for each in self.savepoints.values() if each.epoch is not None}
        return {*self.collected.points} | named

    def ranges_at(self, vertex: str, epoch: int) -> list[Range]:
        """The ranges that divide the vertex in this epoch, in order."""
        return sorted(
            range_
            for range_, lineage in self.vertices[vertex].items()
            if lineage.first <= epoch and (lineage.last is None or epoch <= lineage.last)
        )

    def lineage(self, physical: Physical) -> Lineage:
        return self.vertices[physical[0]][physical[1]]

    def position(self, vertex: str) -> int:
        """The last epoch that every range of the vertex has committed."""
        return min(self.frontier_of(vertex).values(), default=0)

    def frontier_of(self, vertex: str) -> dict[Range, int]:
        return {
            range_: lineage.position
            for range_, lineage in self.vertices[vertex].items()
            if lineage.last is None or lineage.position < lineage.last
        }

    def snapshot(self, physical: Physical, epoch: int) -> tuple[StatePart, ...] | None:
        """The range's state after the epoch; None while it, or a range it was made of, has not come so far."""
        vertex, range_ = physical
        lineage = self.vertices[vertex].get(range_)
        if lineage is None:
            return None
        if epoch >= lineage.first:
            committed = lineage.commits.get(epoch)
            return committed.state if committed and not committed.stale else None
        if not lineage.parents:
            return (StatePart(range_, (), ()),)
        parts: list[StatePart] = []
        for parent in lineage.parents:
            before = self.snapshot((vertex, parent), epoch)
            if before is None:
                return None
            parts += [part.within(range_) for part in before if part.range.overlaps(range_)]
        return tuple(parts)

    def record_at(self, vertex: str, epoch: int) -> list[tuple[Range, Committed]] | None:
        """What every range of the vertex recorded in the epoch, or None while one is missing."""
        found = []
        for range_ in self.ranges_at(vertex, epoch):
            committed = self.vertices[vertex][range_].commits.get(epoch)
            if committed is None:
                return None
            found.append((range_, committed))
        return found

    # -- folding -------------------------------------------------------------------------------------------------

    def apply(self, value: Json) -> Entry:
        """Fold one stored entry in; raises when it is not the next one or comes from a fenced driver."""
        n, term = value["n"], value["term"]
        if n != self.n + 1:
            raise BrokenInvariant(f"manifest entry {n} follows {self.n}", code="manifest-order")
        if term < self.term:
            raise BrokenInvariant(f"manifest entry {n} has term {term} after term {self.term}", code="manifest-term")
        entry = entry_from_json(value)
        self.n = n
        match entry:
            case Term(owner):
                self.term, self.owner = term, owner
            case PlanChange():
                self._change_plan(n, entry)
            case Cut():
                self.cuts.add(entry)
                self.left |= entry.left
                self.left = {name: at for name, at in self.left.items() if name not in entry.returned}
            case Commit():
                self._commit(entry)
            case Rollback():
                self._go_back(n, entry)
            case Undo():
                self._undo(n, entry)
            case Division():
                self._divide(n, entry)
            case Settled(vertex, range_):
                self._settle(self.vertices[vertex][range_])
            case Collect():
                self._collect(entry)
            case Savepoint():
                self.savepoints.pop(entry.name, None)
                if entry.epoch is not None:
                    self.savepoints[entry.name] = entry
            case Erasure():
                self._erase(entry)
        return entry

    def _change_plan(self, n: int, entry: PlanChange) -> None:
        """What a vertex had that computes something else from here on, or is gone, is forgotten; and what comes in its
        place outranks all that it said."""
        term = n if self.plan else 0  # more than any range can have been rolled back
        self.plan = entry.plan
        for vertex in (*entry.anew, *entry.gone):
            del self.vertices[vertex]
            self.emptied.pop(vertex, None)
            self.rollbacks = [replace(each, before=None) for each in self.rollbacks]  # nobody can return there
        for vertex, count in entry.vertices.items():
            if vertex not in self.vertices:
                self.vertices[vertex] = {
                    range_: Lineage(first=entry.first, position=entry.first - 1, term=term)
                    for range_ in even_ranges(count)
                }

    def _commit(self, entry: Commit) -> None:
        for range_, committed in entry.ranges.items():
            lineage = self.vertices[entry.vertex][range_]
            if committed.epoch != lineage.position + 1:
                raise BrokenInvariant(
                    f"{entry.vertex} {range_} committed epoch {committed.epoch} at position {lineage.position}",
                    code="manifest-order",
                )
            if committed.epoch in lineage.commits:
                lineage.superseded.setdefault(committed.epoch, []).append(lineage.commits[committed.epoch])
            lineage.commits[committed.epoch] = committed
            lineage.position = committed.epoch
            self._note_quarantined((entry.vertex, range_), committed)
        for vertex, range_, to in entry.cascade:
            self._roll_back((vertex, range_), to, keep_readable=False)

    def _go_back(self, n: int, entry: Rollback) -> None:
        # What an undo returns to; never to what a device added.
        before = (self.plan, self._positions()) if entry.changed and not entry.erases else (None, None)
        self._note_undone(entry.undoes, n)
        self.rollbacks.append(PastRollback(n, entry, *before))
        if entry.plan is not None:
            self.plan = entry.plan
        for physical in entry.rollback:
            self._roll_back(physical, entry.to, keep_readable=not entry.changed)
        for vertex, range_, epoch in entry.lost:
            lineage = self.vertices[vertex][range_]
            lineage.superseded.pop(epoch, None)
            lineage.commits.pop(epoch, None)
        self.erasing |= entry.erases
        for vertex, before_us in entry.emptied.items():
            self.emptied[vertex] = Emptied(entry.to, before_us)
            for lineage in self.vertices[vertex].values():
                _empty(lineage, entry.to)

    def _positions(self) -> tuple[Position, ...]:
        return tuple(
            Position(vertex, range_, lineage.position, lineage.term)
            for vertex, lineages in self.vertices.items()
            for range_, lineage in lineages.items()
        )

    def _undo(self, n: int, entry: Undo) -> None:
        self.plan = entry.plan
        self.erasing = {}  # what counts again may hold what they added
        for vertex, range_, to in entry.rollback:
            self._roll_back((vertex, range_), to, keep_readable=False)
        for position in entry.restore:
            self._restore(position.physical, position.epoch, position.term)
        self._note_undone(entry.of, n)

    def _note_undone(self, rollback: int | None, by: int) -> None:
        self.rollbacks = [replace(each, undone=by) if each.n == rollback else each for each in self.rollbacks]

    def _divide(self, n: int, entry: Division) -> None:
        self.divisions.append((n, entry))
        lineages = self.vertices[entry.vertex]
        for range_ in entry.old:
            lineages[range_].last = entry.first - 1
        for range_ in entry.new:
            lineages[range_] = Lineage(
                first=entry.first,
                position=entry.first - 1,
                term=max(lineages[each].term for each in entry.old),
                parents=tuple(each for each in entry.old if each.overlaps(range_)),
                anew_after=min(
                    (after for each in entry.old if (after := lineages[each].anew_after) is not None), default=None
                ),
            )

    def _settle(self, lineage: Lineage) -> None:
        if any(each.before is not None and each.undone is None for each in self.rollbacks):
            for epoch, runs in lineage.superseded.items():
                lineage.former.setdefault(epoch, []).extend(runs)
        lineage.superseded.clear()
        lineage.anew_after = None

    def _collect(self, entry: Collect) -> None:
        self.collected = entry
        points = self.points()
        self.cuts.forget_before(min((entry.log + 1, *points)))
        self.cuts.pack(min(entry.snapshots.values(), default=0), points)
        for vertex, lineages in self.vertices.items():
            oldest = min(entry.records.get(vertex, 0), entry.snapshots.get(vertex, 0))
            for range_, lineage in list(lineages.items()):
                if lineage.last is not None and lineage.last < min((oldest, *points)):
                    del lineages[range_]
                    continue
                old = {each for each in lineage.commits if each < oldest and each < lineage.position}
                for epoch in old - points:
                    del lineage.commits[epoch]
                for several in (lineage.superseded, lineage.former):
                    for epoch in [each for each in several if each < oldest and each < lineage.position]:
                        del several[epoch]

    def _erase(self, entry: Erasure) -> None:
        self.erased |= entry.devices
        self.erasing = {}
        for vertex, lineages in self.vertices.items():
            for range_, lineage in list(lineages.items()):
                if (vertex, range_) not in entry.ranges:
                    del lineages[range_]
                    continue
                parts, outputs = entry.ranges[vertex, range_]
                lineage.commits = {entry.at: replace(lineage.commits[entry.at], state=parts, outputs=outputs)}
                lineage.superseded, lineage.former, lineage.parents = {}, {}, ()
        self.savepoints.clear()
        self.cuts.forget_before(entry.at)
        self.rollbacks = [replace(each, before=None) for each in self.rollbacks]
        oldest = dict.fromkeys(self.vertices, entry.at)
        self.collected = Collect(oldest, oldest, entry.at - 1, entry.at)
        self.quarantined = {
            place: tuple(replace(each, reason="erased") if each.device in entry.devices else each for each in left_out)
            for place, left_out in self.quarantined.items()
        }

    def _roll_back(self, physical: Physical, to: int, *, keep_readable: bool) -> None:
        lineage = self.lineage(physical)
        to = max(to, lineage.first - 1)  # what came before is its parents' to undo
        if lineage.position <= to:
            return
        if lineage.recorded_from() > to + 1:
            lineage.anew_after = to if lineage.anew_after is None else min(to, lineage.anew_after)
        for epoch in [epoch for epoch in lineage.commits if epoch > to]:
            if keep_readable:
                lineage.commits[epoch] = replace(lineage.commits[epoch], stale=True)
            else:
                lineage.superseded.setdefault(epoch, []).append(lineage.commits.pop(epoch))
        lineage.position = to
        lineage.term = self._next_term(physical[0])

    def _note_quarantined(self, physical: Physical, committed: Committed) -> None:
        self.quarantined.pop((*physical, committed.epoch), None)
        if committed.quarantined:
            self.quarantined[*physical, committed.epoch] = committed.quarantined

    def _next_term(self, vertex: str) -> int:
        """Above every range's of the vertex: what a range says later must outrank what the ranges before it said."""
        return 1 + max(each.term for each in self.vertices[vertex].values())

    def _restore(self, physical: Physical, position: int, term: int) -> None:
        """Make the runs up to a term count again. They get a new term: what was said since has a higher revision than
        they had, and they must outrank it."""
        lineage = self.lineage(physical)
        fresh = self._next_term(physical[0])
        for epoch in sorted({*lineage.commits, *lineage.superseded}):
            runs = [*lineage.superseded.pop(epoch, ())]
            if epoch in lineage.commits:
                runs.append(lineage.commits.pop(epoch))
            kept = [each for each in (*lineage.former.get(epoch, ()), *runs) if each.term <= term]
            if kept and epoch <= position:
                chosen = max(kept, key=lambda each: each.term)
                untouched = bool(runs) and chosen is runs[-1] and not chosen.stale
                lineage.commits[epoch] = chosen if untouched else replace(chosen, term=fresh, stale=False)
                self._note_quarantined(physical, lineage.commits[epoch])
                runs = [each for each in runs if each is not chosen]
            if runs:
                lineage.superseded[epoch] = runs
        lineage.former.clear()
        lineage.position, lineage.term = position, fresh

    # -- as JSON ---------------------------------------------------------------------------------------------------

    def to_json(self) -> Json:
        return {
            "n": self.n, "term": self.term, "owner": self.owner, "plan": self.plan,
            "cuts": self.cuts.to_json(),
            "collected": self.collected.to_json() if self.collected.at else {},
            "rollbacks": [each.to_json() for each in self.rollbacks[-100:]],
            "divisions": [{"n": n, **each.to_json()} for n, each in self.divisions[-100:]],
            "quarantined": [
                [vertex, str(range_), epoch, [each.to_json() for each in left_out]]
                for (vertex, range_, epoch), left_out in self.quarantined.items()
            ],
            **{name: each for name, each in self._later_fields().items() if each},
            "vertices": {
                vertex: {str(range_): lineage.to_json() for range_, lineage in lineages.items()}
                for vertex, lineages in self.vertices.items()
            },
        }  # fmt: skip

    def _later_fields(self) -> Json:
        return {
            "left": self.left, "erased": self.erased, "erasing": self.erasing, "emptied": self.emptied,
            "packed_cuts": self.cuts.packed_to_json(),
            "savepoints": [each.to_json() for each in self.savepoints.values()],
        }  # fmt: skip

    @staticmethod
    def from_json(value: Json) -> Manifest:
        return Manifest(
            n=value["n"], term=value["term"], owner=value["owner"], plan=value["plan"],
            cuts=Cuts.from_json(value["cuts"], value.get("packed_cuts", ())),
            savepoints={each["name"]: Savepoint.from_json(each) for each in value.get("savepoints", ())},
            collected=Collect.from_json(value["collected"]) if value["collected"] else Collect(),
            left=value.get("left", {}), erased=value.get("erased", {}), erasing=value.get("erasing", {}),
            emptied={vertex: Emptied(*each) for vertex, each in value.get("emptied", {}).items()},
            rollbacks=[PastRollback.from_json(each) for each in value["rollbacks"]],
            divisions=[(each["n"], Division.from_json(each)) for each in value.get("divisions", ())],
            quarantined={
                (vertex, Range.parse(text), epoch): tuple(map(LeftOut.from_json, left_out))
                for vertex, text, epoch, left_out in value.get("quarantined", ())
            },
            vertices={
                vertex: {Range.parse(text): Lineage.from_json(each) for text, each in lineages.items()}
                for vertex, lineages in value["vertices"].items()
            },
        )  # fmt: skip


def _empty(lineage: Lineage, to: int) -> None:
    """Nothing of a range counts up to an epoch any more: neither its state nor what it said, which corrections would
    return to. Records for other vertices stay: those that read them were emptied too, and read on from there."""
    at = lineage.commits.get(to)
    lineage.commits = {epoch: each for epoch, each in lineage.commits.items() if epoch > to}
    if at is not None:
        outputs = {(name, reader): record for (name, reader), record in at.outputs.items() if reader}
        parts = tuple(StatePart(part.range, (), ()) for part in at.state)
        lineage.commits = {to: replace(at, state=parts, outputs=outputs), **lineage.commits}


class ManifestLog:
    """The manifest of a store: catches up with what others appended, and appends."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.state = Manifest()
        self.torn = False  # whether half an entry follows the last whole one
        self._summarised = 0
        self._open()

    def _open(self) -> None:
        for number in reversed(self.store.summaries()):
            try:
                self.state = Manifest.from_json(json.loads(self.store.summary(number)))
                break
            except (ValueError, KeyError):
                continue  # torn by a power cut; an older summary and the entries say the same
        self._summarised = self.state.n
        self.catch_up()
        if not self.state.n and (numbers := self.store.entry_numbers()):
            raise DamagedData(
                f"the manifest's first entry is {numbers[0]} and no summary before it is whole; restore one from a "
                "copy of the store",
                code="manifest-damaged",
            )

    def catch_up(self) -> int:
        """Fold in every entry that is there now; returns how many were new."""
        count = 0
        self.torn = False
        while (data := self.store.entry(self.state.n + 1)) is not None:
            if not is_whole(data):
                self._last_or_damaged(self.state.n + 1)
                break
            value = json.loads(data)
            if value["kind"] == GONE:
                raise Fenced("data was erased from this store meanwhile; start again", code="manifest-fenced")
            self.state.apply(value)
            count += 1
        return count

    def _last_or_damaged(self, number: int) -> None:
        """Half of an entry as the last one never counted: whoever put it had not been told that it is there. A reader
        goes without it, and whoever appends next sets it aside. One that others follow did count."""
        if any(each > number for each in self.store.entry_numbers()):
            raise DamagedData(
                f"manifest entry {number} is not whole, and others follow it; restore it from a copy of the store",
                code="manifest-damaged",
            )
        self.torn = True

    def _set_torn_aside(self, number: int) -> None:
        if self.store.set_aside_torn(number):
            log.warning("manifest entry %d was torn by a power cut and was set aside; that step runs again", number)
        elif self.store.entry(number) is not None and not is_whole(self.store.entry(number) or b""):
            raise DamagedData(
                f"manifest entry {number} is not whole, and this file system cannot set it aside safely; stop the job "
                "and remove it: the job then runs that step again",
                code="manifest-damaged",
            )
        self.torn = False

    def try_append(self, entry: Entry, *, term: int) -> int | None:
        """Append an entry durably and return its number, or None when another writer was first: catch up and decide
        again."""
        if self.state.term > term:
            raise Fenced(
                f"driver {self.state.owner!r} holds term {self.state.term}; this one has {term} and stops",
                code="manifest-fenced",
            )
        number = self.state.n + 1
        if self.torn:
            self._set_torn_aside(number)
        value = {"n": number, "term": term, "kind": entry.kind, **entry.to_json()}
        data = json.dumps(value, separators=(",", ":")).encode()
        if not self.store.put_entry(number, data):
            return None
        # A writer that slept while others went on may find its number free again, because history is forgotten from
        # its beginning: then the entry before it is gone too. What it put is below every summary, and nobody reads it.
        if number > 1 and not self.store.has_entry(number - 1):
            raise Fenced(f"others went on far beyond manifest entry {number}; start again", code="manifest-fenced")
        self.state.apply(json.loads(data))
        if number % SUMMARY_EVERY == 0 and number - self._summarised >= self.state.commit_entries() // SUMMARY_SHARE:
            self.summarise()
        return number

    def summarise(self) -> None:
        """Keep the folded state, so that opening does not read all of history."""
        data = json.dumps(self.state.to_json(), separators=(",", ":")).encode()
        self.store.put_summary(self.state.n, data)
        self._summarised = self.state.n

    def take_over(self, owner: str) -> int:
        """Begin a new term; returns it. Whatever the former driver still tries to commit is refused."""
        while True:
            self.catch_up()
            term = self.state.term + 1
            if self.try_append(Term(owner), term=term) is not None:
                return term
