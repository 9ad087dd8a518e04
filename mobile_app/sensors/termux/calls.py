"""Calls to Termux:API, one at a time, from one thread.

The API app works on its main thread: a second call waits for the first, and killing one that waits for a position
blocks every other for half a minute. From Android 14 on a call takes about a second. So all calls of a node stand in
one line: each has its own period, the one most overdue goes next, failures double its period up to five minutes, and
no call is killed before `PATIENCE_S`. Whoever wants an answer finds the newest one here and never waits.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PATIENCE_S = 40.0  # `termux-location -r once` gives up after 30 s by itself; killing it earlier blocks the API
FAILED_PERIOD_S_MAX = 300.0
TEXT_MAX = 200

_one_at_a_time = threading.Lock()

Answered = Callable[[Any, float], None]  # the parsed answer, and the boot time in seconds at which it came


class TermuxRefused(Exception):
    """The API answered, but with an error: a permission that is missing, a position that cannot be had."""


@dataclass(slots=True, eq=False)
class Errand:
    """One command that is called again and again. `trouble` is empty after an answer."""

    command: tuple[str, ...]
    every_s: float
    answered: Answered
    due: float = 0.0
    failures: int = 0
    trouble: str = ""


def parse_answer(text: str) -> Any:
    """The JSON of a call. The two shapes an error comes in become `TermuxRefused`."""
    try:
        answer = json.loads(text)
    except ValueError as error:
        shown = text.strip()[:TEXT_MAX] or "nothing"
        raise TermuxRefused(
            f"Termux:API answered {shown!r}, which is not JSON; is the Termux:API app there?"
        ) from error
    if isinstance(answer, dict):
        for key in ("error", "API_ERROR"):
            if key in answer:
                raise TermuxRefused(f"Termux:API says: {str(answer[key])[:TEXT_MAX]}")
    return answer


def call(command: tuple[str, ...], *, patience_s: float = PATIENCE_S) -> Any:
    """Run one call to its end and return its answer. Raises TermuxRefused."""
    try:
        with _one_at_a_time:
            out, wrong = _run(command, patience_s)
    except FileNotFoundError as error:
        raise TermuxRefused(
            f"{command[0]} is not installed; `pkg install termux-api`, and the Termux:API app"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TermuxRefused(f"{command[0]} did not answer within {patience_s:.0f} s: {error}") from error
    return parse_answer(out.decode(errors="replace") or wrong.decode(errors="replace"))


def _run(command: tuple[str, ...], patience_s: float) -> tuple[bytes, bytes]:
    """What it wrote. One that hangs is ended with all it started: the commands are scripts that wait for a child."""
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        return child.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        raise


class Calls:
    """The line of errands. The thread starts with the first and ends with `close` or when none is left."""

    def __init__(self, run: Callable[[tuple[str, ...]], Any] = call) -> None:
        self._run = run
        self._errands: list[Errand] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, errand: Errand) -> None:
        with self._changed:
            self._errands.append(errand)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="termux-api", daemon=True)
                self._thread.start()
            self._changed.notify()

    def remove(self, errand: Errand) -> None:
        with self._changed:
            if errand in self._errands:
                self._errands.remove(errand)
            self._changed.notify()

    def close(self) -> None:
        """No further call begins. One that is under way ends by itself."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                if self._closed or not self._errands:
                    self._thread = None
                    return
                errand = min(self._errands, key=lambda waiting: waiting.due)
                wait_s = errand.due - time.monotonic()
                if wait_s > 0:
                    self._changed.wait(wait_s)
                    continue
            self._do(errand)

    def _do(self, errand: Errand) -> None:
        try:
            errand.answered(self._run(errand.command), time.clock_gettime(time.CLOCK_BOOTTIME))
            errand.failures, errand.trouble = 0, ""
        except TermuxRefused as refused:
            errand.failures += 1
            errand.trouble = str(refused)
        period_s = errand.every_s * 2**errand.failures
        errand.due = time.monotonic() + min(period_s, max(FAILED_PERIOD_S_MAX, errand.every_s))
