"""Windows on streams: the verbs that open one, and those that only make sense on an open one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.errors import UsageError
from shared.language.aggregates import Aggregate
from shared.language.durations import microseconds
from shared.language.expressions import Binary, Column, Expression, Value, literal
from shared.language.windows import CountWindow, SessionWindow, SlidingTimeWindow, TimeWindow, Window, check_window
from shared.plan import operators as op
from shared.stream.drafts import Draft, draft, located
from shared.stream.formulas import Formula, column_name
from shared.stream.measures import aggregated
from shared.stream.zones import calendar_window, refuse_zone

DAY_US = 86_400_000_000

if TYPE_CHECKING:
    from shared.stream.stream import Stream


class Windowing:
    """Windows by time ("5s") or by count (count=12), for each key by itself."""

    draft: Draft

    @located
    def tumbling(
        self,
        size: str | None = None,
        *,
        count: int | None = None,
        lateness: str | None = None,
        zone: str | None = None,
    ) -> WindowedStream:
        """One window after another: `tumbling("1m")` or `tumbling(count=60)`. With a zone, days, weeks from Monday or
        months that begin at local midnight: `tumbling("1d", zone="Europe/Berlin")`, "1w", "1mo"."""
        if zone is not None:
            return self._windowed(calendar_window(size, count, zone), lateness)
        if _by_count(size, count):
            return self._windowed(CountWindow(count or 0, count or 0), lateness)
        return self._windowed(TimeWindow(microseconds(size or ""), microseconds(size or "")), lateness)

    @located
    def hopping(
        self,
        size: str | None = None,
        *,
        every: str | None = None,
        count: int | None = None,
        every_count: int | None = None,
        lateness: str | None = None,
        zone: str | None = None,
    ) -> WindowedStream:
        """Overlapping windows that start at regular steps: `hopping("1m", every="10s")`. Without a step: tumbling."""
        refuse_zone("hopping", zone)
        if _by_count(size, count):
            return self._windowed(
                CountWindow(count or 0, (count or 0) if every_count is None else every_count), lateness
            )
        return self._windowed(TimeWindow(microseconds(size or ""), microseconds(every or size or "")), lateness)

    @located
    def daily(self, days: int = 1, *, lateness: str | None = None) -> WindowedStream:
        """Views by day, of UTC: every day gives the last `days` of them, added up. Each row is folded once, into the
        view of its day, and a late one changes that view alone: `words.daily(7).aggregate(uses=rs.count())`."""
        if isinstance(days, bool) or not isinstance(days, int) or days < 1:
            raise UsageError(f"daily takes a number of days from 1, not {days!r}", code="window-size")
        return self._windowed(TimeWindow(days * DAY_US, DAY_US), lateness)

    @located
    def sliding(
        self,
        size: str | None = None,
        *,
        count: int | None = None,
        lateness: str | None = None,
        zone: str | None = None,
    ) -> WindowedStream:
        """One window per row, ending with it: `sliding("30s")`, or its last rows: `sliding(count=12)`."""
        refuse_zone("sliding", zone)
        if _by_count(size, count):
            return self._windowed(CountWindow(count or 0, 1), lateness)
        return self._windowed(SlidingTimeWindow(microseconds(size or "")), lateness)

    @located
    def session(self, gap: str, *, lateness: str | None = None) -> WindowedStream:
        """Rows until nothing comes for `gap`: `session(gap="5m")`."""
        return self._windowed(SessionWindow(microseconds(gap)), lateness)

    @located
    def absent(self, length: str) -> Stream:
        """A row for every silence of a key, once nothing has come for so long: `gps.absent("10m")`."""
        from shared.stream.stream import Stream

        counted = (("rows", Aggregate("count", ())),)
        sessions = draft(op.WindowAggregate(SessionWindow(microseconds(length)), counted), self.draft)
        columns: list[tuple[str, Expression]] = [(name, Column(name)) for name in sessions.type.schema.names]
        columns.append(("silent_since", Binary("-", Column(op.WINDOW_END), literal(microseconds(length)))))
        return Stream(draft(op.Select(tuple(columns)), sessions))

    def _windowed(self, window: Window, lateness: str | None) -> WindowedStream:
        check_window(window)
        return WindowedStream(self.draft, window, 0 if lateness is None else microseconds(lateness))


def _by_count(size: str | None, count: int | None) -> bool:
    if (size is None) == (count is None):
        raise UsageError("a window has a size in time ('5s') or in rows (count=12), one of them", code="window-size")
    return count is not None


class WindowedStream:
    """A stream cut into windows, waiting to hear what to make of each."""

    def __init__(self, source: Draft, window: Window, lateness_us: int) -> None:
        self.source = source
        self.window = window
        self.lateness_us = lateness_us

    @located
    def aggregate(self, *unnamed: object, **aggregates: Formula | Aggregate) -> Stream:
        """One row per window and key: `.aggregate(km=rs.path_km("lat", "lon"), points=rs.count())`. Aggregates are
        formulas: `.aggregate(rate=rs.sum("bytes") / rs.count(where=col.bytes > 0))`."""
        from shared.stream.stream import Stream

        if unnamed:
            raise UsageError(f"an aggregate needs a name: write aggregate(n={unnamed[0]!r})", code="aggregate-type")
        return Stream(aggregated(self.source, aggregates, self._opened))

    def _opened(self, source: Draft, aggregates: tuple[tuple[str, Aggregate], ...]) -> Draft:
        return draft(op.WindowAggregate(self.window, aggregates, self.lateness_us), source)

    @located
    def apply(
        self, operator: str, *, config: Stream | None = None, within: str | None = None, **parameters: Value
    ) -> Stream:
        """A registered operator type that makes one row of each window."""
        from shared.stream.stream import Stream, applied

        if self.lateness_us:
            raise UsageError(
                f"lateness= has no meaning before apply({operator!r}): its rows are not corrected. Leave it out, or "
                "use .aggregate(...) with a registered aggregate",
                code="window-lateness",
            )
        source = (Stream(self.source),)
        return applied(operator, source, window=self.window, config=config, within=within, parameters=parameters)

    @located
    def late(self) -> Stream:
        """The rows that come too late for these windows, as they are: `opened.late().sync_back("late")`."""
        from shared.stream.stream import Stream

        if isinstance(self.window, CountWindow):
            raise UsageError(
                "windows of so many rows take every row, so none is late; late() goes with windows by time",
                code="window-lateness",
            )
        return Stream(draft(op.Late(self.lateness_us), self.source))

    @located
    def mean(self, column: str) -> Stream:
        """Shorthand for aggregate(COLUMN=rs.mean(COLUMN)), as Sonora's windows have it."""
        column = column_name(column, where="mean")
        return self.aggregate(**{column: Aggregate("mean", (column,))})
