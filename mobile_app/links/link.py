"""A link carries one exchange body to the gateway and brings the answer back, or says why it could not.

Whoever is between (a relay, a proxy) can read what passes, but neither alter nor forge it: bodies are authenticated
end to end, and only HTTPS to the gateway hides them. A failed link is an ordinary event, so it is one exception
with a reason; the sender decides when to try again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from mobile_app.links.outages import Outages

REPLY_BYTES_MAX = 8 * 1024 * 1024


class LinkDown(Exception):
    """Nothing came back. The body may or may not have arrived: only a receipt tells."""


class Link(Protocol):
    """Calls block for a bounded time and come from one thread at a time."""

    def exchange(self, body: bytes) -> bytes:
        """The gateway's answer to this body. Raises LinkDown."""
        ...

    def enrol(self, request: bytes) -> tuple[int, bytes]:
        """HTTP status and body of the gateway's answer to an enrolment request. Raises LinkDown."""
        ...

    def reset(self) -> None:
        """Drop open connections: the network under them is gone."""
        ...

    def close(self) -> None: ...


class InterruptedLink:
    """A link under an outage schedule. An outage that begins before the answer is here takes the answer with it."""

    def __init__(
        self,
        link: Link,
        outages: Outages,
        *,
        started: float | None = None,  # on the clock; the schedule counts from here
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link = link
        self._outages = outages
        self._clock = clock
        self._start = clock() if started is None else started
        self._lock = threading.Lock()  # the courier exchanges while the loop asks how many outages there were

    def _second(self) -> float:
        return self._clock() - self._start

    def _down_since(self, second: float) -> bool:
        with self._lock:
            down = self._outages.overlap(second, self._second())
            if down:
                self._outages.refused()
            return down

    def outages_begun(self) -> int:
        with self._lock:
            return self._outages.begun(self._second())

    def outages_felt(self) -> int:
        with self._lock:
            return self._outages.felt

    def exchange(self, body: bytes) -> bytes:
        before = self._second()
        if self._down_since(before):
            self._link.reset()
            raise LinkDown("no network (scheduled outage)")
        answer = self._link.exchange(body)
        if self._down_since(before):
            self._link.reset()
            raise LinkDown("the network went away before the answer came (scheduled outage)")
        with self._lock:
            self._outages.answered()
        return answer

    def waiting(self, wait: Callable[[bytes], bool]) -> Callable[[bytes], bool]:
        """This way to wait for news, under the same outages."""

        def wait_unless_down(body: bytes) -> bool:
            before = self._second()
            if not self._is_down(before):
                news = wait(body)
                if not self._is_down(before):
                    return news
            raise LinkDown("no network (scheduled outage)")

        return wait_unless_down

    def _is_down(self, since: float) -> bool:
        """Whether there is or was an outage. Nobody notices it by this: only an exchange that fails counts."""
        with self._lock:
            return self._outages.overlap(since, self._second())

    def enrol(self, request: bytes) -> tuple[int, bytes]:
        if self._down_since(self._second()):
            raise LinkDown("no network (scheduled outage)")
        return self._link.enrol(request)

    def reset(self) -> None:
        self._link.reset()

    def close(self) -> None:
        self._link.close()
