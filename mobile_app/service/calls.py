"""Calls to the service, made beside the screen's thread: the screen asks, goes on drawing, and is told.

One thread, one connection, opened again whenever it is gone. A question with a key replaces the one that still waits
under it, so a slow service makes a screen older, never a queue longer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobile_app.service.connection import ServiceClient, ServiceGone
from shared.errors import ResurgeError

WAITING_MAX = 64  # more than any screen asks at once; beyond it the oldest question is dropped
OPEN_AGAIN_S = 0.5

Then = Callable[[Any], None]
Otherwise = Callable[[ResurgeError], None]
Deliver = Callable[[Callable[[], None]], None]  # runs a function in the screen's thread
Question = Callable[[ServiceClient], Any]


@dataclass(frozen=True, slots=True)
class _Call:
    question: Question
    then: Then
    otherwise: Otherwise


class Calls:
    """Asks the service of a home. `deliver` is handed what `then` and `otherwise` have to do."""

    def __init__(self, home: Path, deliver: Deliver) -> None:
        self._home = home
        self._deliver = deliver
        self._waiting: dict[object, _Call] = {}
        self._changed = threading.Condition()
        self._ended = False
        self._client: ServiceClient | None = None
        self._thread = threading.Thread(target=self._run, name="service-calls", daemon=True)
        self._thread.start()

    def ask(self, question: Question, then: Then, otherwise: Otherwise, *, key: object = None) -> None:
        with self._changed:
            self._waiting[key if key is not None else object()] = _Call(question, then, otherwise)
            while len(self._waiting) > WAITING_MAX:
                del self._waiting[next(iter(self._waiting))]
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()
        client = self._client
        if client is not None:
            client.close()
        self._thread.join(timeout=2.0)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                if self._ended:
                    return
                asked = self._waiting.pop(next(iter(self._waiting)))
            try:
                if self._client is None:
                    self._client = ServiceClient.open(self._home)
                answer = asked.question(self._client)
            except ServiceGone as gone:
                self._forget()
                self._tell(asked.otherwise, gone)
                with self._changed:
                    self._changed.wait_for(lambda: self._ended, timeout=OPEN_AGAIN_S)
            except ResurgeError as refusal:
                self._tell(asked.otherwise, refusal)
            else:
                self._tell(asked.then, answer)

    def _tell(self, function: Callable[[Any], None], value: Any) -> None:
        self._deliver(lambda: function(value))

    def _forget(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
