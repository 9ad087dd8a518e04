"""What a manifest can say: one class for each kind of entry, and how it is written as JSON.

The JSON is the stored format: names and order of its fields do not change, and a field that a later version added has a
default here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from cloud_backend.spark.manifest.lineage import Committed, Physical, RecordFile, StatePart
from cloud_backend.spark.slots import Range
from shared.errors import DamagedData

Json: TypeAlias = dict[str, Any]  # an object as `json` reads it


@dataclass(frozen=True, slots=True)
class Term:
    """A driver takes over; every later entry of a lower term is refused, so a stale driver is fenced (T12)."""

    kind: ClassVar[str] = "term"
    owner: str

    def to_json(self) -> Json:
        return {"owner": self.owner}

    @staticmethod
    def from_json(value: Json) -> Term:
        return Term(value["owner"])


@dataclass(frozen=True, slots=True)
class PlanChange:
    """Another plan counts from here on; vertices that are new begin in epoch `first`."""

    kind: ClassVar[str] = "plan"
    plan: int
    vertices: Mapping[str, int]  # name -> how many ranges a new one has
    first: int = 1
    anew: tuple[str, ...] = ()  # vertices that compute something else from here on
    gone: tuple[str, ...] = ()  # vertices that the plan no longer has

    def to_json(self) -> Json:
        replaced = {name: list(each) for name, each in (("anew", self.anew), ("gone", self.gone)) if each}
        return {"plan": self.plan, "vertices": dict(self.vertices), **replaced, "from": self.first}

    @staticmethod
    def from_json(value: Json) -> PlanChange:
        anew, gone = (tuple(value.get(name, ())) for name in ("anew", "gone"))
        return PlanChange(value["plan"], value["vertices"], value.get("from", 1), anew, gone)


@dataclass(frozen=True, slots=True)
class Cut:
    """Epoch e reads the log from `starts` to `ends`, by partition: durable before any task of e runs. From it on nobody
    waits for devices that `left` for good, and since when; those that `returned` are waited for again. How far each
    device has come is in the commits of the vertices that read the log."""

    kind: ClassVar[str] = "cut"
    epoch: int
    starts: Mapping[str, int]
    ends: Mapping[str, int]
    left: Mapping[str, int] = field(default_factory=dict)
    returned: tuple[str, ...] = ()
    at_ms: int = 0  # when it was cut, by the driver's clock; 0 where nobody wrote it down

    def to_json(self) -> Json:
        return {"epoch": self.epoch, **self.bounds()}

    def bounds(self) -> Json:
        changes = {"left": dict(self.left), "returned": list(self.returned)}
        frontiers = {name: each for name, each in changes.items() if each}
        at = {"at_ms": self.at_ms} if self.at_ms else {}
        return {"starts": dict(self.starts), "ends": dict(self.ends), "frontiers": frontiers, **at}

    @staticmethod
    def from_json(value: Json) -> Cut:
        frontiers = value["frontiers"]
        left, returned = frontiers.get("left", {}), tuple(frontiers.get("returned", ()))
        return Cut(value["epoch"], value["starts"], value["ends"], left, returned, value.get("at_ms", 0))


@dataclass(frozen=True, slots=True)
class Commit:
    """Ranges of a vertex finished an epoch. `cascade`: which ranges of its readers go back, and to which epoch, because
    what was run again differs from what they had read."""

    kind: ClassVar[str] = "commit"
    vertex: str
    ranges: Mapping[Range, Committed]
    cascade: tuple[tuple[str, Range, int], ...] = ()

    def to_json(self) -> Json:
        return {
            "vertex": self.vertex, "ranges": {str(range_): each.to_json() for range_, each in self.ranges.items()},
            "cascade": [_moved(each) for each in self.cascade],
        }  # fmt: skip

    @staticmethod
    def from_json(value: Json) -> Commit:
        ranges = {Range.parse(text): Committed.from_json(each) for text, each in value["ranges"].items()}
        return Commit(value["vertex"], ranges, _parsed_moves(value.get("cascade", ())))


@dataclass(frozen=True, slots=True)
class Rollback:
    """Ranges go back to an epoch: positions move, nothing is deleted. Unless their output is known to change, what they
    recorded stays readable while they run again; `lost` names records that do not.

    One that `erases` devices takes what they added out of state that does not say whose it is. Where they had added to
    it before the epoch, its vertices are `emptied` there: they start from nothing, and windows that begin before a time
    are incomplete."""

    kind: ClassVar[str] = "rollback"
    rollback: tuple[Physical, ...]
    to: int
    changed: bool
    reason: str
    lost: tuple[tuple[str, Range, int], ...] = ()
    predicted: tuple[str, ...] = ()  # the rollback set R
    replay: Mapping[str, int] = field(default_factory=dict)  # the replay set E: from which epoch
    cost: Mapping[str, float] | None = None
    vertex: str | None = None  # the one an operator named
    plan: int | None = None  # the corrected plan, if there is one
    undoes: int | None = None  # the entry of an earlier rollback that this one takes back by running again
    erases: Mapping[str, int] = field(default_factory=dict)  # devices, by when their deletion was asked for
    emptied: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> Json:
        return {
            "rollback": [[vertex, str(range_)] for vertex, range_ in self.rollback], "to": self.to,
            "changed": self.changed, "lost": [_moved(each) for each in self.lost], "reason": self.reason,
            "predicted": list(self.predicted), "replay": dict(self.replay),
            **_given(cost=self.cost, vertex=self.vertex, plan=self.plan, undoes=self.undoes),
            **_given(erases=dict(self.erases) or None, emptied=dict(self.emptied) or None),
        }  # fmt: skip

    @staticmethod
    def from_json(value: Json) -> Rollback:
        return Rollback(
            tuple((vertex, Range.parse(text)) for vertex, text in value["rollback"]), value["to"], value["changed"],
            value["reason"], _parsed_moves(value.get("lost", ())), tuple(value.get("predicted", ())),
            value.get("replay", {}), value.get("cost"), value.get("vertex"), value.get("plan"), value.get("undoes"),
            value.get("erases", {}), value.get("emptied", {}),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Position:
    """Where a range was: its last epoch, and its term."""

    vertex: str
    range: Range
    epoch: int
    term: int

    @property
    def physical(self) -> Physical:
        return (self.vertex, self.range)

    def to_json(self) -> list[Any]:
        return [self.vertex, str(self.range), self.epoch, self.term]

    @staticmethod
    def from_json(value: Sequence[Any]) -> Position:
        vertex, text, epoch, term = value
        return Position(vertex, Range.parse(text), epoch, term)


@dataclass(frozen=True, slots=True)
class Undo:
    """An operator's rollback is taken back: positions and commits return to what they were before it."""

    kind: ClassVar[str] = "undo"
    of: int
    plan: int
    restore: tuple[Position, ...]
    rollback: tuple[tuple[str, Range, int], ...]  # ranges that had gone on, and run those epochs again

    def to_json(self) -> Json:
        return {
            "of": self.of, "plan": self.plan, "restore": [each.to_json() for each in self.restore],
            "rollback": [_moved(each) for each in self.rollback],
        }  # fmt: skip

    @staticmethod
    def from_json(value: Json) -> Undo:
        restore = tuple(map(Position.from_json, value["restore"]))
        return Undo(value["of"], value["plan"], restore, _parsed_moves(value["rollback"]))


@dataclass(frozen=True, slots=True)
class Division:
    """From epoch `first` on, `new` ranges take over from `old` ones; each starts from parts of the old states."""

    kind: ClassVar[str] = "ranges"
    vertex: str
    old: tuple[Range, ...]
    new: tuple[Range, ...]
    first: int

    def to_json(self) -> Json:
        return {
            "vertex": self.vertex, "old": [*map(str, self.old)], "new": [*map(str, self.new)], "from": self.first,
        }  # fmt: skip

    @staticmethod
    def from_json(value: Json) -> Division:
        old, new = (tuple(map(Range.parse, value[name])) for name in ("old", "new"))
        return Division(value["vertex"], old, new, value["from"])


@dataclass(frozen=True, slots=True)
class Settled:
    """Corrections for what a range had said before its rollback were published."""

    kind: ClassVar[str] = "settled"
    vertex: str
    range: Range

    def to_json(self) -> Json:
        return {"vertex": self.vertex, "range": str(self.range)}

    @staticmethod
    def from_json(value: Json) -> Settled:
        return Settled(value["vertex"], Range.parse(value["range"]))


@dataclass(frozen=True, slots=True)
class Collect:
    """What is older than this may be deleted: by vertex its records and its snapshots, and the log, as epochs. What
    every vertex did in the epochs that are `points` stays."""

    kind: ClassVar[str] = "collect"
    records: Mapping[str, int] = field(default_factory=dict)
    snapshots: Mapping[str, int] = field(default_factory=dict)
    log: int = 0
    at: int = 0  # the last epoch that was cut then
    points: tuple[int, ...] = ()

    def to_json(self) -> Json:
        return {
            "records": dict(self.records), "snapshots": dict(self.snapshots), "log": self.log, "at": self.at,
            **({"points": list(self.points)} if self.points else {}),
        }  # fmt: skip

    @staticmethod
    def from_json(value: Json) -> Collect:
        points = tuple(value.get("points", ()))
        return Collect(value["records"], value["snapshots"], value["log"], value["at"], points)


@dataclass(frozen=True, slots=True)
class Savepoint:
    """An epoch gets a name and is kept until the name is dropped, which an entry without an epoch does."""

    kind: ClassVar[str] = "savepoint"
    name: str
    epoch: int | None
    at_ms: int  # when the epoch was cut

    def to_json(self) -> Json:
        return {"name": self.name, "epoch": self.epoch, "at_ms": self.at_ms}

    @staticmethod
    def from_json(value: Json) -> Savepoint:
        return Savepoint(value["name"], value["epoch"], value["at_ms"])


@dataclass(frozen=True, slots=True)
class Erasure:
    """What devices delivered is gone from every range's state and records, as they are after epoch `at`. Everything
    before it is forgotten: nobody can return there."""

    kind: ClassVar[str] = "erase"
    devices: Mapping[str, int]  # device -> when its deletion was asked for
    at: int
    ranges: Mapping[Physical, tuple[tuple[StatePart, ...], Mapping[tuple[str, str], RecordFile]]]

    def to_json(self) -> Json:
        return {
            "devices": dict(self.devices), "at": self.at,
            "ranges": [
                [
                    vertex, str(range_), [part.to_json() for part in parts],
                    [[name, reader, *record.to_json()] for (name, reader), record in outputs.items()],
                ]
                for (vertex, range_), (parts, outputs) in self.ranges.items()
            ],
        }  # fmt: skip

    @staticmethod
    def from_json(value: Json) -> Erasure:
        ranges = {
            (vertex, Range.parse(text)): (
                tuple(map(StatePart.from_json, parts)),
                {(each[0], each[1]): RecordFile.from_json(each[2:]) for each in outputs},
            )
            for vertex, text, parts, outputs in value["ranges"]
        }
        return Erasure(value["devices"], value["at"], ranges)


Entry: TypeAlias = (
    Term | PlanChange | Cut | Commit | Rollback | Undo | Division | Settled | Collect | Savepoint | Erasure
)
_TYPES: tuple[type[Entry], ...] = (
    Term, PlanChange, Cut, Commit, Rollback, Undo, Division, Settled, Collect, Savepoint, Erasure,
)  # fmt: skip
_KINDS: dict[str, type[Entry]] = {kind.kind: kind for kind in _TYPES}


def entry_from_json(value: Json) -> Entry:
    """The entry of a stored object."""
    kind = _KINDS.get(value["kind"])
    if kind is None:
        raise DamagedData(
            f"manifest entry {value['n']} is of kind {value['kind']!r}, which this version does not know; upgrade",
            code="manifest-kind",
        )
    return kind.from_json(value)


@dataclass(frozen=True, slots=True)
class PastRollback:
    """A rollback as the manifest remembers it. One that was asked for also knows what an undo returns to."""

    n: int  # the entry's number
    entry: Rollback
    plan: int | None = None  # the plan that counted before
    before: tuple[Position, ...] | None = None
    undone: int | None = None  # the entry that took it back

    def to_json(self) -> Json:
        kept = ("to", "rollback", "changed", "reason", "predicted", "replay", "cost", "vertex")
        fields = self.entry.to_json()
        before = None if self.before is None else [each.to_json() for each in self.before]
        return {
            "n": self.n, **{name: fields[name] for name in kept if name in fields},
            **_given(plan=self.plan, before=before, undone=self.undone),
        }  # fmt: skip

    @staticmethod
    def from_json(value: Json) -> PastRollback:
        before = value.get("before")
        entry = Rollback.from_json({name: each for name, each in value.items() if name != "plan"})
        return PastRollback(
            value["n"], entry, value.get("plan"),
            None if before is None else tuple(map(Position.from_json, before)), value.get("undone"),
        )  # fmt: skip


def _given(**fields: object) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _moved(each: tuple[str, Range, int]) -> list[Any]:
    vertex, range_, epoch = each
    return [vertex, str(range_), epoch]


def _parsed_moves(values: Sequence[Sequence[Any]]) -> tuple[tuple[str, Range, int], ...]:
    return tuple((vertex, Range.parse(text), epoch) for vertex, text, epoch in values)
