"""Where streams cross to the other side, or end. `output_name` is the name under which a pipeline hands out rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from shared.errors import UsageError
from shared.language.codecs import codec_names
from shared.language.durations import duration_text
from shared.language.expressions import Value
from shared.language.schema import ADDED
from shared.language.values import column_of
from shared.plan.contracts import LOSSLESS, Contract, check_contract
from shared.plan.operators.operator import KeepsColumns, Types, check_name
from shared.plan.stream_type import DEVICE, StreamType

COMMITS = ("latest", "stable")
EVICTIONS = ("query", "oldest", "priority", "block")


class End(KeepsColumns):
    """Rows leave here as they are."""

    __slots__ = ()

    @property
    def output_name(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Sync(End):
    """The phone, or the region, ends here: rows are numbered, spooled, and arrive on the cloud exactly once. A phone's
    rows travel without `device`; the cloud adds it from their frames.

    A batch closes at `batch_rows`, `batch_bytes` or `within_us`, whichever is first, and is packed with `codec`.
    `evict` says what a full spool gives up for this edge's rows: `query` what the device's own policy says, `oldest`
    the oldest batch of all, `priority` the least important. With `block` its rows are never given up: others make
    room for them, and when nothing else is left the sensors wait. `priority` orders edges (higher first),
    `deadline_us` is how long a row is worth keeping (None: for ever). `missing` are values, by column, for rows of
    phones whose program does not have that column yet.
    """

    kind: ClassVar[str] = "sync"

    name: str
    batch_rows: int = 60
    batch_bytes: int = 65_536
    within_us: int = 60_000_000
    codec: str = "auto"
    contract: Contract = LOSSLESS
    evict: str = "query"
    priority: int = 0
    deadline_us: int | None = None
    missing: tuple[tuple[str, Value], ...] = field(default=(), metadata={ADDED: True})

    @property
    def output_name(self) -> str:
        return self.name

    def output_type(self, inputs: Types) -> StreamType:
        check_name(self.name)
        check_contract(self.contract)
        for name, value in self.missing:
            if name not in inputs[0].schema:
                raise UsageError(
                    f"sync {self.name!r}: missing= names column {name!r}, which the stream does not have "
                    f"(it has: {', '.join(inputs[0].schema.names)})",
                    code="sync-missing",
                )
            kind = inputs[0].schema.kind(name)
            column_of([value], kind, column=name, where=f"missing= of sync {self.name!r}", code="sync-missing")
        if not (0 < self.batch_rows <= 1_000_000 and 0 < self.batch_bytes <= 2**24 and self.within_us > 0):
            raise UsageError(
                f"sync {self.name!r}: batch is 1 to 1000000 rows, batch_bytes 1 to 16777216, within more than zero",
                code="sync-batch",
            )
        for option, given, known in (("codec", self.codec, codec_names()), ("evict", self.evict, EVICTIONS)):
            if given not in known:
                raise UsageError(
                    f"sync {self.name!r}: {option} {given!r} is not one of {', '.join(known)}", code="sync-batch"
                )
        return inputs[0]

    def describe(self) -> str:
        return f"sync {self.name}: batches of {self.batch_rows} rows or {duration_text(self.within_us)}"


@dataclass(frozen=True, slots=True)
class Gather(End):
    """The device's part ends here: rows are numbered and sent to the nodes of the region, where those of several
    devices meet. There `device` is a column like others; a key without it merges devices.

    A batch closes at `batch_rows` or `within_us`, whichever is first. `contract` is what the region's sinks promise of
    these rows.
    """

    kind: ClassVar[str] = "gather"

    name: str
    batch_rows: int = 60
    within_us: int = 1_000_000
    contract: Contract = LOSSLESS

    @property
    def output_name(self) -> str:
        return self.name

    def output_type(self, inputs: Types) -> StreamType:
        check_name(self.name)
        check_contract(self.contract)
        if not 0 < self.batch_rows <= 1_000_000 or self.within_us <= 0:
            raise UsageError(
                f"gather {self.name!r}: batch is 1 to 1000000 rows, within more than zero", code="gather-batch"
            )
        return inputs[0]

    def describe(self) -> str:
        return f"gather {self.name}: batches of {self.batch_rows} rows or {duration_text(self.within_us)}"


@dataclass(frozen=True, slots=True)
class SyncBack(End):
    """Results go to the device in their `device` column. What follows it runs on that device, with commit="stable"."""

    kind: ClassVar[str] = "sync_back"

    name: str
    commit: str = "latest"

    @property
    def output_name(self) -> str:
        return self.name

    def output_type(self, inputs: Types) -> StreamType:
        check_name(self.name)
        if self.commit not in COMMITS:
            raise UsageError(f"commit {self.commit!r} is not one of {', '.join(COMMITS)}", code="sync-back")
        if DEVICE not in inputs[0].schema:
            raise UsageError(
                f"sync_back({self.name!r}) needs the column 'device' to know whose result it is "
                f"(has: {', '.join(inputs[0].schema.names)}). Keep it in the key",
                code="sync-back",
            )
        return inputs[0]

    def describe(self) -> str:
        return f"sync back {self.name} (commit {self.commit})"


@dataclass(frozen=True, slots=True)
class Subscribe(End):
    """A local sink: the program's callback of this name, or `evaluate`, gets the rows."""

    kind: ClassVar[str] = "subscribe"

    name: str

    @property
    def output_name(self) -> str:
        return self.name

    def output_type(self, inputs: Types) -> StreamType:
        check_name(self.name)
        return inputs[0]

    def describe(self) -> str:
        return f"subscribe {self.name}"


@dataclass(frozen=True, slots=True)
class Feed(End):
    """The near end of a cycle; see Feedback."""

    kind: ClassVar[str] = "feed"

    name: str

    @property
    def output_name(self) -> str:
        return f"feedback {self.name}"

    def output_type(self, inputs: Types) -> StreamType:
        check_name(self.name)
        return inputs[0]

    def describe(self) -> str:
        return f"feed {self.name}"


@dataclass(frozen=True, slots=True)
class Request(End):
    """Each row asks the device for one reading of a sensor declared with every_us = 0 (Sonora Fig 2).

    Output name: "request SENSOR". The reading arrives as the sensor's next row; its time is the request's. In
    `evaluate` the reading is the sensor's last given row with time <= the request's, and there is none before that.
    """

    kind: ClassVar[str] = "request"

    sensor: str

    @property
    def output_name(self) -> str:
        return f"request {self.sensor}"

    def output_type(self, inputs: Types) -> StreamType:
        check_name(self.sensor)
        return inputs[0]

    def describe(self) -> str:
        return f"request {self.sensor}"
