"""The one appender: everything that reaches the log goes through here, and so does every answer.

Bodies are read and decided as they arrive, in the event loop; whatever has arrived by then becomes the next group. So a
lone device pays for its own sync and a hundred devices share one, without a timer that would make anybody wait.

A large group is written and synced in a thread while the loop goes on deciding. A small one is committed in the loop
itself: the thread would need the interpreter to come back from each system call, and asking a busy loop for it costs
more than the sync (a quarter of an exchange of 1 KB). After a slow one the next few go to the thread, so that a slow or
hanging disk does not silence the other routes.

Answers leave in the order of their groups, also those that brought nothing new: a duplicate may repeat what is still
on its way to the disk, and its receipt must not be quicker than the record it speaks of. When the disk refuses, all
who wait are told to come back; the log is then read again from the disk (it was full), or the process ends (a sync
failed, and what the page cache now says about the file cannot be trusted).

A log in Kafka is committed in the thread always. When its brokers refuse, the log is read again from them in that
thread too, as often as it takes; until then everybody is told to come back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from cloud_backend.log.format import Record
from cloud_backend.log.kafka.log import KafkaLog
from cloud_backend.log.log import Log
from shared.errors import ResurgeError
from shared.sync.receiver import Arrival, Receiver, Reply

SMALL_GROUP_BYTES = 256 * 1024
SLOW_S = 0.002
GROUPS_AFTER_SLOW = 8  # in the thread, before the loop tries the disk again: how quick it is there, nobody can tell


# What the disk refused before it took anything: reading it again tells where the log goes on.
GOES_ON = frozenset({"log-disk-full", "log-no-descriptors"})
COMES_BACK = "kafka-unreachable"  # brokers do, and then say themselves what they hold
LOOK_AGAIN_S = 1.0


class Unavailable(Exception):
    """The log cannot take anything now; nothing of the exchange was kept."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


# Called once per body. A future per body would do the same for more than everything else the appender does.
OnOutcome = Callable[[Reply | Unavailable], None]


class Appender:
    def __init__(
        self,
        log: Log | KafkaLog,
        receiver: Receiver,
        *,
        reserve_bytes: int = 0,
        on_events: Callable[[list[object]], None],  # raises nothing
        on_group: Callable[[int, float], None],
        on_broken: Callable[[Exception], None],
    ) -> None:
        self._log = log
        self._receiver = receiver
        self._reserve_bytes = reserve_bytes
        self._on_events = on_events
        self._on_group = on_group  # records and seconds of a group that became durable
        self._on_broken = on_broken  # a sync failed: end the process
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="log")
        self._task: asyncio.Task[None] | None = None
        self._broken: Unavailable | None = None  # why nothing is taken, for now or for good
        self._mending: asyncio.Task[None] | None = None
        self._wary = 0  # groups that still go to the thread because one was slow

    def submit(self, body: bytes | memoryview, decided: OnOutcome) -> None:
        """Decide one body; `decided` gets the reply once everything it rests on is durable, or why there is none."""
        if self._broken is not None:
            decided(self._broken)
            return
        self._receiver.receive(Arrival(decided, body), time.monotonic())
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def idle(self) -> None:
        """Wait until nothing is on its way to the disk."""
        while self._task is not None:
            await self._task

    async def run_when_idle(self, work: Callable[[], object]) -> None:
        """Do something with the log that must not overlap a group: trimming, for one."""
        await self.idle()
        self._task = asyncio.get_running_loop().create_task(self._do(work))
        await self._task

    @property
    def unavailable(self) -> str | None:
        """The code of why nothing is taken now."""
        return None if self._broken is None else self._broken.code

    async def close(self) -> None:
        await self.idle()
        if self._mending is not None:
            self._mending.cancel()
            await asyncio.wait([self._mending])
        self._disk.shutdown(wait=True)
        self._log.close()

    async def _do(self, work: Callable[[], object]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._disk, work)
        finally:
            self._task = None
            self._resume()

    def _resume(self) -> None:
        """Arrivals that came meanwhile found a task and started none."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        group_bytes = SMALL_GROUP_BYTES
        waiting: tuple[Reply, ...] = ()
        try:
            while step := self._receiver.step(time.monotonic()):
                waiting = step.send
                self._on_events(self._receiver.events())
                if step.persist:
                    at_us = time.time_ns() // 1000
                    self._log.append([Record(at_us, record.frame, record.digest) for record in step.persist])
                    group = self._log.take()
                    group_bytes = group.end - group.start
                    started = time.monotonic()
                    if group_bytes < SMALL_GROUP_BYTES and not self._wary and self._log.commits_at_once:
                        self._log.commit(group)  # type: ignore[arg-type]  # it came from this log
                        if time.monotonic() - started > SLOW_S:
                            self._wary = GROUPS_AFTER_SLOW
                    else:
                        self._wary = max(0, self._wary - 1)
                        await loop.run_in_executor(self._disk, self._log.commit, group)  # type: ignore[arg-type]
                    self._on_group(len(group.records), time.monotonic() - started)
                waiting = ()
                for reply in step.send:
                    self._tell(reply, reply)
                if group_bytes < SMALL_GROUP_BYTES and self._log.unreserved(self._reserve_bytes // 2):
                    await loop.run_in_executor(self._disk, self._log.reserve, self._reserve_bytes)
        except Exception as error:  # whatever it was: the receiver's high waters are now ahead of the log
            self._refuse(error, waiting)
        finally:
            self._task = None

    def _refuse(self, error: Exception, replies: tuple[Reply, ...]) -> None:
        """A receiver ahead of the log would acknowledge what is lost: go back to the log, or answer nobody any more."""
        later = self._receiver.step(time.monotonic())
        self._receiver.events()
        failure = Unavailable(error.code if isinstance(error, ResurgeError) else "log-disk-failed")
        if failure.code in GOES_ON:
            try:
                self._log.reopen()
                self._receiver.abandon()
            except Exception as again:
                failure, error = Unavailable("log-disk-failed"), again
        if failure.code == COMES_BACK:
            self._broken = failure
            self._mending = asyncio.get_running_loop().create_task(self._mend())
        elif failure.code not in GOES_ON:
            self._broken = failure
            self._on_broken(error)
        for reply in (*replies, *later.send):
            self._tell(reply, failure)

    async def _mend(self) -> None:
        """Until the brokers say what they hold; whatever else they say ends the process."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await loop.run_in_executor(self._disk, self._log.reopen)
                break
            except ResurgeError as error:
                if error.code != COMES_BACK:
                    self._broken = Unavailable(error.code)
                    self._on_broken(error)
                    return
            await asyncio.sleep(LOOK_AGAIN_S)
        self._receiver.abandon()
        self._broken = self._mending = None

    def _tell(self, reply: Reply, outcome: Reply | Unavailable) -> None:
        """One whose connection breaks while it is answered must not keep the rest of the group from their answers."""
        try:
            decided: OnOutcome = reply.handle  # type: ignore[assignment]  # it came with `submit`
            decided(outcome)
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler({"message": "answering failed", "exception": error})
