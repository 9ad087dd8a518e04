"""Ends users' code that does not return, so that one vertex fails and not its whole node.

The loop runs an operator inside `run`. A thread looks now and then; where it finds the same operator inside too often
it raises `_Interrupt` in the loop's thread. Python does so between two steps of Python code, whatever they are: so the
exception must not come after `run` has left, and nothing but the operator's own state may be touched inside.

    enter          inside = this call           under the lock
    look           fire once, if still inside   under the lock
    leave          inside = nobody, and take back what was fired and has not come yet     under the lock

It fires once for each call. So when it comes while `run` is leaving, the second attempt to leave is undisturbed. Time
is counted in looks: a process that was stopped for a while, or a phone that slept, finds nobody guilty.

Code inside a C function (a sleep, a read from a socket, a long numpy call) gets the exception when that returns. Until
then the loop is stuck and this node is silent, which its coordinator takes for a lost node.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from shared.hosting.watching import OperatorHangs, Result

LOOKS = 10  # within the time that an operator has
STUCK_LOOKS = 2 * LOOKS  # by then it should have been interrupted


class _Interrupt(BaseException):
    """Not an Exception: operators that catch those must not catch it."""


class Watchdog:
    def __init__(self, hanging_s: float, say: Callable[[str], None]) -> None:
        """`say` is called in the watchdog's thread."""
        self._every_s = hanging_s / LOOKS
        self._hanging_s = hanging_s
        self._say = say
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._calls = 0
        self._inside = ""  # what runs, while it does
        self._loop = 0  # the thread it runs in
        self._fired = False

    def run(self, work: Callable[[], Result], what: str) -> Result:
        """What the work gives; OperatorHangs where it was interrupted. For one thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="watchdog", daemon=True)
            self._thread.start()
        try:
            try:
                self._enter(what)
                return work()
            finally:
                self._leave()
        except _Interrupt:
            self._leave()  # it may have come before the first one was done
            raise OperatorHangs(
                f"it did not return within {self._hanging_s:g} s and was interrupted", code="operator-hangs"
            ) from None

    def close(self) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def _enter(self, what: str) -> None:
        with self._lock:
            self._calls += 1
            self._inside, self._loop, self._fired = what, threading.get_ident(), False

    def _leave(self) -> None:
        with self._lock:
            self._inside = ""
            if self._fired:
                _raise_in(self._loop, None)

    # --- the thread ------------------------------------------------------------------------------------------

    def _look(self) -> None:
        seen, looks = 0, 0
        while not self._end.wait(self._every_s):
            if not self._inside or self._calls != seen:
                seen, looks = self._calls, 0
                continue
            looks += 1
            if looks == LOOKS:
                self._interrupt(seen)
            elif looks == STUCK_LOOKS:
                self._say(
                    f"{self._inside} does not return and cannot be interrupted: until it does, this node is silent"
                )

    def _interrupt(self, call: int) -> None:
        """Interrupt this call, unless it has ended."""
        with self._lock:
            if self._inside and self._calls == call and not self._fired:
                self._fired = _raise_in(self._loop, _Interrupt)


def _raise_in(thread: int, kind: type[BaseException] | None) -> bool:
    """Raise this in a thread at its next step of Python code; None takes back what was not raised yet."""
    function = _set_async_exc()
    return function is not None and bool(function(thread, kind))


def _set_async_exc() -> Callable[[int, type[BaseException] | None], int] | None:
    """What Python offers for it; None where it cannot be had."""
    try:
        import ctypes
    except ImportError:  # built without it
        return None
    for library in (None, f"libpython{sys.version_info.major}.{sys.version_info.minor}.so"):
        try:
            function = ctypes.PyDLL(library).PyThreadState_SetAsyncExc
        except (AttributeError, OSError):  # an app on Android may not show its own symbols
            continue
        return lambda thread, kind: function(ctypes.c_ulong(thread), None if kind is None else ctypes.py_object(kind))
    return None
