"""One thread that does the blocking exchanges, so that a slow network never stops the reading of sensors.

The loop hands over one body at a time and later finds the answer, or the reason there is none, in `answers`.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from mobile_app.links.link import Link, LinkDown
from shared.errors import BrokenInvariant


class Courier:
    """Owns a link. `answers` holds at most one answer, since one exchange is outstanding at a time. `why_not` says why
    the device's policy lets nothing be sent now; empty while it does."""

    def __init__(self, link: Link, why_not: Callable[[], str] = str) -> None:
        self._link = link
        self._why_not = why_not
        self._bodies: queue.Queue[bytes | None] = queue.Queue(1)
        self.answers: queue.Queue[bytes | LinkDown | None] = queue.Queue()  # None: only a nudge
        # A daemon: at the end of the process nobody waits for an answer that may take twenty seconds.
        self._thread = threading.Thread(target=self._carry, name="courier", daemon=True)
        self._thread.start()

    def send(self, body: bytes) -> None:
        try:
            self._bodies.put_nowait(body)
        except queue.Full:
            raise BrokenInvariant("a second exchange before the first was answered", code="courier-busy") from None

    def _carry(self) -> None:
        while (body := self._bodies.get()) is not None:
            try:
                if why := self._why_not():
                    raise LinkDown(f"held back by this device's policy ({why})")
                self.answers.put(self._link.exchange(body))
            except LinkDown as down:
                self.answers.put(down)
            except Exception as error:  # the edge of a thread: the loop must hear of it, whatever it was
                self.answers.put(LinkDown(f"unexpected {type(error).__name__}: {error}"))
        self._link.close()

    def close(self) -> None:
        """Let the thread end when it is idle; an exchange in flight is abandoned."""
        try:
            self._bodies.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(timeout=0.2)
