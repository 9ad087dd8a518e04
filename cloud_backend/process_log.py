"""The last lines that a process of the cloud half said, kept in its own directory for the dashboard to read.

    process-log.jsonl       the newest lines, one JSON object each: at_us, level, logger, pid, message, and error
    process-log.1.jsonl     those before them, replaced when the first is full

Two files of `BYTES_MAX` at most, whatever a process says. A line is written at once and whole, so the last words of a
process that is killed are there; none is synced, and a disk that takes none stops nothing: standard error has them.
Several processes may write to one directory, a standby beside the one it waits for: whoever finds the file full and
gets its lock moves it away, and nobody waits for the lock.

What opens a door is not written: links that pair or sign in, passwords, tokens.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shared.wire.untrusted_text import printable

FILE, BEFORE = "process-log.jsonl", "process-log.1.jsonl"
BYTES_MAX = 1 << 20  # of each of the two files
MESSAGE_MAX, ERROR_MAX = 4_000, 12_000  # characters
LEVELS = ("debug", "info", "warning", "error", "critical")
FOLLOWING_MAX = 200  # lines of a JVM's stack trace that are put together again
_HIDDEN = "***"
_SECRETS = (
    (re.compile(r"(resurge://)[^\s'\"]+"), rf"\1{_HIDDEN}"),
    (re.compile(r"(/signin/once/)[^\s'\"/?]+"), rf"\1{_HIDDEN}"),
    (re.compile(r"(\w://[^\s/:@]*:)[^\s/@]+(@)"), rf"\1{_HIDDEN}\2"),
    (re.compile(r"(\b(?:bearer|basic)\s+)[^\s'\",;]+", re.I), rf"\1{_HIDDEN}"),
    (
        re.compile(
            r"((?:password|passwd|secret|token|cookie|resurge_session|authorization|access_?key)[\w.-]*['\"]?\s*[=:]\s*['\"]?)"
            r"(?!(?:bearer|basic)\s)[^\s'\",;&}]+",
            re.I,
        ),
        rf"\1{_HIDDEN}",
    ),
)
# As Spark's own pattern has it: 26/11/19 08:00:00 WARN TaskSetManager: Lost task 0.0
_JVM = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ([^\s:]+): (.*)", re.S)
_JVM_LEVELS = {"TRACE": "debug", "WARN": "warning", "FATAL": "critical"}
# What every start of Spark says, and nobody has to look at.
_GREETINGS = (
    "Using Spark's default log4j profile", "Setting default log level to", "To adjust logging level use",
    "Picked up JAVA_TOOL_OPTIONS",
)  # fmt: skip
_FOLLOWS = re.compile(r"\s|Caused by: |Suppressed: ")


@dataclass(frozen=True, slots=True)
class Line:
    at_us: int
    level: str
    logger: str
    pid: int
    message: str
    error: str = ""  # a traceback, of several lines

    def has(self, text: str) -> bool:
        """Whether this text, in small letters, stands anywhere in it."""
        return any(text in each.lower() for each in (self.message, self.logger, self.error))


class KeptLines(logging.Handler):
    """Keeps what is logged. Its formatter is for tracebacks only."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory
        self.setFormatter(logging.Formatter())

    def emit(self, record: logging.LogRecord) -> None:
        try:
            keep(self._directory, self._line(record))
        except OSError:
            pass  # a full disk, or one that is gone: said on standard error all the same
        except Exception:
            self.handleError(record)

    def _line(self, record: logging.LogRecord) -> Line:
        line = Line(
            time.time_ns() // 1000, record.levelname.lower(), record.name, os.getpid(), record.getMessage(),
            self.formatter.formatException(record.exc_info) if record.exc_info and self.formatter else "",
        )  # fmt: skip
        said = getattr(record, "said", None)
        return line if said is None else _of_child(line, said)


def keep(directory: Path, line: Line) -> None:
    """Write one line, without what must not be read there. OSError where the disk does not take it."""
    fields: dict[str, Any] = {
        "at_us": line.at_us, "level": line.level, "logger": line.logger, "pid": line.pid,
        "message": _bounded(printable(without_secrets(line.message.expandtabs(4))), MESSAGE_MAX),
    }  # fmt: skip
    if line.error:
        text = without_secrets(line.error.expandtabs(4))
        fields["error"] = _bounded("\n".join(printable(each) for each in text.splitlines()), ERROR_MAX, end=True)
    data = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    handle, size = _opened(directory, len(data))
    try:
        if size and os.pread(handle, 1, size - 1) != b"\n":
            data = b"\n" + data  # what was being written when the power went is a line of its own
        os.write(handle, data)
    finally:
        os.close(handle)


def newest(directory: Path) -> Iterator[Line]:
    """What is kept in a directory, newest first. OSError where the files cannot be read; nothing where none are."""
    following: list[str] = []
    for text in _texts(directory):
        line = _parsed(text)
        if line is None:
            continue
        if not line.error and _FOLLOWS.match(line.message) and len(following) < FOLLOWING_MAX:
            following.append(line.message)
            continue
        if following:
            line = replace(line, error="\n".join([*([line.error] if line.error else []), *reversed(following)]))
            following = []
        yield line


def changed_ns(directory: Path) -> int:
    """When something was last said there; 0 where nothing was."""
    try:
        return (directory / FILE).stat().st_mtime_ns
    except OSError:
        return 0


def without_secrets(text: str) -> str:
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def _opened(directory: Path, more: int) -> tuple[int, int]:
    """The file to write to and its size; the full one moves away first, unless somebody else is just moving it."""
    path = directory / FILE
    while True:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(handle).st_size
        if not size or size + more <= BYTES_MAX or not _locked(handle):
            return handle, size
        try:
            if os.path.samestat(os.fstat(handle), path.stat()):
                path.replace(directory / BEFORE)
        except FileNotFoundError:
            pass  # moved by somebody else meanwhile
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _texts(directory: Path) -> Iterator[bytes]:
    files = []
    try:
        for name in (FILE, BEFORE):
            try:
                files.append((directory / name).open("rb"))
            except FileNotFoundError:
                continue
        if len(files) == 2 and os.path.samestat(*(os.fstat(each.fileno()) for each in files)):
            files.pop().close()  # just moved: what was before it is gone
        for file in files:
            yield from reversed(file.read(2 * BYTES_MAX).splitlines())
    finally:
        for file in files:
            file.close()


def _parsed(text: bytes) -> Line | None:
    """A line as any version writes it; None where it is none, because it is torn."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("at_us"), int):
        return None
    level, logger, message, error = words = [value.get(name, "") for name in ("level", "logger", "message", "error")]
    if not all(isinstance(each, str) for each in words):
        return None
    pid = value.get("pid")
    pid = pid if isinstance(pid, int) else 0
    return Line(value["at_us"], level if level in LEVELS else "warning", logger, pid, message, error)


def _of_child(line: Line, said: str) -> Line:
    """What a process that this one started wrote: one of our JSON lines, one of the JVM's plain ones, or any words."""
    try:
        value = json.loads(said)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        fields: dict[str, Any] = {name: str(value[name]) for name in ("logger", "message", "error") if value.get(name)}
        level = str(value.get("level", "")).lower()
        return replace(line, level=level if level in LEVELS else "warning", **fields)
    if (found := _JVM.fullmatch(said)) is not None:
        level, logger, message = found.groups()
        return replace(line, level=_JVM_LEVELS.get(level, level.lower()), logger=logger, message=message)
    return replace(line, level="info" if said.startswith(_GREETINGS) else line.level, message=said)


def _bounded(text: str, characters: int, *, end: bool = False) -> str:
    """So much of it; of a traceback the end, which says what happened."""
    if len(text) <= characters:
        return text
    return f"… {text[-characters:]}" if end else f"{text[:characters]} …"
