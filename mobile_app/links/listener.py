"""One thread that waits at the gateway for news, so that a result is here seconds after it was made.

The loop says with `listen` what to ask with, while it is awake and its policies allow it, and with `rest` that it does
not want to know; then nothing is asked again, and a request that is under way ends by itself. News is a nudge: the loop
makes its next exchange at once. A nudge that brought nothing, from a gateway that lost its way or somebody who invents
them, makes the next wait begin later, up to a minute.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from mobile_app.links.link import LinkDown

PAUSE_S_MIN = 1.0
PAUSE_S_MAX = 60.0

Wait = Callable[[bytes], bool]  # blocks for a bounded time; whether something came


class Listener:
    """`nudge` is called from the thread when there is news, which `heard` then says once."""

    def __init__(self, wait: Wait, nudge: Callable[[], None]) -> None:
        self._wait = wait
        self._nudge = nudge
        self._changed = threading.Condition()
        self._body: bytes | None = None
        self._news_to = b""  # the request that was answered with news
        self._heard = False
        self._over = False
        self._came = False  # since it began to rest
        self._pause_s = PAUSE_S_MIN
        # A daemon: at the end of the process nobody waits for what may take a minute.
        self._thread = threading.Thread(target=self._run, name="listener", daemon=True)
        self._thread.start()

    def listen(self, body: bytes) -> None:
        """Ask with this, again and again. With the same as was answered with news: nothing came of that, so later."""
        with self._changed:
            if body != self._body:
                if body != self._news_to:
                    self._pause_s = PAUSE_S_MIN
                self._body = body
                self._changed.notify()

    def came(self) -> None:
        """The last news was good, though the next request is the same: it is asked at once."""
        with self._changed:
            self._news_to, self._pause_s, self._came = b"", PAUSE_S_MIN, True
            self._changed.notify()

    def rest(self) -> None:
        with self._changed:
            self._body = None

    def heard(self) -> bool:
        """Whether there was news since this was last asked."""
        with self._changed:
            heard, self._heard = self._heard, False
            return heard

    def close(self) -> None:
        with self._changed:
            self._over, self._body = True, None
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._body is None and not self._over:
                    self._changed.wait()
                if self._over:
                    return
                body = self._body
                if body == self._news_to:
                    self._rest_a_while()
                    if self._body != body:
                        continue
                    self._news_to = b""
            try:
                news = self._wait(body or b"")
            except LinkDown:
                with self._changed:
                    self._rest_a_while()
                continue
            with self._changed:
                if not news:
                    self._pause_s = PAUSE_S_MIN
                    continue
                self._heard, self._news_to = True, body or b""
                self._body = None
            self._nudge()

    def _rest_a_while(self) -> None:
        """Longer each time, until something else is to be asked with."""
        pause_s, self._pause_s = self._pause_s, min(PAUSE_S_MAX, 2 * self._pause_s)
        body, self._came = self._body, False
        self._changed.wait_for(lambda: self._over or self._came or self._body not in (None, body), pause_s)
