"""The closed set of operator types that a plan is made of: frozen data, no code.

Every stream has a *key*, the columns whose values keep rows apart: windows, states, joins and user operators work on
each key by itself. A stream that comes from a device is keyed by `device` from the start, on the phone and after
`sync`, so moving `sync` moves work and changes no meaning; `KeyBy` chooses another key. Key columns are always part of
a stream's schema. On the device `device` is one constant column that the engine adds where something reads it; it never
travels, the cloud adds it from the frame's source.

A stream also has `time`, the event time in microseconds. Where this file says nothing else an operator keeps its rows'
times, numbers and order, and its frontier is the least of its inputs'.

*Merge modes* of operators that bring several edges together: `ordered` holds rows until the frontier passes them and
emits them by (time, edge, sequence number), the edge being (device, input position): the same at every replay. `logged`
emits by arrival and writes the interleaving down, so that a replay repeats it. `arrival` emits by arrival: everything
downstream must roll back with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from shared.plan.contracts import LOSSLESS, Contract
from shared.stream.aggregates import Aggregate, Parameters
from shared.stream.expressions import Expression, Value
from shared.stream.schema import Schema
from shared.stream.windows import Window

DEVICE = "device"
WINDOW_START, WINDOW_END, COMPLETE = "window_start", "window_end", "complete"
MERGES = ("ordered", "logged", "arrival")
COMMITS = ("latest", "stable")
CODECS = ("auto", "none")
EVICTIONS = ("query", "oldest", "priority", "block")

# --- Where streams begin. `schema` is what the outside world hands in: without `device`, which the engine adds. ------


@dataclass(frozen=True, slots=True)
class Sensor:
    """Readings of a device's sensor every `every_us`; 0: only when a `Request` for it asks (see there)."""

    name: str
    every_us: int
    schema: Schema


@dataclass(frozen=True, slots=True)
class Timer:
    """One row every `every_us` with the int64 column `tick` = time // every_us, and time a multiple of every_us.

    The device's clock arrives as this numbered input, so a replay sees the same ticks. Input name: "timer NAME".
    """

    name: str
    every_us: int


@dataclass(frozen=True, slots=True)
class Appended:
    """A stream that the program itself appends rows to, on the device."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class Feedback:
    """The far end of a cycle: rows that `Feed(name)` received. They enter after everything of the push (on Spark: of
    the epoch) that made them, with their times raised to the frontier where they would be late. The frontier of a
    feedback edge never holds anything back."""

    name: str
    schema: Schema  # with its key columns
    key: tuple[str, ...]


# --- Stateless: one row in, one or none out; numbers and times kept ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class Where:
    """Keeps the rows for which the bool expression is true."""

    predicate: Expression


@dataclass(frozen=True, slots=True)
class Select:
    """Exactly these columns, in this order, each computed from the input row. Includes the key columns unchanged."""

    columns: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class KeyBy:
    """Rows unchanged, kept apart by these columns from here on; no columns: all rows together.

    On the cloud this is where rows of different devices meet, so the merge mode and the idle rule apply here: the
    frontier is the least over the active devices; a device silent for `idle_after_us` of event time, measured against
    the greatest frontier, leaves the active set, windows that close without it say complete=false, and its later rows
    are late rows (see WindowAggregate.lateness_us).
    """

    columns: tuple[str, ...]
    merge: str = "ordered"
    idle_after_us: int | None = None


@dataclass(frozen=True, slots=True)
class Union:
    """The rows of two or more streams with the same columns (by name; the first one's order) and key."""

    merge: str = "ordered"


# --- Several streams, row by row, key by key; the inputs have the same key, which appears once ------------------------
# A column of the right input whose name the left one has gets `suffix`. All merge ordered, but for Combine's mode.


@dataclass(frozen=True, slots=True)
class Zip:
    """The n-th row of the left with the n-th of the right, in stream order. Time: the later of both."""

    suffix: str = "_right"


@dataclass(frozen=True, slots=True)
class Combine:
    """At every row of either input, the latest row of both, once both have had one. Time: the newer row's."""

    suffix: str = "_right"
    merge: str = "ordered"


@dataclass(frozen=True, slots=True)
class Join:
    """Every pair with left.time - before_us <= right.time <= left.time + after_us. Time: the later of both.

    A pair goes out once the frontier passes its time; pairs are ordered by (time, left order, right order).
    """

    before_us: int
    after_us: int
    suffix: str = "_right"


@dataclass(frozen=True, slots=True)
class Latest:
    """Each left row with the last right row, by (time, stream order), whose time <= the left row's; goes out once the
    frontier passes it, in (time, stream order). Left rows before the first right row take `defaults` (one per right
    column that is not key, in order), or are dropped where defaults is None."""

    defaults: tuple[Value, ...] | None = None
    suffix: str = "_right"


# --- State, key by key ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WindowAggregate:
    """One row per window (shared.stream.windows) and key.

    Columns: the key, window_start, window_end (int64 microseconds), the aggregates, complete (bool: every active
    device's frontier had passed window_end). A row with time < frontier is late: within `lateness_us` of the frontier
    it corrects its window, which goes out again whole (the same key, window_start, window_end: an upsert); beyond it
    the row is dropped and counted. Downstream frontier: this one's less lateness_us. Count windows know no lateness.
    """

    window: Window
    aggregates: tuple[tuple[str, Aggregate], ...]
    lateness_us: int = 0


@dataclass(frozen=True, slots=True)
class Apply:
    """A user's operator type (shared.stream.registry), by name and version.

    Without a window it takes rows, with one it takes the rows of each window (ordered as the window is) and gives one
    row for it. Columns: the key, window_start and window_end where there is a window, its output port's columns. An
    operator type with several output ports is followed by a Port for each. `config`: the last input is a config
    stream; each of its rows (columns named like parameters) sets those parameters for the rows after it, by time.
    """

    operator: str
    operator_version: int
    parameters: Parameters = ()
    window: Window | None = None
    deterministic: bool = True
    config: bool = False
    delay_us_max: int | None = None


@dataclass(frozen=True, slots=True)
class Port:
    """One output port of an Apply that has several."""

    name: str


@dataclass(frozen=True, slots=True)
class StateColumn:
    """`update` may read the input row's columns, and the state before this row as columns named "state.NAME"."""

    name: str
    kind: str
    initial: Value
    update: Expression


@dataclass(frozen=True, slots=True)
class State:
    """A stateful stream: after each row, in stream order, the key's new state. Columns: the key, the state's columns.

    All updates of a row read the state as it was before it; the result is cast to the column's kind. `config`: the
    second input's rows (columns named like the state's) set the state, by time; they emit nothing themselves.
    """

    columns: tuple[StateColumn, ...]
    config: bool = False


@dataclass(frozen=True, slots=True)
class Significant:
    """Keeps a key's first row, and each row that differs enough from the last one kept, in stream order.

    With `metres`, columns are (latitude, longitude) in degrees and the haversine distance is at least metres. Else
    some column differs by at least `change`, or a missing value came or went.
    """

    columns: tuple[str, ...]
    metres: float | None = None
    change: float | None = None


# --- Where streams cross or end ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sync:
    """The phone ends here: rows are numbered, spooled, and arrive on the cloud exactly once, `device` added.

    A batch closes at `batch_rows`, `batch_bytes` or `within_us`, whichever is first. `evict` says what a full spool
    gives up; `priority` orders edges (higher first), `deadline_us` is how long a row is worth keeping (None: for ever).
    """

    name: str
    batch_rows: int = 60
    batch_bytes: int = 65_536
    within_us: int = 60_000_000
    codec: str = "auto"
    contract: Contract = LOSSLESS
    evict: str = "query"
    priority: int = 0
    deadline_us: int | None = None


@dataclass(frozen=True, slots=True)
class SyncBack:
    """Results go to the device in their `device` column. What follows it runs on that device, with commit="stable"."""

    name: str
    commit: str = "latest"


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A local sink: the program's callback of this name, or `evaluate`, gets the rows."""

    name: str


@dataclass(frozen=True, slots=True)
class Feed:
    """The near end of a cycle; see Feedback."""

    name: str


@dataclass(frozen=True, slots=True)
class Request:
    """Each row asks the device for one reading of a sensor declared with every_us = 0 (Sonora Fig 2).

    Output name: "request SENSOR". The reading arrives as the sensor's next row; its time is the request's. In
    `evaluate` the reading is the sensor's last given row with time <= the request's, and there is none before that.
    """

    sensor: str


Operator: TypeAlias = (
    Sensor | Timer | Appended | Feedback
    | Where | Select | KeyBy | Union
    | Zip | Combine | Join | Latest
    | WindowAggregate | Apply | Port | State | Significant
    | Sync | SyncBack | Subscribe | Feed | Request
)  # fmt: skip

OPERATORS: dict[str, type[Operator]] = {
    "sensor": Sensor, "timer": Timer, "appended": Appended, "feedback": Feedback,
    "where": Where, "select": Select, "key_by": KeyBy, "union": Union,
    "zip": Zip, "combine": Combine, "join": Join, "latest": Latest,
    "window": WindowAggregate, "apply": Apply, "port": Port, "state": State, "significant": Significant,
    "sync": Sync, "sync_back": SyncBack, "subscribe": Subscribe, "feed": Feed, "request": Request,
}  # fmt: skip

SOURCES = (Sensor, Timer, Appended, Feedback)
SINKS = (Subscribe, Feed, Request)  # nothing follows these; Sync and SyncBack may be followed


def operator_name(operator: Operator) -> str:
    """The operator's name in plans, explanations and errors."""
    return next(name for name, kind in OPERATORS.items() if kind is type(operator))


def input_name(operator: Sensor | Timer | Appended | Feedback) -> str:
    """The name under which a source's rows are pushed into a pipeline."""
    match operator:
        case Timer(name):
            return f"timer {name}"
        case Feedback(name):
            return f"feedback {name}"
    return operator.name


def output_name(operator: Sync | SyncBack | Subscribe | Feed | Request) -> str:
    """The name under which a pipeline hands out what reached this operator."""
    match operator:
        case Feed(name):
            return f"feedback {name}"
        case Request(sensor):
            return f"request {sensor}"
    return operator.name
