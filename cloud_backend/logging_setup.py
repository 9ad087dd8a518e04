"""What a process of the cloud half says about itself, on standard error: lines for people, or JSON for a collector.

A JSON line has `at` (UTC, ISO 8601), `level`, `logger` and `message`, and `error` with the traceback if there is one.
Every line is one: an exception that nobody caught, a warning of Python's, and what a process that was started writes,
each are a line of their own. Lines hold names and numbers of ours; no request's body, no token and no coordinate is
ever logged. What others chose, a device's name say, is written so that it cannot end a line or move a cursor.

With a directory to keep them in, the last lines are there for the dashboard as well (`cloud_backend.process_log`).
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from cloud_backend.process_log import KeptLines
from shared.wire.untrusted_text import printable

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
LINE_BYTES_MAX = 1 << 20  # a longer one is cut in two


class PlainLines(logging.Formatter):
    """A message is one line of printable characters; a traceback follows it, indented, line by line. What a process
    that was started said stays as it is."""

    def format(self, record: logging.LogRecord) -> str:
        said = getattr(record, "said", None)
        return super().format(record) if said is None else str(said)

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: ExceptionInfo) -> str:
        return "\n".join(f"    {printable(line)}" for line in super().formatException(ei).split("\n"))


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        if (said := getattr(record, "said", None)) is not None and _is_json(said):
            return str(said)
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        text = json.dumps(line, ensure_ascii=False)
        return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def set_up_logging(*, as_json: bool, keep: Path | None = None) -> None:
    """Send all logging to standard error in this shape: as JSON ours from INFO up and everybody else's warnings, in
    plain lines warnings only. With `keep` the last of ours from INFO up are in files of this directory, too."""
    # A copy of the descriptor: `children_logged` has another one in its place for a while.
    stream = os.fdopen(os.dup(2), "w", 1, "utf-8", "backslashreplace", closefd=False) if as_json or keep else sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if as_json else PlainLines("%(name)s: %(message)s"))
    handler.setLevel(logging.INFO if as_json else logging.WARNING)
    handlers = [handler] if keep is None else [handler, KeptLines(keep)]
    logging.basicConfig(handlers=handlers, level=logging.WARNING, force=True)
    logging.getLogger("resurge").setLevel(logging.WARNING if handlers == [handler] and not as_json else logging.INFO)
    logging.captureWarnings(as_json)
    if as_json or keep is not None:
        sys.excepthook = _ended
        threading.excepthook = lambda given: _ended(given.exc_type, given.exc_value, given.exc_traceback)


@contextmanager
def children_logged(name: str) -> Iterator[None]:
    """Log what the processes that are started within this write to standard error, for as long as they live.

    A line that is a JSON object stays as it is; any other is a warning of the logger `name`, or among plain lines stays
    as it is, too. What this process itself writes there while it is within is logged as well."""
    reading, writing = os.pipe()
    before = os.dup(2)
    os.dup2(writing, 2)
    os.close(writing)
    threading.Thread(target=_log_lines, args=(reading, name), name=f"{name} log", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _log_lines(reading: int, name: str) -> None:
    logger = logging.getLogger(name)
    with os.fdopen(reading, "rb") as lines:
        while line := lines.readline(LINE_BYTES_MAX):
            text = line.decode(errors="backslashreplace").rstrip()
            if text:
                logger.warning("%s", text, extra={"said": text})


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _ended(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """As Python tells of an exception that nobody caught, but as one line."""
    if issubclass(kind, KeyboardInterrupt | SystemExit):
        return
    logging.getLogger("resurge").critical("%s: %s", kind.__name__, error, exc_info=(kind, error or kind(), trace))
