"""What the dashboard does by itself: look for what needs attention, tell webhooks, carry deletions out.

One task with a slow beat. Nothing an exchange or a page needs waits for it, so a beat that fails is counted by the log
and tried again. A deletion's rewriting of segments runs where the log's own disk work runs, between two groups.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial

from cloud_backend.coordinator.alerts import Message
from cloud_backend.coordinator.roster import Deletion
from cloud_backend.coordinator.webhooks import deliver
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views.alerts import conditions
from cloud_backend.dashboard.views.deletion import forget_derived
from cloud_backend.log.erasure import Erased, erase, prepare
from shared.errors import PeerError
from shared.identity import DeviceId

BEAT_S = 5.0
WhenIdle = Callable[[Callable[[], object]], Awaitable[None]]


class Upkeep:
    """`when_idle` runs work on the log while nothing is being appended."""

    def __init__(self, sources: Sources, when_idle: WhenIdle) -> None:
        self._sources = sources
        self._when_idle = when_idle
        self._looked: dict[DeviceId, int] = {}  # up to which change the results of a deleted device are gone
        self._logger = logging.getLogger("resurge.upkeep")

    async def run(self) -> None:
        """The background task; ends when cancelled."""
        while True:
            try:
                await self.beat()
            except Exception:  # the edge of a task: one busy database must not end all alerts for good
                self._logger.exception("a beat failed; the next one tries again")
            await asyncio.sleep(BEAT_S)

    def close(self) -> None:
        self._sources.close()

    async def beat(self) -> None:
        await asyncio.to_thread(self.watch)
        await asyncio.to_thread(self.tell)
        await self.delete()

    def watch(self) -> None:
        """Open and close alerts."""
        sources = self._sources
        sources.history.follow(seconds_max=1.0)
        for alert in sources.alerts.update(conditions(sources), sources.clock_us()):
            state = "began" if alert.ended_us is None else "ended"
            self._logger.warning("alert %s: %s", state, alert.detail)

    def tell(self) -> None:
        """Deliver what is due; a receiver that does not answer costs its time limit, and is tried again later."""
        for message in self._sources.alerts.due(self._sources.clock_us()):
            self._deliver(message)

    async def delete(self) -> None:
        """Carry out deletions that were asked for, and keep derived data of deleted devices from coming back."""
        change = self._sources.results.change()
        for deletion in self._sources.roster.deletions():
            after = self._looked.get(deletion.device, 0)
            await asyncio.to_thread(forget_derived, self._sources, deletion, after=after)
            self._looked[deletion.device] = change
            if deletion.done_us is None:
                await self._erase(deletion)

    async def _erase(self, deletion: Deletion) -> None:
        """One segment at a time, so that exchanges wait for one at most. A crash in between starts over and finds the
        rest."""
        log = self._sources.log
        done = Erased()
        segments: list[int] = []
        await self._when_idle(lambda: segments.extend(prepare(log)))
        for base in segments:
            await self._when_idle(
                partial(erase, log, base, deletion.device, through_incarnation=deletion.incarnation, done=done)
            )
        self._sources.roster.deletion_done(deletion, self._sources.clock_us(), asdict(done))

    def _deliver(self, message: Message) -> None:
        now_us = self._sources.clock_us()
        hook = message.webhook
        try:
            deliver(hook.url, message.body, secret=hook.secret, now_s=now_us // 1_000_000, private=hook.private)
        except PeerError as error:
            self._sources.alerts.failed(message, error.message, now_us)
        else:
            self._sources.alerts.delivered(message)
