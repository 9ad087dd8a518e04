"""One of several gateways on one log: which partitions are this one's, and what becomes of everything else.

The group of the log (`log/kafka/members.py`) says who should own which partition. What is given to this gateway it
takes over, which fences whoever had it; what is taken from it, it finishes and lets go before the next owner is told.
Any device may come to any gateway: an exchange is decided by the owner of the device's partition, to whom it is
forwarded. While a partition moves, its devices are told to come back.

    assigned --take over--> ours --revoked: no new exchange, those under way are committed--> released
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future

from cloud_backend.gateway.appender import Appender, Unavailable
from cloud_backend.gateway.forwarding import EXCHANGE, WAIT, Forwarding
from cloud_backend.gateway.ingest import MOVING, Answer, Ingest, OnOutcome
from cloud_backend.gateway.keys import Keys
from cloud_backend.gateway.metrics import Metrics
from cloud_backend.gateway.session_ids import SessionIds
from cloud_backend.gateway.waits import Waits
from cloud_backend.log.kafka.location import parse
from cloud_backend.log.kafka.log import KafkaLog
from cloud_backend.log.kafka.members import ALONE, Group, Member, Membership, check_together
from cloud_backend.log.kafka.topics import Unreachable
from cloud_backend.log.partitions import SLOTS, partition_of
from shared.errors import ResurgeError, UsageError
from shared.identity import DeviceId
from shared.sync.receiver import Receiver
from shared.sync.session import GatewaySessions
from shared.wire.envelope import SESSION_ID_BYTES, is_envelope
from shared.wire.frame import claimed_source

LOOK_S = 0.5  # how often the group is asked who owns what
AGAIN_S = 0.5
LEAVE_S = 20.0  # that a stopping gateway goes on forwarding, at most, until others own what it had
_log = logging.getLogger("resurge.gateway")


class Shares:
    """Made before the app runs, `start`ed in its event loop, where everything else here happens, too. UsageError where
    this gateway must not write this log together with those that do."""

    def __init__(
        self, log: KafkaLog, keys: Keys, ids: SessionIds, metrics: Metrics, *, database: str, bind: str
    ) -> None:
        self._log, self._ids, self._metrics = log, ids, metrics
        self._location = parse(log.location)
        self._group = Group(self._location)
        check_together(member_of(keys, database), self._group.members())
        self._forwarding = Forwarding(keys, bind, self._take_forwarded)
        self._member = member_of(keys, database, self._forwarding.address)
        self._wanted: frozenset[str] = frozenset()  # what the group gave to this gateway
        self.ours: frozenset[str] = frozenset()
        self._owners: dict[str, str] = {}  # of other partitions: where their gateway is
        self.leaving = False
        self._moving = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._membership: Membership | None = None

    def serve(
        self, appender: Appender, receiver: Receiver, sessions: GatewaySessions, ingest: Ingest, waits: Waits,
        *, on_released: Callable[[], None], on_broken: Callable[[Exception], None],
    ) -> None:  # fmt: skip
        """For these."""
        self._appender, self._receiver, self._sessions = appender, receiver, sessions
        self._ingest, self._waits = ingest, waits
        self._on_released, self._on_broken = on_released, on_broken
        ingest.share(self)
        waits.share(self)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._forwarding.start()
        self._membership = Membership(self._location, self._member, self._assigned, self._revoked)
        self._begin(self._look())

    @property
    def unavailable(self) -> str | None:
        """Why a load balancer should send nobody here now."""
        if self.leaving:
            return "gateway-leaving"
        known = len(self.ours | self._owners.keys()) == self._log.partitions
        return None if known else MOVING

    # -- what devices send ---------------------------------------------------------------------------------------------

    def exchange_elsewhere(self, body: bytes, address: str, decided: OnOutcome) -> bool:
        """Whether this is another gateway's to decide; then `decided` hears what it said."""
        partition = self._partition(body)
        if partition is None or partition in self.ours:
            return False  # what nobody issued is refused here

        def answered(answer: Answer | None) -> None:
            decided(Unavailable(MOVING) if answer is None else answer)

        self._forward(partition, EXCHANGE, address, body, answered)
        return True

    def wait_elsewhere(self, body: bytes, decided: Callable[[Answer], None]) -> bool:
        partition = self._partition_of_session(body)
        if partition is None or partition in self.ours:
            return False

        def answered(answer: Answer | None) -> None:
            decided(self._ingest.refusal(Unavailable(MOVING)) if answer is None else answer)

        self._forward(partition, WAIT, "", body, answered)
        return True

    def is_issued(self, body: bytes) -> bool:
        """Whether a gateway of this log gave out the session that a body claims."""
        return self._ids.slot(bytes(body[:SESSION_ID_BYTES])) is not None

    def _partition(self, body: bytes) -> str | None:
        if is_envelope(body):
            return self._partition_of_session(body)
        source = claimed_source(body)
        return partition_of(source, self._log.partitions) if source else None

    def _partition_of_session(self, body: bytes) -> str | None:
        slot = self._ids.slot(bytes(body[:SESSION_ID_BYTES]))
        return None if slot is None else str(slot * self._log.partitions // SLOTS)

    def _forward(
        self, partition: str, kind: bytes, address: str, body: bytes, answered: Callable[[Answer | None], None]
    ) -> None:
        owner = self._owners.get(partition)
        if owner is None:
            answered(None)
        else:
            self._metrics.forwarded.inc()
            self._forwarding.forward(owner, kind, address, body, answered)

    def _take_forwarded(self, kind: bytes, address: str, body: bytes, tell: Callable[[Answer], None]) -> None:
        """Never forwarded again: two gateways that believe each other the owner would send it to and fro."""
        partition = self._partition_of_session(body) if kind == WAIT else self._partition(body)
        if partition not in self.ours:
            tell(self._ingest.refusal(Unavailable(MOVING)))
        elif kind == WAIT:
            self._waits.hold_here(body, tell)
        else:
            self._ingest.decide(body, address, tell)

    # -- who owns what -------------------------------------------------------------------------------------------------

    def _assigned(self, partitions: frozenset[str]) -> None:
        self._loop.call_soon_threadsafe(lambda: self._begin(self._take_over(partitions)))

    def _revoked(self, partitions: frozenset[str]) -> None:
        """In the group's thread; the next owner is told when this returns."""
        if not self.leaving:
            done: Future[None] = asyncio.run_coroutine_threadsafe(self._release(partitions), self._loop)
            done.result()

    async def _take_over(self, partitions: frozenset[str]) -> None:
        self._wanted |= partitions
        while missing := (partitions & self._wanted) - self.ours:
            async with self._moving:
                missing &= self._wanted
                try:
                    await asyncio.to_thread(self._log.take_over, missing)
                except Unreachable as error:
                    _log.warning("cannot take over partitions yet: %s", error)
                except ResurgeError as error:
                    self._on_broken(error)
                    return
                else:
                    self._receiver.forget_devices(self._is_in(missing))
                    self.ours |= missing & self._wanted  # what was revoked meanwhile is released next
                    self._metrics.owned.set(len(self.ours))
                    _log.info("owns partitions %s now", _listed(self.ours))
                    return
            await asyncio.sleep(AGAIN_S)

    async def _release(self, partitions: frozenset[str]) -> None:
        self._wanted -= partitions
        async with self._moving:
            mine, self.ours = self.ours & partitions, self.ours - partitions
            # From here on nothing new of them is decided; what is under way is committed and answered first.
            await self._appender.run_when_idle(lambda: self._log.release(partitions))
            self._sessions.end(self._is_in(partitions))
            self._on_released()
            self._metrics.owned.set(len(self.ours))
            _log.info("gave up partitions %s, owns %s", _listed(mine), _listed(self.ours))

    def _is_in(self, partitions: frozenset[str]) -> Callable[[DeviceId], bool]:
        return lambda device: partition_of(device, self._log.partitions) in partitions

    async def _look(self) -> None:
        while True:
            try:
                members = await asyncio.to_thread(self._group.members)
                self._learn([each for each in members if each.address != self._member.address])
            except UsageError as error:
                self._on_broken(error)
                return
            except Unreachable:
                pass  # brokers are away: the owners are as they were
            await asyncio.sleep(LOOK_S)

    def _learn(self, others: list[Member]) -> None:
        self._forwarding.meet({each.address for each in others})
        self._owners = {partition: each.address for each in others for partition in each.partitions}

    async def leave(self) -> None:
        """Give up every partition, then the place in the group; go on forwarding until others own what was given up."""
        if self.leaving:
            return
        self.leaving = True
        await self._release(frozenset(map(str, range(self._log.partitions))))
        if self._membership is not None:
            await asyncio.to_thread(self._membership.leave)
        deadline = time.monotonic() + LEAVE_S
        while time.monotonic() < deadline:
            try:
                others = await asyncio.to_thread(self._group.members)
            except Unreachable:
                return
            others = [each for each in others if each.address != self._member.address]
            self._learn(others)
            if not others or len(self._owners) == self._log.partitions:
                return
            await asyncio.sleep(AGAIN_S)

    async def close(self) -> None:
        await self.leave()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._forwarding.close()

    def _begin(self, work: object) -> None:
        task: asyncio.Task[None] = self._loop.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Solitude:
    """A gateway whose roster is in its own home: it owns every partition, and tells others that it does."""

    def __init__(self, location: str, keys: Keys) -> None:
        self._location = parse(location)
        self._member = member_of(keys, ALONE)
        check_together(self._member, Group(self._location).members())
        self._membership: Membership | None = None

    def start(self) -> None:
        self._membership = Membership(self._location, self._member, lambda _: None, lambda _: None)

    async def close(self) -> None:
        if self._membership is not None:
            await asyncio.to_thread(self._membership.leave)


def member_of(keys: Keys, database: str, address: str = "") -> Member:
    return Member(database, keys.public_key[:8].hex(), address)


def _listed(partitions: frozenset[str]) -> str:
    return ", ".join(sorted(partitions, key=int)) or "none"
