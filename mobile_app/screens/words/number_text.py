"""Numbers in words, as every screen says them."""

from __future__ import annotations

import math
from datetime import UTC, datetime


def count(number: float) -> str:
    """12 480"""
    return f"{round(number):,}".replace(",", "\u2009")


def size(number: float) -> str:
    """A count of bytes: 3.4 MB."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if number >= scale:
            return f"{number / scale:.1f} {unit}" if number < 100 * scale else f"{number / scale:.0f} {unit}"
    return f"{number:.0f} B"


def duration(seconds: float | None) -> str:
    """About this long, in at most two units: 3 h 20 min."""
    if seconds is None:
        return "\u2013"
    if seconds < 1:
        return "0 s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    if minutes < 10:
        whole, rest = divmod(round(seconds), 60)
        return f"{whole} min {rest} s" if rest else f"{whole} min"
    if minutes < 60:
        return f"{minutes:.0f} min"
    hours, rest = divmod(round(minutes), 60)
    if hours < 24:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    days, rest = divmod(round(minutes / 60), 24)
    if days < 10 and rest:
        return f"{days} d {rest} h"
    return f"{days} days" if days < 1000 else "years"


def stopwatch(seconds: float) -> str:
    """00:12:07"""
    whole = max(0, int(seconds))
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def rate(hertz: float | None) -> str:
    """Readings per second, or the time between two where that reads better."""
    if hertz is None:
        return "\u2013"
    if hertz <= 0:
        return "0 Hz"
    if hertz < 0.95:
        return f"every {duration(1 / hertz)}"
    return f"{hertz:.0f} Hz" if hertz >= 9.95 else f"{hertz:.1f} Hz"


def hertz(frequency: float, resolution: float) -> str:
    """A frequency, to a tenth of what can be told apart."""
    digits = max(0, math.ceil(-math.log10(resolution / 10)))
    return f"{frequency:.{digits}f} Hz"


def number(value: float) -> str:
    """A reading, with as many digits as mean something on a phone."""
    if not math.isfinite(value):
        return "\u2013"
    magnitude = abs(value)
    if magnitude and (magnitude >= 1e6 or magnitude < 1e-3):
        return f"{value:.2e}"
    for limit, digits in ((1000, 0), (100, 1), (10, 2)):
        if magnitude >= limit:
            return f"{value:.{digits}f}".replace("-", "\u2212")
    return f"{value:.3f}".replace("-", "\u2212")


def clock_time(time_us: int, *, seconds: bool = False) -> str:
    """Wall-clock time here: 14:05."""
    return datetime.fromtimestamp(time_us / 1e6).astimezone().strftime("%H:%M:%S" if seconds else "%H:%M")


def day(time_us: int) -> str:
    """A date that takes little room: 16 Nov."""
    at = datetime.fromtimestamp(time_us / 1e6, UTC)
    return f"{at.day} {at.strftime('%b')}"


def words(name: str) -> str:
    """A name of a program, as a person reads it: My trips."""
    spaced = name.strip("_").replace("_", " ")
    return spaced[:1].upper() + spaced[1:]


def moment(time_us: int) -> str:
    """Date and time here: 16 Nov, 14:05."""
    at = datetime.fromtimestamp(time_us / 1e6).astimezone()
    return f"{at.day} {at.strftime('%b, %H:%M')}"


def ago(seconds: float | None) -> str:
    if seconds is None:
        return "never"
    return "just now" if seconds < 2 else f"{duration(seconds)} ago"


def plural(number: float, one: str, many: str = "") -> str:
    """1 reading, 12 readings."""
    return f"{count(number)} {one if round(number) == 1 else many or one + 's'}"
