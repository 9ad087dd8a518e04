"""What the dashboard does by itself: measure contracts, look for what needs attention, send messages to
webhooks, carry deletions out.

Three tasks with a slow beat. Receivers of messages are other people's machines and may take their time, so they have
a task and threads of their own, one for each receiver at a time. Nothing an exchange or a page needs waits for either;
a beat that fails is logged and tried again. A deletion's rewriting of segments runs where the log's own disk work runs,
between two groups.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial

from cloud_backend.coordinator.alerts import Alert, Message
from cloud_backend.coordinator.roster import Deletion
from cloud_backend.coordinator.webhooks import deliver
from cloud_backend.dashboard.deletion import forget_derived
from cloud_backend.dashboard.result_alerts import hand_over, judge
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.dashboard.views.alerts import conditions
from cloud_backend.log.erasure import ErasureCounts, erase, prepare
from shared.errors import PeerError
from shared.identity import DeviceId

BEAT_S = 5.0
RESULTS_BEAT_S = 1.0  # how late a rule on results notices what was published
REVIEW_EVERY = 60  # looks at results until all that holds is judged again
SENDERS = 4
WhenIdle = Callable[[Callable[[], object]], Awaitable[None]]


class Upkeep:
    """`when_idle` runs work on the log while nothing is being appended; `on_told` hears for which devices there is
    something to fetch."""

    def __init__(
        self, sources: Sources, when_idle: WhenIdle, on_told: Callable[[Collection[str]], None] = lambda _devices: None
    ) -> None:
        self._sources = sources
        self._on_told = on_told
        self._looks = 0  # at the results
        self._when_idle = when_idle
        self._forgotten: dict[DeviceId, int] = {}  # up to which change the results of a deleted device are gone
        self._senders = ThreadPoolExecutor(SENDERS, thread_name_prefix="webhook")
        self._logger = logging.getLogger("resurge.upkeep")

    async def run(self) -> None:
        """The background tasks; end when cancelled."""
        await asyncio.gather(
            self._repeat(self.beat), self._repeat(self.send_messages), self._repeat(self.judge_results, RESULTS_BEAT_S)
        )

    async def _repeat(self, beat: Callable[[], Awaitable[None]], every_s: float = BEAT_S) -> None:
        while True:
            try:
                await beat()
            except Exception:  # the edge of a task: one busy database must not end all alerts for good
                self._logger.exception("a beat failed; the next one tries again")
            await asyncio.sleep(every_s)

    def close(self) -> None:
        self._senders.shutdown(wait=False, cancel_futures=True)
        self._sources.close()

    async def beat(self) -> None:
        await in_thread(self.measure)
        await in_thread(self.watch)
        await self.delete()

    def measure(self) -> None:
        """Hold what has arrived against what was promised, and report the hours that are over."""
        self._sources.contracts.follow(self._sources.clock_us())

    def watch(self) -> None:
        """Open and close alerts."""
        sources = self._sources
        sources.history.follow(seconds_max=1.0)
        self._say(sources.alerts.update(conditions(sources), sources.clock_us()))

    def _say(self, changed: Iterable[Alert]) -> None:
        for alert in changed:
            state = "began" if alert.ended_us is None else "ended"
            self._logger.warning("alert %s: %s", state, alert.detail)

    async def judge_results(self) -> None:
        """Hold rules against what the results say by now, and let phones hear what came of it."""
        self._looks += 1
        self._say(await in_thread(judge, self._sources, review=self._looks % REVIEW_EVERY == 0))
        self._on_told(await in_thread(hand_over, self._sources))

    async def send_messages(self) -> None:
        """Send what is due, to several receivers at once; one that does not answer costs its time limit, and is tried
        again later."""
        due = await in_thread(self._sources.alerts.due, self._sources.clock_us())
        by_receiver: dict[int, list[Message]] = {}
        for message in due:
            by_receiver.setdefault(message.webhook.number, []).append(message)
        loop = asyncio.get_running_loop()
        await asyncio.gather(
            *(loop.run_in_executor(self._senders, self._send, messages) for messages in by_receiver.values())
        )

    async def delete(self) -> None:
        """Carry out deletions that were asked for, and keep derived data of deleted devices from coming back."""
        change = self._sources.results.change()
        for deletion in self._sources.roster.deletions():
            after = self._forgotten.get(deletion.device, 0)
            await in_thread(forget_derived, self._sources, deletion, after=after)
            self._forgotten[deletion.device] = change
            if deletion.done_us is None:
                await self._erase(deletion)

    async def _erase(self, deletion: Deletion) -> None:
        """One segment at a time, so that exchanges wait for one at most. A crash in between starts over and finds the
        rest."""
        log = self._sources.log
        done = ErasureCounts()
        segments: list[int] = []
        await self._when_idle(lambda: segments.extend(prepare(log)))
        for base in segments:
            await self._when_idle(
                partial(erase, log, base, deletion.device, through_incarnation=deletion.incarnation, done=done)
            )
        self._sources.roster.deletion_done(deletion, self._sources.clock_us(), asdict(done))

    def _send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            now_us = self._sources.clock_us()
            hook = message.webhook
            try:
                deliver(hook.url, message.body, secret=hook.secret, now_s=now_us // 1_000_000, private=hook.private)
            except PeerError as error:
                self._sources.alerts.failed(message, error.message, now_us)
                return  # the next would fail alike; each keeps its own time to be tried again
            self._sources.alerts.delivered(message, now_us)
