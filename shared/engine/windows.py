"""Which operator keeps windows of which kind."""

from __future__ import annotations

from collections.abc import Sequence

from shared.engine.count_windows import CountWindows
from shared.engine.operator import Operator, Use, key_of
from shared.engine.pools import GREATEST_TIME, LEAST_TIME, Aggregation, Applied, Part
from shared.engine.session_windows import Sessions
from shared.engine.sliding_windows import SlidingWindows
from shared.engine.time_windows import TimeWindows
from shared.engine.window_bounds import Calendar, Steps
from shared.language.windows import CalendarWindow, CountWindow, SessionWindow, TimeWindow, Window
from shared.plan import operators as op
from shared.plan.operators.windows import fields_of
from shared.plan.stream_type import StreamType


def window_of(use: Use, operator: op.WindowAggregate) -> Operator:
    source = use.inputs[0]
    parts = [(aggregate, fields_of(name, aggregate, source)) for name, aggregate in operator.aggregates]
    return windows_over(operator.window, parts, None, source, lateness_us=operator.lateness_us, complete=True)


def windows_over(
    window: Window,
    parts: Sequence[Part],
    applied: Applied | None,
    source: StreamType,
    *,
    lateness_us: int,
    complete: bool,
) -> Operator:
    """The operator that keeps windows of this kind."""
    key = key_of(source)
    match window:
        case TimeWindow() | CalendarWindow():
            whole = Aggregation(parts, source.schema, applied)
            bounds = Steps(window) if isinstance(window, TimeWindow) else Calendar(window)
            return TimeWindows(bounds, whole, key, lateness_us=lateness_us, complete=complete)
        case SessionWindow():
            bounded = Aggregation((*parts, LEAST_TIME, GREATEST_TIME), source.schema, applied)
            return Sessions(window, bounded, key, lateness_us=lateness_us, complete=complete)
        case CountWindow(size, hop) if size == hop:
            bounded = Aggregation((*parts, LEAST_TIME, GREATEST_TIME), source.schema, applied)
            return CountWindows(window, bounded, key, complete=complete)
    return SlidingWindows(window, parts, applied, source, key, complete=complete)
