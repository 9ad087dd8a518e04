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
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import partial

from cloud_backend.coordinator.alerts import Alert, Message
from cloud_backend.coordinator.followers import FOLLOWERS_MAX
from cloud_backend.coordinator.roster import Deletion
from cloud_backend.coordinator.webhooks import deliver
from cloud_backend.dashboard.deletion import forget_derived, held_by
from cloud_backend.dashboard.following import due, keep_up
from cloud_backend.dashboard.result_alerts import hand_over, judge
from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.dashboard.views.alerts import conditions
from cloud_backend.log.erasure import ErasureCounts, erase, prepare
from cloud_backend.log.kafka.copy import LogCopy
from cloud_backend.log.kafka.topics import Unreachable
from shared.errors import PeerError
from shared.identity import DeviceId

BEAT_S = 5.0
RESULTS_BEAT_S = 1.0  # how late a rule on results notices what was published
REVIEW_EVERY = 60  # looks at results until all that holds is judged again
SENDERS = 4
SAID_MAX = 20  # alerts of one look with a line each: a thousand would push all else out of the log that is kept
LATE_US = 20_000_000  # after a device was refused, a batch of it may still be committed
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
        self._following: set[str] = set()  # who is being sent something now
        self._forgotten: dict[DeviceId, int] = {}  # up to which change the results of a deleted device are gone
        self._senders = ThreadPoolExecutor(SENDERS, thread_name_prefix="webhook")
        self._followers = ThreadPoolExecutor(FOLLOWERS_MAX, thread_name_prefix="follower")
        self._logger = logging.getLogger("resurge.upkeep")

    async def run(self) -> None:
        """The background tasks; end when cancelled."""
        await asyncio.gather(
            self._repeat(self.beat), self._repeat(self.send_messages), self._repeat(self.judge_results, RESULTS_BEAT_S),
            self._repeat(self.send_results, RESULTS_BEAT_S),
        )  # fmt: skip

    async def _repeat(self, beat: Callable[[], Awaitable[None]], every_s: float = BEAT_S) -> None:
        while True:
            try:
                await beat()
            except Exception:  # the edge of a task: one busy database must not end all alerts for good
                self._logger.exception("a beat failed; the next one tries again")
            await asyncio.sleep(every_s)

    def close(self) -> None:
        self._senders.shutdown(wait=False, cancel_futures=True)
        self._followers.shutdown(wait=True, cancel_futures=True)  # each ends within its time limit
        self._sources.close()

    async def beat(self) -> None:
        await in_thread(self.measure)
        await in_thread(self.watch)
        await self.delete()

    def measure(self) -> None:
        """Hold what has arrived against what was promised, and report the hours that are over."""
        if (told_us := self._sources.told_us()) is not None:
            self._sources.contracts.follow(told_us)

    def watch(self) -> None:
        """Open and close alerts."""
        sources = self._sources
        if sources.told_us() is None:
            return  # the log in Kafka is being read for the first time: what it says is not about now
        sources.history.follow(seconds_max=1.0)
        sources.fleet.forget()  # an alert is told: it is about now, not about what a page saw a moment ago
        self._say(sources.alerts.update(conditions(sources), sources.clock_us()))

    def _say(self, changed: Sequence[Alert]) -> None:
        for alert in changed[:SAID_MAX]:
            state = "began" if alert.ended_us is None else "ended"
            self._logger.warning("alert %s: %s", state, alert.detail)
        if more := changed[SAID_MAX:]:
            self._logger.warning("%d further alerts began or ended; `resurge alert list` names them", len(more))

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

    async def send_results(self) -> None:
        """Bring followers level with the results, several at once; none waits for another."""
        for follower in await in_thread(due, self._sources):
            if follower.name not in self._following:
                self._following.add(follower.name)
                self._followers.submit(self._keep_up, follower.name)

    def _keep_up(self, name: str) -> None:
        try:
            keep_up(self._sources, name)
        except Exception:  # the edge of a thread: the next look tries again
            self._logger.exception("sending results to %s failed", name)
        finally:
            self._following.discard(name)

    async def delete(self) -> None:
        """Carry out deletions that were asked for, and keep derived data of deleted devices from coming back."""
        change = self._sources.results.change()
        for deletion in self._sources.roster.deletions():
            after = self._forgotten.get(deletion.device, 0)
            await in_thread(forget_derived, self._sources, deletion, after=after)
            self._forgotten[deletion.device] = change
            if self._sources.kafka is not None:
                await self._erase_in_kafka(deletion, self._sources.kafka)
            elif deletion.done_us is None:
                report = await self._erase(deletion)
                self._sources.roster.deletion_done(deletion, self._sources.clock_us(), report)

    async def _erase(self, deletion: Deletion) -> dict[str, object]:
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
        return asdict(done)

    async def _erase_in_kafka(self, deletion: Deletion, copy: LogCopy) -> None:
        """From this gateway's copy, whichever gateway was asked. Kafka changes no record: it is done when what was
        there then has been trimmed."""
        sources = self._sources
        if (told_us := sources.told_us()) is None or told_us < deletion.asked_us + LATE_US:
            return  # some of it may be under way to the copy
        if not copy.has_erased(deletion.device, deletion.asked_us):
            report = await self._erase(deletion)
            await in_thread(copy.note_erased, deletion.device, deletion.asked_us)  # waits for brokers, at worst
            if deletion.done_us is None:
                sources.roster.deletion_waits(deletion, report)
        elif deletion.done_us is None:
            with suppress(Unreachable):  # brokers are away: at the next beat
                if held := await in_thread(held_by, sources, copy, deletion):
                    sources.roster.deletion_waits(deletion, {**deletion.report, "held": held})
                else:
                    counts = {name: count for name, count in deletion.report.items() if name != "held"}
                    sources.roster.deletion_done(deletion, sources.clock_us(), counts)

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
