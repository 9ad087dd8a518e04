"""`termux-sensor` as one child process for all sensors of the device.

Termux:API has a single sensor stream device-wide: a second `termux-sensor` takes the sensors from the first and gets
nothing itself. So all sensors of a node share one child, started anew when the set or the period changes. It prints
indented JSON objects back to back, without a separator and without time stamps:

    { "BMP280 Pressure": { "values": [ 1004.22, 0, 0 ] } }{ "BMP280 Pressure": ...

The first may be `{}`, and plain text comes in between (what the script says when it is stopped). Each object is a
snapshot every -d milliseconds of values the app refreshes about every 60 ms, so motion sensors repeat values; such
repetitions are dropped, because three equal floating point numbers in a row are no second reading.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mobile_app.sensors.termux.calls import TermuxRefused, call

OBJECT_BYTES_MAX = 64 * 1024  # far more than fifty sensors take; beyond it the text is noise
PERIOD_MS_MIN = 66  # the app refreshes at about 15 Hz; asking more often only repeats
RESTART_AFTER_S = (1.0, 5.0, 30.0, 60.0)
CLEAN_UP_WITHIN_S = 10.0
SILENT_S = 30.0  # the first readout takes some seconds; a readout follows every period
CLOSE_WITHIN_S = 5.0
COMMAND = "termux-sensor"

Readout = Callable[[str, list[float], int], None]  # sensor name, values, boot time in microseconds


class JsonObjects:
    """Cuts a text that arrives in pieces into its JSON objects; whatever is between them is passed over."""

    def __init__(self) -> None:
        self._decoder = json.JSONDecoder()
        self._text = ""

    def feed(self, piece: str) -> Iterator[dict[str, Any]]:
        self._text += piece
        while (start := self._text.find("{")) >= 0:
            try:
                value, end = self._decoder.raw_decode(self._text, start)
            except json.JSONDecodeError as error:
                self._text = self._text[start:]
                if _incomplete(error, start, len(self._text)):
                    return
                self._text = self._text[1:]  # a brace of some other text
            else:
                self._text = self._text[end:]
                yield value
        self._text = ""


def _incomplete(error: json.JSONDecodeError, start: int, length: int) -> bool:
    """Whether the rest may still come. A literal that is cut off ("fal") is noticed at its beginning."""
    if length > OBJECT_BYTES_MAX:
        return False
    return error.msg.startswith("Unterminated string") or error.pos - start >= length - len("-Infinity")


def names_of(listing: Any) -> list[str]:
    """The sensor names of `termux-sensor -l`."""
    names = listing.get("sensors") if isinstance(listing, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TermuxRefused(f"{COMMAND} -l answered without a list of sensors")
    return names


class SensorStream:
    """The one child. `want` says what is to be read; a thread keeps a child running that reads it."""

    def __init__(self, readout: Readout) -> None:
        """`readout` is called from the stream's own thread."""
        self._readout = readout
        self._changed = threading.Condition()
        self._wanted: tuple[tuple[str, ...], int] = ((), 0)
        self._child: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self.trouble = ""
        self.starts = 0

    def want(self, names: Mapping[str, int]) -> None:
        """Read these sensors, {name: period in microseconds}; none: end. Returns at once."""
        period_ms = max(PERIOD_MS_MIN, min(names.values(), default=0) // 1000)
        with self._changed:
            if (wanted := (tuple(sorted(names)), period_ms)) == self._wanted:
                return
            self._wanted = wanted
            self._end_child()
            if names and self._thread is None:
                self._thread = threading.Thread(target=self._work, name=COMMAND, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """End the child and give the device its sensors back; waits a moment for both."""
        thread = self._thread
        self.want({})
        if thread is not None:
            thread.join(timeout=CLOSE_WITHIN_S)

    def _end_child(self) -> None:
        if self._child is not None and self._child.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # the whole group: the script waits for its own child
                os.killpg(self._child.pid, signal.SIGTERM)

    def _work(self) -> None:
        failures = 0
        while True:
            _clean_up()  # a child killed earlier leaves its sensors on, and a new one would stay silent
            with self._changed:
                names, period_ms = wanted = self._wanted
                if not names:
                    self._thread = None
                    return
                self._start(names, period_ms)
            failures = 0 if self._follow(SILENT_S + 2 * period_ms / 1000) else failures + 1
            with self._changed:
                if self._wanted != wanted:
                    failures = 0
                    continue
                self.trouble = self.trouble or f"{COMMAND} ended by itself; it is started again"
                self._changed.wait(RESTART_AFTER_S[min(failures, len(RESTART_AFTER_S) - 1)])

    def _start(self, names: tuple[str, ...], period_ms: int) -> None:
        self.starts += 1
        try:
            self._child = subprocess.Popen(
                [COMMAND, "-s", ",".join(names), "-d", str(period_ms)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            self._child, self.trouble = None, f"{COMMAND} cannot be started: {error}"

    def _follow(self, silent_s: float) -> bool:
        """Hand over everything the child says until it ends; whether it said anything. One that hangs is ended: it
        writes once a period as long as it lives."""
        child, objects, delivered = self._child, JsonObjects(), False
        if child is None or child.stdout is None:
            return False
        ready = select.poll()  # not select.select, which refuses descriptors above 1023
        ready.register(child.stdout, select.POLLIN)
        with child.stdout:
            while True:
                if not ready.poll(silent_s * 1000):
                    self.trouble = f"{COMMAND} has said nothing for {silent_s:.0f} s; it is started again"
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(child.pid, signal.SIGKILL)
                    break
                if not (piece := os.read(child.stdout.fileno(), 65536)):
                    break
                boot_us = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
                for value in objects.feed(piece.decode(errors="replace")):
                    delivered |= self._take(value, boot_us)
        child.wait()
        return delivered

    def _take(self, value: dict[str, Any], boot_us: int) -> bool:
        if refusal := value.get("error") or value.get("API_ERROR"):
            self.trouble = f"Termux:API says: {refusal}"
            return False
        delivered = False
        for name, reading in value.items():
            values = reading.get("values") if isinstance(reading, dict) else None
            if isinstance(values, list) and all(isinstance(number, int | float) for number in values):
                delivered, self.trouble = True, ""
                self._readout(name, values, boot_us)
        return delivered


def _clean_up() -> None:
    # It answers in plain words, "Sensor cleanup successful!", or in others when there was nothing to clean up.
    with contextlib.suppress(TermuxRefused):
        call((COMMAND, "-c"), patience_s=CLEAN_UP_WITHIN_S)
