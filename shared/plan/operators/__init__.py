"""The closed set of operator types that a plan is made of: frozen data with the rules about it, no code that runs rows.

Every stream has a *key*, the columns whose values keep rows apart: windows, states, joins and user operators work on
each key by itself. A stream that comes from a device is keyed by `device` from the start, on the phone and after
`sync`, so moving `sync` moves work and changes no meaning; `KeyBy` chooses another key. Key columns are always part of
a stream's schema. On the device `device` is one constant column that the engine adds where something reads it; it never
travels, the cloud adds it from the frame's source. Behind a `Gather` rows of several devices have met: from there on it
travels like any other column.

A stream also has `time`, the event time in microseconds. Where an operator says nothing else it keeps its rows' times,
numbers and order, and its frontier is the least of its inputs'.

*Merge modes* of operators that bring several edges together: `ordered` holds rows until the frontier passes them and
emits them by (time, edge, sequence number), the edge being (device, input position): the same at every replay. `logged`
emits by arrival and writes the interleaving down, so that a replay repeats it. `arrival` emits by arrival: everything
downstream must roll back with it.

A new operator is a class here with its rules (shared.plan.operators.operator), an entry in the engine
(shared.engine.lowering) and a verb (shared.stream.stream).
"""

from __future__ import annotations

from shared.plan.operators.ends import COMMITS, End, Feed, Gather, Request, Subscribe, Sync, SyncBack
from shared.plan.operators.operator import MERGES, Operator, Origins
from shared.plan.operators.pairs import Combine, FollowedBy, Join, Latest, Zip
from shared.plan.operators.rows import KeyBy, Select, Union, Where
from shared.plan.operators.sources import TICK, Appended, Feedback, Sensor, Source, Timer
from shared.plan.operators.state import Distinct, Significant, State, StateColumn
from shared.plan.operators.user import Apply, Port
from shared.plan.operators.windows import Late, WindowAggregate
from shared.plan.stream_type import COMPLETE, DEVICE, WINDOW_END, WINDOW_START

_TYPES: tuple[type[Operator], ...] = (
    Sensor, Timer, Appended, Feedback,
    Where, Select, KeyBy, Union,
    Zip, Combine, Join, Latest,
    WindowAggregate, Late, Apply, Port, State, Significant, Distinct, FollowedBy,
    Sync, Gather, SyncBack, Subscribe, Feed, Request,
)  # fmt: skip
OPERATORS: dict[str, type[Operator]] = {each.kind: each for each in _TYPES}

SINKS = (Subscribe, Feed, Request)  # nothing follows these; Sync, Gather and SyncBack may be followed

__all__ = [
    "COMMITS", "COMPLETE", "DEVICE", "MERGES", "OPERATORS", "SINKS", "TICK", "WINDOW_END", "WINDOW_START",
    "Appended", "Apply", "Combine", "Distinct", "End", "Feed", "Feedback", "FollowedBy", "Gather", "Join", "KeyBy",
    "Late", "Latest", "Operator", "Origins", "Port", "Request", "Select", "Sensor", "Significant", "Source", "State",
    "StateColumn", "Subscribe", "Sync", "SyncBack", "Timer", "Union", "Where", "WindowAggregate", "Zip",
]  # fmt: skip
