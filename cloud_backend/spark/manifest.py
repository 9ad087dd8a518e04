"""The manifest: the job's truth, as a numbered list of entries that are put once and never changed.

Every entry is a JSON object with `n` (its number), `term` (the driver that wrote it) and `kind`:

* `term`     a driver takes over; every later entry of a lower term is refused, so a stale driver is fenced (T12)
* `cut`      epoch e reads the log up to these offsets: durable before any task of e runs, hence a consistent cut
* `commit`   hash ranges of a vertex finished epoch e: their files, digests, cost; and which ranges of which
             consumers go back because a re-executed output differs from what they had read (`cascade`)
* `rollback` ranges go back to an epoch: positions move, nothing is deleted. Unless their output is known to
             change, what they recorded stays readable while they run again; `lost` names records that do not
* `undo`     an operator's rollback is taken back: positions and commits return to what they were before it
* `ranges`   a vertex is divided differently from an epoch on
* `plan`     another version of the plan counts from here on
* `settled`  corrections for what a range had said before its rollback were published
* `collect`  what is older than this may be deleted

The driver is not the only writer. Anyone may append an entry of the current term: `resurge job rollback` does, while
the job runs. A writer that finds its number taken reads what was put there, folds it in, and decides again.

`Manifest` folds the entries into what counts now. It reads no other file and knows no clock, so a test can drive it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cloud_backend.spark.lineage import Committed, Entry, Lineage, Physical, StatePart
from cloud_backend.spark.slots import Range, even_ranges
from cloud_backend.spark.store import Store
from shared.errors import BrokenInvariant, DamagedData, ResurgeError

SUMMARY_EVERY = 200


class Fenced(ResurgeError):
    """Another driver took over; this one must stop without writing anything more."""


@dataclass(slots=True)
class Manifest:
    """The fold of all entries."""

    n: int = 0
    term: int = 0
    owner: str = ""
    plan: int = 0
    cuts: dict[int, Entry] = field(default_factory=dict)
    vertices: dict[str, dict[Range, Lineage]] = field(default_factory=dict)
    collected: Entry = field(default_factory=dict)
    rollbacks: list[Entry] = field(default_factory=list)
    divisions: list[Entry] = field(default_factory=list)
    # What the last run of a range's epoch left out. Part of the ledger, so it outlives the commits it came with.
    quarantined: dict[tuple[str, Range, int], list[Entry]] = field(default_factory=dict)

    @property
    def last_cut(self) -> int:
        return max(self.cuts, default=0)

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

    def apply(self, entry: Entry) -> None:
        """Fold one entry in; raises when it is not the next one or comes from a fenced driver."""
        if entry["n"] != self.n + 1:
            raise BrokenInvariant(f"manifest entry {entry['n']} follows {self.n}", code="manifest-order")
        if entry["term"] < self.term:
            raise BrokenInvariant(
                f"manifest entry {entry['n']} has term {entry['term']} after term {self.term}", code="manifest-term"
            )
        self.n = entry["n"]
        getattr(self, "_apply_" + entry["kind"])(entry)

    def _apply_term(self, entry: Entry) -> None:
        self.term, self.owner = entry["term"], entry["owner"]

    def _apply_plan(self, entry: Entry) -> None:
        self.plan = entry["plan"]
        for vertex, count in entry["vertices"].items():
            if vertex not in self.vertices:
                start = entry.get("from", 1)
                self.vertices[vertex] = {
                    range_: Lineage(first=start, position=start - 1) for range_ in even_ranges(count)
                }

    def _apply_cut(self, entry: Entry) -> None:
        self.cuts[entry["epoch"]] = {key: entry[key] for key in ("ends", "starts", "frontiers")}

    def _apply_commit(self, entry: Entry) -> None:
        for text, value in entry["ranges"].items():
            lineage = self.vertices[entry["vertex"]][Range.parse(text)]
            committed = Committed.from_json(value)
            if committed.epoch != lineage.position + 1:
                raise BrokenInvariant(
                    f"{entry['vertex']} {text} committed epoch {committed.epoch} at position {lineage.position}",
                    code="manifest-order",
                )
            if committed.epoch in lineage.commits:
                lineage.superseded.setdefault(committed.epoch, []).append(lineage.commits[committed.epoch])
            lineage.commits[committed.epoch] = committed
            lineage.position = committed.epoch
            self._note_quarantined((entry["vertex"], Range.parse(text)), committed)
        for vertex, text, to in entry.get("cascade", ()):
            self._roll_back((vertex, Range.parse(text)), to, keep_readable=False)

    def _apply_rollback(self, entry: Entry) -> None:
        kept = ("n", "to", "rollback", "changed", "reason", "predicted", "replay", "cost", "vertex")
        noted = {key: entry[key] for key in kept if key in entry}
        if entry["changed"]:  # what `undo` returns to
            noted |= {"plan": self.plan, "before": self._positions()}
        self._note_undone(entry.get("undoes"), entry["n"])
        self.rollbacks.append(noted)
        if "plan" in entry:
            self.plan = entry["plan"]
        for vertex, text in entry["rollback"]:
            self._roll_back((vertex, Range.parse(text)), entry["to"], keep_readable=not entry["changed"])
        for vertex, text, epoch in entry.get("lost", ()):
            lineage = self.vertices[vertex][Range.parse(text)]
            lineage.superseded.pop(epoch, None)
            lineage.commits.pop(epoch, None)

    def _positions(self) -> list[list[Any]]:
        return [
            [vertex, str(range_), lineage.position, lineage.generation]
            for vertex, lineages in self.vertices.items()
            for range_, lineage in lineages.items()
        ]

    def _apply_undo(self, entry: Entry) -> None:
        self.plan = entry["plan"]
        for vertex, text, to in entry["rollback"]:
            self._roll_back((vertex, Range.parse(text)), to, keep_readable=False)
        for vertex, text, position, generation in entry["restore"]:
            self._restore((vertex, Range.parse(text)), position, generation)
        self._note_undone(entry["of"], entry["n"])

    def _note_undone(self, rollback: int | None, by: int) -> None:
        for each in self.rollbacks:
            if each["n"] == rollback:
                each["undone"] = by

    def _apply_ranges(self, entry: Entry) -> None:
        """From epoch `from` on, `new` ranges take over from `old` ones; each starts from parts of the old states."""
        self.divisions.append({key: entry[key] for key in ("n", "vertex", "from", "old", "new")})
        lineages = self.vertices[entry["vertex"]]
        old = [Range.parse(text) for text in entry["old"]]
        for range_ in old:
            lineages[range_].last = entry["from"] - 1
        for text in entry["new"]:
            range_ = Range.parse(text)
            lineages[range_] = Lineage(
                first=entry["from"],
                position=entry["from"] - 1,
                generation=max(lineages[each].generation for each in old),
                parents=tuple(each for each in old if each.overlaps(range_)),
            )

    def _apply_settled(self, entry: Entry) -> None:
        lineage = self.vertices[entry["vertex"]][Range.parse(entry["range"])]
        if any("before" in each and "undone" not in each for each in self.rollbacks):
            for epoch, runs in lineage.superseded.items():
                lineage.former.setdefault(epoch, []).extend(runs)
        lineage.superseded.clear()

    def _apply_collect(self, entry: Entry) -> None:
        self.collected = {key: entry[key] for key in ("records", "snapshots", "log", "at")}
        for epoch in [epoch for epoch in self.cuts if epoch <= entry["log"] and epoch < self.last_cut]:
            del self.cuts[epoch]
        for vertex, lineages in self.vertices.items():
            oldest = min(entry["records"].get(vertex, 0), entry["snapshots"].get(vertex, 0))
            for range_, lineage in list(lineages.items()):
                if lineage.last is not None and lineage.last < oldest:
                    del lineages[range_]
                    continue
                for commits in (lineage.commits, lineage.superseded, lineage.former):
                    for epoch in [epoch for epoch in commits if epoch < oldest and epoch < lineage.position]:
                        del commits[epoch]

    def _roll_back(self, physical: Physical, to: int, *, keep_readable: bool) -> None:
        lineage = self.lineage(physical)
        to = max(to, lineage.first - 1)  # what came before is its parents' to undo
        if lineage.position <= to:
            return
        for epoch in [epoch for epoch in lineage.commits if epoch > to]:
            if keep_readable:
                lineage.commits[epoch] = replace(lineage.commits[epoch], stale=True)
            else:
                lineage.superseded.setdefault(epoch, []).append(lineage.commits.pop(epoch))
        lineage.position = to
        lineage.generation = self._next_generation(physical[0])

    def _note_quarantined(self, physical: Physical, committed: Committed) -> None:
        self.quarantined.pop((*physical, committed.epoch), None)
        if committed.quarantined:
            self.quarantined[*physical, committed.epoch] = list(map(dict, committed.quarantined))

    def _next_generation(self, vertex: str) -> int:
        """Above every range's of the vertex: what a range says later must outrank what the ranges before it said."""
        return 1 + max(each.generation for each in self.vertices[vertex].values())

    def _restore(self, physical: Physical, position: int, generation: int) -> None:
        """Make the runs up to a generation count again. They get a new generation: what was said since has a higher
        revision than they had, and they must outrank it."""
        lineage = self.lineage(physical)
        fresh = self._next_generation(physical[0])
        for epoch in sorted({*lineage.commits, *lineage.superseded}):
            runs = [*lineage.superseded.pop(epoch, ())]
            if epoch in lineage.commits:
                runs.append(lineage.commits.pop(epoch))
            kept = [each for each in (*lineage.former.get(epoch, ()), *runs) if each.generation <= generation]
            if kept and epoch <= position:
                chosen = max(kept, key=lambda each: each.generation)
                untouched = bool(runs) and chosen is runs[-1] and not chosen.stale
                lineage.commits[epoch] = chosen if untouched else replace(chosen, generation=fresh, stale=False)
                self._note_quarantined(physical, lineage.commits[epoch])
                runs = [each for each in runs if each is not chosen]
            if runs:
                lineage.superseded[epoch] = runs
        lineage.former.clear()
        lineage.position, lineage.generation = position, fresh

    # -- as JSON ---------------------------------------------------------------------------------------------------

    def to_json(self) -> Entry:
        return {
            "n": self.n, "term": self.term, "owner": self.owner, "plan": self.plan,
            "cuts": {str(epoch): cut for epoch, cut in self.cuts.items()},
            "collected": self.collected, "rollbacks": self.rollbacks[-100:], "divisions": self.divisions[-100:],
            "quarantined": [
                [vertex, str(range_), epoch, left_out] for (vertex, range_, epoch), left_out in self.quarantined.items()
            ],
            "vertices": {
                vertex: {str(range_): lineage.to_json() for range_, lineage in lineages.items()}
                for vertex, lineages in self.vertices.items()
            },
        }  # fmt: skip

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Manifest:
        return Manifest(
            n=value["n"], term=value["term"], owner=value["owner"], plan=value["plan"],
            cuts={int(epoch): cut for epoch, cut in value["cuts"].items()},
            collected=value["collected"], rollbacks=value["rollbacks"], divisions=value.get("divisions", []),
            quarantined={
                (vertex, Range.parse(text), epoch): left_out
                for vertex, text, epoch, left_out in value.get("quarantined", ())
            },
            vertices={
                vertex: {Range.parse(text): Lineage.from_json(each) for text, each in lineages.items()}
                for vertex, lineages in value["vertices"].items()
            },
        )  # fmt: skip


class ManifestLog:
    """The manifest of a store: catches up with what others appended, and appends."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.state = Manifest()
        self._open()

    def _open(self) -> None:
        for number in reversed(self.store.summaries()):
            try:
                self.state = Manifest.from_json(json.loads(self.store.summary(number)))
                break
            except (ValueError, KeyError):
                continue  # torn by a power cut; an older summary and the entries say the same
        self.catch_up()

    def catch_up(self, seen: Callable[[Entry], None] | None = None) -> int:
        """Fold in every entry that is there now; returns how many were new."""
        count = 0
        while (data := self.store.entry(self.state.n + 1)) is not None:
            try:
                entry = json.loads(data)
            except ValueError as error:
                raise DamagedData(
                    f"manifest entry {self.state.n + 1} is not whole; restore it from a copy of the store, or remove "
                    "it when it is the last one: the job then runs that step again",
                    code="manifest-damaged",
                ) from error
            self.state.apply(entry)
            if seen:
                seen(entry)
            count += 1
        return count

    def try_append(self, kind: str, *, term: int, **fields: Any) -> Entry | None:
        """Append an entry durably, or return None when another writer was first: catch up and decide again."""
        if self.state.term > term:
            raise Fenced(
                f"driver {self.state.owner!r} holds term {self.state.term}; this one has {term} and stops",
                code="manifest-fenced",
            )
        entry = {"n": self.state.n + 1, "term": term, "kind": kind, **fields}
        data = json.dumps(entry, separators=(",", ":")).encode()
        if not self.store.put_entry(entry["n"], data):
            return None
        self.state.apply(json.loads(data))
        if self.state.n % SUMMARY_EVERY == 0:
            self.store.put_summary(self.state.n, json.dumps(self.state.to_json(), separators=(",", ":")).encode())
        return entry

    def take_over(self, owner: str) -> int:
        """Begin a new term; returns it. Whatever the former driver still tries to commit is refused."""
        while True:
            self.catch_up()
            term = self.state.term + 1
            if self.try_append("term", term=term, owner=owner) is not None:
                return term
