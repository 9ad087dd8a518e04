"""What ended a process of ours by a defect, kept where its person finds it: a text file per crash, newest few.

On a phone nobody reads a terminal. The service and the app write here, Health shows it, and its person may send it.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from pathlib import Path
from types import TracebackType

CRASHES = "crashes"
KEPT = 5


def _write(home: Path, where: str, text: str) -> Path:
    folder = home / CRASHES
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{where}.txt"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    for old in crashes(home)[KEPT:]:
        old.unlink(missing_ok=True)
    return path


def crashes(home: Path) -> list[Path]:
    """Newest first."""
    return sorted((home / CRASHES).glob("*.txt"), reverse=True)


def note_crash(home: Path, where: str, error: BaseException) -> Path:
    """Keep this error with its traceback; `where` is `service` or `app`."""
    return _write(home, where, f"python {sys.version}\n\n{''.join(traceback.format_exception(error))}")


def watch_for_crashes(home: Path, where: str) -> None:
    """From now on errors that no code takes are kept, of any thread. Native crashes are Android's own to report."""
    before, before_thread = sys.excepthook, threading.excepthook

    def main_thread(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, Exception):
            note_crash(home, where, error.with_traceback(trace))
        before(kind, error, trace)

    def other_thread(args: threading.ExceptHookArgs) -> None:
        if isinstance(args.exc_value, Exception):
            note_crash(home, where, args.exc_value)
        before_thread(args)

    sys.excepthook, threading.excepthook = main_thread, other_thread


def forget_crashes(home: Path) -> None:
    for path in crashes(home):
        path.unlink(missing_ok=True)
