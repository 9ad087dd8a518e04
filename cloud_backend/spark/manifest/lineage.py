"""What the manifest keeps of a physical vertex: its commits, their files, and where it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cloud_backend.spark.slots import Range

MISSING_NAMED_MAX = 100

Physical = tuple[str, Range]  # a physical vertex: one hash range of a vertex


@dataclass(frozen=True, slots=True)
class RecordFile:
    """The recorded output of one range and epoch towards one reader."""

    file: str
    rows: int
    bytes: int
    digest: str  # over all rows; '' without rows. The file's footer has one per slot

    def to_json(self) -> list[Any]:
        return [self.file, self.rows, self.bytes, self.digest]

    @staticmethod
    def from_json(value: Sequence[Any]) -> RecordFile:
        return RecordFile(value[0], value[1], value[2], value[3])


@dataclass(frozen=True, slots=True)
class StatePart:
    """State of a run of slots: a base and deltas. A range has several parts after a merge."""

    range: Range
    chain: tuple[str, ...]
    sizes: tuple[int, ...]  # bytes of each file of the chain

    def within(self, range_: Range) -> StatePart:
        """The part as a range inside it uses it after a split: the same files, fewer slots."""
        return StatePart(Range(max(self.range.lo, range_.lo), min(self.range.hi, range_.hi)), self.chain, self.sizes)

    def to_json(self) -> list[Any]:
        return [str(self.range), list(self.chain), list(self.sizes)]

    @staticmethod
    def from_json(value: Sequence[Any]) -> StatePart:
        return StatePart(Range.parse(value[0]), tuple(value[1]), tuple(value[2]))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A batch, a row or a key's state that a vertex did not use, and why. Rows between vertices have no device."""

    edge: str
    lo: int
    hi: int
    reason: str
    code: str
    device: str | None = None
    incarnation: int | None = None
    rows: int | None = None
    key: tuple[str, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        more = {"device": self.device, "incarnation": self.incarnation, "rows": self.rows, "key": self.key}
        found = {"edge": self.edge, "lo": self.lo, "hi": self.hi, "reason": self.reason, "code": self.code}
        return found | {name: value for name, value in more.items() if value is not None}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> LeftOut:
        key = value.get("key")
        return LeftOut(
            value["edge"], value["lo"], value["hi"], value["reason"], value["code"], value.get("device"),
            value.get("incarnation"), value.get("rows"), None if key is None else tuple(key),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Committed:
    """What one hash range did in one epoch. `outputs`: (output name, reader) -> record; a sink's reader is ''."""

    epoch: int
    term: int  # the range's when it ran; grows with every rollback, see Lineage. Stored as "generation"
    outputs: Mapping[tuple[str, str], RecordFile]
    state: tuple[StatePart, ...]  # together the snapshot of this epoch
    rows_in: int
    bytes_read: int  # of its inputs
    seconds: float
    code: str
    plan: int
    quarantined: tuple[LeftOut, ...] = ()
    stale: bool = False  # rolled back, not yet run again; readers may still use it
    attempt: int = 0
    state_bytes_read: int = 0  # 0 where the worker still had the state
    frontiers: Mapping[str, int] = field(default_factory=dict)  # of devices heard in the epoch, as they were believed
    frontiers_file: str = ""  # where there are many of them
    missing: tuple[str, ...] = ()  # devices behind, without which windows closed; at most MISSING_NAMED_MAX
    late: Mapping[int, int] = field(default_factory=dict)  # rows that came too late, by plan node, since the job began
    frontier_us: int | None = None  # how far time has come at its inputs: the slowest device heard in the epoch

    def to_json(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch, "generation": self.term,
            "outputs": [[name, reader, *record.to_json()] for (name, reader), record in self.outputs.items()],
            "state": [part.to_json() for part in self.state],
            "rows_in": self.rows_in, "bytes_read": self.bytes_read, "seconds": round(self.seconds, 6),
            "code": self.code, "plan": self.plan, "quarantined": [each.to_json() for each in self.quarantined],
            "stale": self.stale, "attempt": self.attempt, "state_bytes_read": self.state_bytes_read,
            "frontier_us": self.frontier_us,
            **{name: value for name, value in self._about_time().items() if value},
        }  # fmt: skip

    def _about_time(self) -> dict[str, Any]:
        return {
            "frontiers": dict(self.frontiers), "frontiers_file": self.frontiers_file, "missing": list(self.missing),
            "late": {str(node): rows for node, rows in self.late.items()},
        }  # fmt: skip

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Committed:
        return Committed(
            epoch=value["epoch"], term=value["generation"],
            outputs={(each[0], each[1]): RecordFile.from_json(each[2:]) for each in value["outputs"]},
            state=tuple(StatePart.from_json(part) for part in value["state"]),
            rows_in=value["rows_in"], bytes_read=value["bytes_read"], seconds=value["seconds"], code=value["code"],
            plan=value["plan"], quarantined=tuple(map(LeftOut.from_json, value["quarantined"])), stale=value["stale"],
            attempt=value["attempt"], state_bytes_read=value.get("state_bytes_read", 0),
            frontier_us=value.get("frontier_us"), frontiers=value.get("frontiers", {}),
            frontiers_file=value.get("frontiers_file", ""), missing=tuple(value.get("missing", ())),
            late={int(node): rows for node, rows in value.get("late", {}).items()},
        )  # fmt: skip

    def state_files(self) -> set[str]:
        return {name for part in self.state for name in part.chain}

    @property
    def state_bytes(self) -> int:
        return sum(sum(part.sizes) for part in self.state)


@dataclass(slots=True)
class Lineage:
    """One physical vertex: where it is and what it did."""

    first: int  # the first epoch it runs
    last: int | None = None  # the last one, once it was split or merged
    position: int = 0
    term: int = 0  # the fencing number of this range: what it says later outranks what it said before
    parents: tuple[Range, ...] = ()  # the ranges it was split or merged from, at epoch first - 1
    commits: dict[int, Committed] = field(default_factory=dict)
    superseded: dict[int, list[Committed]] = field(default_factory=dict)  # until corrections were published
    former: dict[int, list[Committed]] = field(default_factory=dict)  # then, while a rollback may be taken back
    anew_after: int | None = None  # it runs again from this epoch on, and what it said first is known to nobody

    def to_json(self) -> dict[str, Any]:
        return {
            "first": self.first, "last": self.last, "position": self.position, "generation": self.term,
            "parents": [str(range_) for range_ in self.parents],
            "commits": [committed.to_json() for committed in self.commits.values()],
            "superseded": [each.to_json() for earlier in self.superseded.values() for each in earlier],
            "former": [each.to_json() for earlier in self.former.values() for each in earlier],
            **({} if self.anew_after is None else {"anew_after": self.anew_after}),
        }  # fmt: skip

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Lineage:
        commits = [Committed.from_json(each) for each in value["commits"]]
        return Lineage(
            value["first"], value["last"], value["position"], value["generation"],
            tuple(Range.parse(text) for text in value["parents"]),
            {each.epoch: each for each in commits}, _by_epoch(value["superseded"]), _by_epoch(value.get("former", ())),
            value.get("anew_after"),
        )  # fmt: skip

    def recorded_from(self) -> int:
        """The first epoch from which on it still has every record up to where it is."""
        epoch = self.position
        while epoch in self.commits:
            epoch -= 1
        return epoch + 1

    def runs(self) -> list[Committed]:
        """Everything it did and still keeps, whether it counts or not."""
        earlier = [*self.superseded.values(), *self.former.values()]
        return [*self.commits.values(), *(each for several in earlier for each in several)]


def _by_epoch(values: Sequence[Mapping[str, Any]]) -> dict[int, list[Committed]]:
    found: dict[int, list[Committed]] = {}
    for each in map(Committed.from_json, values):
        found.setdefault(each.epoch, []).append(each)
    return found
