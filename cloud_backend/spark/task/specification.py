"""What a task is told, and what it answers. Both travel as JSON between driver and executor, which run one code."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from cloud_backend.log.partitions import numbered
from cloud_backend.spark.manifest.entries import Cut
from cloud_backend.spark.manifest.lineage import Committed, StatePart
from cloud_backend.spark.slots import Range


class Slice(NamedTuple):
    """What an epoch has of one partition of the log."""

    partition: str
    start: int
    end: int


def slices_of(cut: Cut) -> tuple[Slice, ...]:
    """What an epoch has of the log, by partition."""
    return tuple(Slice(each, cut.starts[each], cut.ends[each]) for each in numbered(cut.ends))


@dataclass(frozen=True, slots=True)
class EpochInputs:
    """What one epoch of a range reads."""

    epoch: int
    log: str  # where the log is
    slices: tuple[Slice, ...]  # of all its partitions; none where the vertex does not read it
    records: Mapping[str, Sequence[str]]  # edge -> record files
    left: Mapping[str, int] = field(default_factory=dict)  # devices that nobody waits for from this epoch on
    returned: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        records = {edge: list(files) for edge, files in self.records.items()}
        return {
            "epoch": self.epoch, "log": self.log, "slices": self.slices, "records": records, "left": dict(self.left),
            "returned": list(self.returned),
        }  # fmt: skip

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> EpochInputs:
        slices = tuple(Slice(*each) for each in value["slices"])
        left, returned = value["left"], tuple(value["returned"])
        return EpochInputs(value["epoch"], value["log"], slices, value["records"], left, returned)


@dataclass(frozen=True, slots=True)
class Specification:
    """One range of a vertex, the state it starts from, and the epochs it runs one after the other."""

    store: str
    vertex: str
    range: Range
    term: int  # of the range
    driver_term: int
    plan: int
    code: str
    state: tuple[StatePart, ...]
    epochs: tuple[EpochInputs, ...]
    chain_max: int = 32
    given: bool = False  # `evaluate`: sync edges are not read from a log
    modules: tuple[str, ...] = ()  # users' operator modules
    hadoop: Mapping[str, str] = field(default_factory=dict)
    attempt: int = 0
    without: tuple[str, ...] = ()  # devices that are being erased: their rows in records are not read
    incomplete_before_us: int | None = None  # windows that begin before it lost rows to an erasure
    beside_others: bool = False  # several jobs read the log: what one of their tasks has decoded is kept for the next

    def of_epoch(self, index: int, state: tuple[StatePart, ...]) -> Specification:
        """One of its epochs alone, from the state that the epoch before it left."""
        return replace(self, state=state, epochs=self.epochs[index : index + 1])

    @property
    def first(self) -> EpochInputs:
        return self.epochs[0]

    def to_json(self) -> dict[str, Any]:
        return {
            "store": self.store, "vertex": self.vertex, "range": str(self.range), "term": self.term,
            "driver_term": self.driver_term, "plan": self.plan, "code": self.code,
            "state": [part.to_json() for part in self.state], "epochs": [each.to_json() for each in self.epochs],
            "chain_max": self.chain_max, "given": self.given, "modules": list(self.modules),
            "hadoop": dict(self.hadoop), "attempt": self.attempt, "without": list(self.without),
            "incomplete_before_us": self.incomplete_before_us, "beside_others": self.beside_others,
        }  # fmt: skip

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Specification:
        return Specification(
            value["store"], value["vertex"], Range.parse(value["range"]), value["term"], value["driver_term"],
            value["plan"], value["code"], tuple(map(StatePart.from_json, value["state"])),
            tuple(map(EpochInputs.from_json, value["epochs"])), value["chain_max"], value["given"],
            tuple(value["modules"]), value["hadoop"], value["attempt"], tuple(value["without"]),
            value["incomplete_before_us"], value["beside_others"],
        )  # fmt: skip


class LogBytes(NamedTuple):
    """Of the log: what was read, and what of it no task before had decoded."""

    read: int = 0
    decoded: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """An epoch that ran: what the manifest should say of it, how its state was found (`state.Loaded.how`), and, where
    requests cost more than bytes, the small records of its sinks, which the driver is about to publish."""

    committed: Committed
    cache: tuple[str, ...] = ()
    log_bytes: LogBytes = field(default_factory=LogBytes)
    said: Mapping[str, bytes] = field(default_factory=dict)  # by the names of their files

    def to_json(self) -> dict[str, Any]:
        return {
            "committed": self.committed.to_json(), "cache": list(self.cache), "log_bytes": self.log_bytes,
            "said": {name: b64encode(data).decode() for name, data in self.said.items()},
        }  # fmt: skip

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Done:
        said = {name: b64decode(data) for name, data in value["said"].items()}
        return Done(Committed.from_json(value["committed"]), tuple(value["cache"]), LogBytes(*value["log_bytes"]), said)


@dataclass(frozen=True, slots=True)
class Failed:
    """An epoch that did not. `kind`: state, record (with the `file`), operator, cluster, other, hung or died."""

    kind: str
    message: str
    code: str = ""
    file: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"failed": self.kind, "message": self.message, "code": self.code, "file": self.file}


Outcome = Done | Failed


def outcomes_to_json(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    return [each.to_json() for each in outcomes]


def outcomes_from_json(values: Sequence[Mapping[str, Any]]) -> list[Outcome]:
    """A task's outcomes, epoch by epoch; after one that failed there is none."""
    return [
        Failed(each["failed"], each["message"], each["code"], each["file"])
        if "failed" in each
        else Done.from_json(each)
        for each in values
    ]
