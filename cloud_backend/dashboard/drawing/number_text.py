"""Numbers and times as the pages say them. Pure; also Jinja's filters.

A time is rendered by the server in UTC and as a `<time>` element; the browser rewrites it in its own zone. How long
ago something was needs no zone and is said at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from shared.spool.advice import Advice, in_words

SECOND_US = 1_000_000
UNITS = ("B", "KB", "MB", "GB", "TB")


def number(value: float | None) -> str:
    return "unknown" if value is None else f"{math.floor(value):,}"


def rate(value: float) -> str:
    """Elements per second, with as many digits as one can compare."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 or not value else f"{value:.2f}"


def size(value: float | None) -> str:
    if value is None:
        return "unknown"
    for unit in UNITS:
        if value < 1000 or unit == UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError(value)


def duration(seconds: float | None) -> str:
    """A length of time in its two largest units at most."""
    if seconds is None:
        return "unknown"
    seconds = max(seconds, 0)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min"
    if seconds < 48 * 3600:
        hours, minutes = divmod(int(seconds // 60), 60)
        return f"{hours} h {minutes} min" if minutes and hours < 10 else f"{hours} h"
    return f"{seconds // 86400:.0f} days"


def ago(us: int | None, now_us: int) -> str:
    if us is None:
        return "never"
    seconds = (now_us - us) / SECOND_US
    return "just now" if seconds < 2 else f"{duration(math.floor(seconds))} ago"


def moment(us: int | None) -> Markup:
    """A point in time for the browser to show in its own zone; UTC until it does."""
    if us is None:
        return Markup('<span class="muted">never</span>')
    try:
        at = datetime.fromtimestamp(us / SECOND_US, UTC)
    except (OverflowError, ValueError, OSError):
        return Markup('<span class="muted">unknown</span>')
    return Markup('<time datetime="{}">{}</time>').format(
        at.isoformat(timespec="milliseconds"), at.strftime("%Y-%m-%d %H:%M:%S UTC")
    )


def percent(share: float | None) -> str:
    """Never 100 % while something is missing, never 0 % while something is there."""
    if share is None:
        return "none"
    if 0 < share < 1:
        return f"{min(max(share * 100, 0.1), 99.9):.1f} %" if share > 0.95 or share < 0.05 else f"{share * 100:.0f} %"
    return f"{share * 100:.0f} %"


def plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def short(identity: str, characters: int = 8) -> str:
    return identity[:characters]


def advised(advice: Advice) -> str:
    """What the size of a device's spool means."""
    return in_words(advice, duration, size)


FILTERS: dict[str, Callable[..., Any]] = {
    "advised": advised, "ago": ago, "duration": duration, "moment": moment, "number": number, "percent": percent,
    "plural": plural, "rate": rate, "short": short, "size": size,
}  # fmt: skip
