"""How many rows a second come out of each operator of a plan, before anything was measured: a careful guess from what
the program says.

A source gives what it is read at. A window of no key gives one row per hop, however many went in; of keys nobody knows
how many there are, so it gives at most what it gets. A user's operator gives what it gets unless it says
`most_per_second`. A filter may let everything pass.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.language.windows import CalendarWindow, CountWindow, SessionWindow, TimeWindow, Window
from shared.plan import operators as op
from shared.plan.graph import Node, Plan
from shared.plan.stream_type import DEVICE

SECOND_US = 1_000_000
DAY_S = 86_400.0
PER_SECOND = 1.0  # rows, where a source does not say


def rates(plan: Plan) -> dict[int, float]:
    """Rows a second, by node of the plan."""
    found: dict[int, float] = {}
    for node in plan.nodes:
        found[node.id] = _given(plan, node, [found[number] for number in node.inputs])
    return found


def _given(plan: Plan, node: Node, comes: Sequence[float]) -> float:
    match node.operator:
        case op.Sensor(every_us=every_us) | op.Timer(every_us=every_us):
            return SECOND_US / every_us if every_us else PER_SECOND
        case op.Zip():
            return min(comes)
        case op.Latest():
            return comes[0]  # the other side is only looked up
        case op.WindowAggregate(window=window):
            return _of_windows(window, comes[0], one_key=_one_key(plan, node))
        case op.Apply() as apply:
            most = apply.type.most_per_second
            given = sum(comes)
            if apply.window is not None:
                given = _of_windows(apply.window, given, one_key=_one_key(plan, node))
            return given if most is None else min(given, most)
        case _:
            return sum(comes) if comes else PER_SECOND


def _one_key(plan: Plan, node: Node) -> bool:
    """On one device: whether all rows that the node reads are of one key."""
    return set(plan.node(node.inputs[0]).type.key) <= {DEVICE}


def _of_windows(window: Window, comes: float, *, one_key: bool) -> float:
    match window:
        case TimeWindow(size_us, hop_us):
            most = comes * max(1, size_us // hop_us)
            return min(most, SECOND_US / hop_us) if one_key else most
        case SessionWindow(gap_us):
            return min(comes, SECOND_US / gap_us) if one_key else comes
        case CalendarWindow():
            return min(comes, 1 / DAY_S) if one_key else comes
        case CountWindow(_, hop):
            return comes / hop
        case _:
            return comes
