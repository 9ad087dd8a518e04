"""What gateway and Spark said lately, out of the files that each of them keeps (`cloud_backend.process_log`).

The gateway's are in its home, those of Spark in the directory where the gateway finds the job's status: a job on
another machine keeps its own there, and has none here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cloud_backend import process_log
from cloud_backend.dashboard.sources import PROGRAM, Sources
from cloud_backend.process_log import LEVELS, Line


def lines(
    sources: Sources,
    *,
    part: str = "",
    level: str = "info",
    text: str = "",
    before_us: int | None = None,
    limit: int = 100,
) -> dict[str, Any]:
    """Newest first; `before_us` goes on where the last answer ended. Lines of one microsecond stay together."""
    found: list[dict[str, Any]] = []
    more = False
    for name, line in _matching(sources, part, level, text):
        if before_us is not None and line.at_us >= before_us:
            continue
        if len(found) >= limit and line.at_us != found[-1]["at_us"]:
            more = True
            break
        found.append(_shown(name, line))
    return {"lines": found, "before_us": found[-1]["at_us"] if more else None, "parts": parts(sources)}


def parts(sources: Sources) -> list[dict[str, Any]]:
    """Each part, whether the gateway knows where its lines would be, and whether there are some it can read."""
    return [
        {"part": part, "known": directory is not None, "kept": directory is not None and _is_readable(directory)}
        for part, directory in _directories(sources).items()
    ]


def version(sources: Sources) -> list[int]:
    """What differs after something was said."""
    return [process_log.changed_ns(directory) for directory in _directories(sources).values() if directory is not None]


def as_text(sources: Sources, *, part: str = "", level: str = "info", text: str = "") -> bytes:
    """All that is kept, oldest first, as a file to send to somebody."""
    found = [_written(name, line) for name, line in _matching(sources, part, level, text)]
    return "".join(reversed(found)).encode("utf-8", "replace")


def _directories(sources: Sources) -> dict[str, Path | None]:
    return {"gateway": sources.home, "spark": sources.stores().get(PROGRAM)}


def _matching(sources: Sources, part: str, level: str, text: str) -> Iterator[tuple[str, Line]]:
    named = [
        _of(name, directory)
        for name, directory in _directories(sources).items()
        if directory is not None and part in ("", name)
    ]
    lowest, text = LEVELS.index(level), text.lower()
    for name, line in heapq.merge(*named, key=lambda each: -each[1].at_us):
        if LEVELS.index(line.level) >= lowest and (not text or line.has(text)):
            yield name, line


def _of(part: str, directory: Path) -> Iterator[tuple[str, Line]]:
    try:
        for line in process_log.newest(directory):
            yield part, line
    except OSError:  # another user's: `parts` says so
        return


def _is_readable(directory: Path) -> bool:
    try:
        with (directory / process_log.FILE).open("rb"):
            return True
    except OSError:
        return False


def _shown(part: str, line: Line) -> dict[str, Any]:
    return {
        "at_us": line.at_us, "part": part, "level": line.level, "logger": line.logger, "pid": line.pid,
        "message": line.message, "error": line.error,
    }  # fmt: skip


def _written(part: str, line: Line) -> str:
    error = "".join(f"\n    {each}" for each in line.error.splitlines())
    return f"{_time(line.at_us)} {part} {line.level} {line.logger}[{line.pid}]: {line.message}{error}\n"


def _time(at_us: int) -> str:
    try:
        return datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return "?"
