"""Starting, watching, killing and always cleaning up the processes of `resurge up`.

Every process leads a group of its own, so that what it started (Spark's JVM and Python workers) goes with it, and
nothing else ever does: processes are ended by the group of a pid we started. If this process itself is killed, the
kernel ends its children (`PR_SET_PDEATHSIG`, Linux); elsewhere a stale one is found by its port at the next start.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from shared.errors import UsageError

PR_SET_PDEATHSIG = 1
STOP_TIMEOUT_S = 15.0
GROUP_TIMEOUT_S = 5.0  # for what a stopped process had started, to tidy up by itself: a JVM removes its directories
LOG_TAIL_BYTES = 2000
AGAIN_S, AGAIN_S_MAX = 1.0, 30.0  # until what ended is started again; twice as long each time it ends soon


@dataclass(slots=True)
class Process:
    """One process of the product. Its output goes to a file, appended over restarts."""

    name: str
    command: Sequence[str]
    output: Path
    environment: dict[str, str] = field(default_factory=dict)
    started_at: float = 0.0  # of the monotonic clock
    earlier_output_bytes: int = 0  # bytes of its output that are from earlier starts
    _running: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._running.pid if self._running else 0

    def start(self) -> None:
        self.output.parent.mkdir(parents=True, exist_ok=True)
        with self.output.open("ab") as output, _signals_held():
            self.earlier_output_bytes = output.seek(0, os.SEEK_END)
            self._running = _launch(self.command, output, os.environ | self.environment)
            self.started_at = time.monotonic()

    def exit_code(self) -> int | None:
        """None while it runs, or before it was started."""
        return self._running.poll() if self._running else None

    def kill(self) -> int:
        """End it as a power cut would (SIGKILL to the process alone); returns the pid it had."""
        pid = self.pid
        if self._running:
            self._running.kill()
            self._running.wait()
            # Its children lost their parent and end by themselves (a JVM at the end of its input, a worker at the
            # end of its socket). What is left is ended, so that a successor does not meet it.
            _signal_group(pid, signal.SIGKILL)
        return pid

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Ask it to end and wait; after the time-out end it. Returns whether it ended by itself."""
        if not self._running:
            return True
        pid = self.pid
        graceful = True
        if self._running.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self._running.terminate()
            try:
                self._running.wait(timeout_s)
            except subprocess.TimeoutExpired:
                graceful = False
                self._running.kill()
                self._running.wait()
        _await_group(pid, GROUP_TIMEOUT_S if graceful else 0.0)
        _signal_group(pid, signal.SIGKILL)
        return graceful

    def clear(self) -> None:
        """End what a process that ended by itself, or was killed by somebody else, has left behind."""
        _signal_group(self.pid, signal.SIGKILL)

    def tail(self) -> str:
        """The end of what it output since it was started."""
        if not self.output.exists():
            return ""
        output = self.output.read_bytes()[self.earlier_output_bytes :]
        return output[-LOG_TAIL_BYTES:].decode(errors="replace").strip()

    def ensure_running(self) -> None:
        code = self.exit_code()
        if code is not None:
            raise UsageError(
                f"{self.name} ended with code {code}; its output is in {self.output}. It ends with:\n{self.tail()}\n",
                code="up-process-ended",
            )


@dataclass(slots=True)
class Fleet:
    """All processes, ended in the reverse of the order they were started in, whatever happened."""

    processes: list[Process] = field(default_factory=list)

    def start(self, process: Process) -> Process:
        self.processes.append(process)
        process.start()
        return process

    def end(self) -> None:
        for process in reversed(self.processes):
            process.stop()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        # A second Ctrl-C must not interrupt the cleaning up; each stop has a time limit of its own.
        previous = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self.end()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


@dataclass(slots=True)
class Keeper:
    """Says which processes to start again: what ended, a moment later; later each time it ends soon after its start.

    What ends with an error of its own soon after its first start, or `again_max` times in a row soon after a start,
    would do so for ever: that is raised with its last words. So is a status in `final`, which means that starting it
    again does harm.
    """

    say: Callable[[str], None]
    final: Mapping[str, int] = field(default_factory=dict)  # name -> exit status
    soon_s: float = 10.0
    again_max: int = 5
    _ended: dict[str, int] = field(default_factory=dict)  # name -> how often in a row
    _due: dict[str, float] = field(default_factory=dict)

    def due(self, processes: Sequence[Process]) -> list[Process]:
        """Those to be started now."""
        now = time.monotonic()
        for process in processes:
            code = process.exit_code()
            if code is not None and process.name not in self._due:
                self._note(process, code, soon=now - process.started_at < self.soon_s, now=now)
        found = [each for each in processes if self._due.get(each.name, now + 1) <= now]
        for process in found:
            del self._due[process.name]
        return found

    def _note(self, process: Process, code: int, *, soon: bool, now: float) -> None:
        process.clear()
        first = process.name not in self._ended
        times = self._ended[process.name] = self._ended.get(process.name, 0) + 1 if soon else 1
        hopeless = soon and ((first and code > 0) or times >= self.again_max)
        if hopeless or code == self.final.get(process.name):
            process.ensure_running()
        wait_s = min(AGAIN_S_MAX, AGAIN_S * 2.0 ** (times - 1))
        self._due[process.name] = now + wait_s
        how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        self.say(f"{process.name} {how}; it is started again in {wait_s:.0f} s ({process.output})")


def wait_until(
    condition: Callable[[], bool],
    *,
    what: str,
    timeout_s: float,
    processes: Sequence[Process] = (),
    every_s: float = 0.1,
) -> None:
    """Wait for a condition; says at once when a process it depends on has ended."""
    end = time.monotonic() + timeout_s
    while not condition():
        for process in processes:
            process.ensure_running()
        if time.monotonic() > end:
            tails = "\n".join(f"{process.name} ({process.output}):\n{process.tail()}" for process in processes)
            raise UsageError(f"{what} did not happen within {timeout_s:.0f} s\n{tails}", code="up-timeout")
        time.sleep(every_s)


def python(*arguments: str) -> list[str]:
    """A command that runs this Python; -u so that output files are current when one looks."""
    return [sys.executable, "-u", *arguments]


def _launch(command: Sequence[str], output: IO[bytes], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
        preexec_fn=end_with_parent,  # noqa: PLW1509 - started before any thread
    )


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Let a request to end wait until a process is started and known. Right after a fork Python runs callbacks whose
    exceptions it ignores: a handler that raises there would have asked in vain."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """For a child, before it becomes another program: whoever started it may be killed without a word."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _await_group(pid: int, timeout_s: float) -> None:
    """Wait until nothing is left of a group whose leader has ended."""
    end = time.monotonic() + timeout_s
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < end:
            os.killpg(pid, 0)
            time.sleep(0.05)


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
