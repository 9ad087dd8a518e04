"""Drives the sender: makes what it asks for durable, then hands its bodies to the courier, and the answers back.

This is the one place where a node's side of the contract of `shared/sync/step.py` is kept: nothing of a step is
sent before everything it wants stored is stored.
"""

from __future__ import annotations

import queue

from mobile_app.links.courier import Courier
from mobile_app.links.link import LinkDown
from mobile_app.node.stores import Stores
from shared.errors import BrokenInvariant
from shared.sync.persist import Persist, StoreContact, StoreEdge, StorePlan, StoreResults, SyncSpool
from shared.sync.sender import Sender


class Uplink:
    """What the sender asks for becomes durable in `stores`."""

    def __init__(self, sender: Sender, courier: Courier, stores: Stores) -> None:
        self.sender = sender
        self._courier = courier
        self._stores = stores
        self._answer: bytes | LinkDown | None = None
        self._body_bytes = 0
        self.outstanding = False  # a body is with the courier
        self.exchanges = 0  # answered
        self.failures = 0
        self.bytes_sent = 0  # of answered exchanges
        self.last_failure = ""

    def step(self, now: float) -> list[object]:
        """Do whatever is due; returns what the program should know (`shared/sync/events.py`)."""
        self._take_answer(now)
        self.sender.wake(now)
        while step := self.sender.step(now):
            for item in step.persist:
                self._store(item)
            for body in step.send:
                self._body_bytes = len(body)
                self.outstanding = True
                self._courier.send(body)
        return self.sender.events()

    def next_wake(self) -> float:
        return self.sender.next_wake()

    def wait(self, seconds: float) -> None:
        """Sleep until an answer is here, at most this long."""
        if self._answer is None:
            try:
                self._answer = self._courier.answers.get(timeout=max(0.0, seconds))
            except queue.Empty:
                return

    def wake(self) -> None:
        """End the wait, from another thread: there is something else to do."""
        self._courier.answers.put(None)

    def _take_answer(self, now: float) -> None:
        self.wait(0.0)
        answer, self._answer = self._answer, None
        if answer is None:
            return
        self.outstanding = False
        if isinstance(answer, LinkDown):
            self.failures += 1
            self.last_failure = str(answer)
            self.sender.fail(now)
        else:
            self.exchanges += 1
            self.bytes_sent += self._body_bytes
            self.sender.receive(answer, now)

    def _store(self, item: Persist) -> None:
        stores = self._stores
        if isinstance(item, SyncSpool):
            stores.spool.sync()
        elif isinstance(item, StoreEdge):
            stores.edges.store(item.name, item.schema)
        elif isinstance(item, StoreResults):
            stores.results.apply((result.seq, result.body) for result in item.results)
        elif isinstance(item, StorePlan):
            stores.plans.store(item.version, item.plan)
        elif isinstance(item, StoreContact):
            stores.contact.confirm(item.edge)
        else:
            raise BrokenInvariant(f"the sender wants {type(item).__name__} stored", code="uplink-persist")

    def close(self) -> None:
        self._courier.close()
