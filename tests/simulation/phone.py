"""A simulated phone: the production spool, session and sender on a disk, a clock and a network that misbehave."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from shared.errors import DiskFailed
from shared.identity import EdgeId, EdgeKey, device_id, edge_id
from shared.language.schema import Schema
from shared.spool.entry import DataEntry, SpooledBatch
from shared.spool.evict import Evict
from shared.spool.ring import Spool, SpoolFull
from shared.sync.events import Disconnected, PlanArrived, ReceiptReceived, Reconnected, Refused
from shared.sync.pacing import Pacing
from shared.sync.persist import StoreEdge, StorePlan, StoreResults, SyncSpool
from shared.sync.sender import EdgePolicy, Sender
from shared.sync.session import DeviceSession
from shared.wire.status import DeviceStatus
from tests.simulation.clock import Clock
from tests.simulation.disk import Crash, SimulatedDisk
from tests.simulation.facts import Facts
from tests.simulation.keys import ToyKeys

STORE = "store"
SCHEMA = Schema.of({"value": "float64"})


@dataclass(frozen=True, slots=True)
class PhoneSettings:
    edges: int = 2
    every_s: float = 1.5
    capacity_bytes: int = 8192
    evict: Evict = Evict.QUERY_AWARE
    payload_bytes_max: int = 300
    within_s: float = 4.0
    promises: tuple[float, ...] = ()  # which share of each edge's numbers is kept while others can make room


class Store:
    """What a node keeps beside its spool: applied results with their number, the plan, edge declarations."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self.through = 0
        self.applied: list[int] = []
        self.plan = -1
        self.edges: list[str] = []
        if STORE in disk.names():
            file = disk.open(STORE)
            value = json.loads(file.read(0, file.size()))
            self.through, self.applied, self.plan, self.edges = (
                value[name] for name in ("through", "applied", "plan", "edges")
            )

    def save(self) -> None:
        value = {"through": self.through, "applied": self.applied, "plan": self.plan, "edges": self.edges}
        self._disk.replace(STORE, json.dumps(value).encode())


class SimulatedPhone:
    def __init__(
        self,
        number: int,
        *,
        clock: Clock,
        rng: Random,
        facts: Facts,
        keys: ToyKeys,
        settings: PhoneSettings,
        send: Callable[[int, bytes], None],
        tell: Callable[[str, str, str], None],
    ) -> None:
        self.number = number
        self.name = f"phone{number}"
        self.keys = keys
        self.device = device_id(keys.public_key)
        self.incarnation = 1
        self.settings = settings
        self.disk = SimulatedDisk(rng)
        self._clock = clock
        self._rng = rng
        self._facts = facts
        self._send = send
        self._tell = tell
        self._base = 1000.0 * rng.random()  # its monotonic clock starts anywhere
        self._boot = 0
        self._wake_at = float("inf")
        self._frozen_until = 0.0
        self._ticks = 0
        self.sensing = True
        self.up = False
        self.changed = True  # something the checkers should look at
        self.edge_names = [f"edge{at}" for at in range(settings.edges)]
        self.edge_ids = [edge_id(name) for name in self.edge_names]
        self.spool: Spool
        self.sender: Sender
        self.store: Store
        self._create_spool()
        self.start()
        clock.after(settings.every_s * rng.random(), self._tick)

    def key(self, edge: EdgeId) -> EdgeKey:
        return EdgeKey(self.device, self.incarnation, edge)

    @property
    def now(self) -> float:
        return self._clock.now + self._base

    # --- life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Boot: read everything from the disk, as a node does."""
        if self.up:
            return
        self.up = True
        self.changed = True
        self._boot += 1
        try:
            self.spool = Spool.open(self.disk)
            self.store = Store(self.disk)
            self.keys_of_edges = [self.key(edge) for edge in self.edge_ids]
            for key in self.keys_of_edges:
                self._facts.durable(key, self.spool.head(key.edge))
                self._facts.lost_tentative(key)
            self.sender = Sender(
                self.spool,
                DeviceSession(self.keys, self.device, self.incarnation),
                pacing=Pacing(poll_s=10.0),
                rng=self._rng,
                edges=[(name, SCHEMA) for name in self.store.edges],
                results_through=self.store.through,
                plan_version=self.store.plan,
                now=self.now,
            )
            for at, name in enumerate(self.edge_names):
                kept_min = self.settings.promises[at] if at < len(self.settings.promises) else 0.0
                policy = EdgePolicy(within_s=self.settings.within_s, priority=at % 2, kept_min=kept_min)
                self.sender.declare(name, SCHEMA, policy)
            self.sender.status(DeviceStatus(overruns=self._ticks))
            self._tell(self.name, "start", f"boot {self._boot} incarnation {self.incarnation}")
            self._drive()
        except (Crash, DiskFailed, OSError):
            self.crash()

    def crash(self, down_s: float = 1.0) -> None:
        if not self.up:
            return
        self.up = False
        self._facts.crashes += 1
        self.disk.crash()
        self._base += self._rng.uniform(-500.0, 500.0)  # monotonic time means nothing across boots
        self._tell(self.name, "crash", f"for {down_s:.1f} s")
        self._clock.after(down_s, self.start)

    def freeze(self, seconds: float) -> None:
        """Doze: no timer fires and nothing is read until it ends."""
        self._frozen_until = max(self._frozen_until, self._clock.now + seconds)
        self._tell(self.name, "freeze", f"{seconds:.1f} s")
        self._sleep_until(self._frozen_until)

    def thaw(self) -> None:
        self._frozen_until = 0.0
        self._sleep_until(self._clock.now)

    def jump(self, seconds: float) -> None:
        """Its clock leaps forward, as after a suspend that timers slept through."""
        self._base += seconds
        self._tell(self.name, "clock", f"+{seconds:.1f} s")
        self._drive()

    def reinstall(self) -> None:
        """Wiped and enrolled again with the same key: a new incarnation, numbers from 0."""
        self._tell(self.name, "reinstall", f"incarnation {self.incarnation + 1}")
        for key in self.keys_of_edges:
            facts = self._facts.edge(key)
            facts.wiped = True
            facts.tentative.clear()
        self.up = False
        self.incarnation += 1
        self.disk = SimulatedDisk(self._rng)
        self._create_spool()
        self.start()

    def _create_spool(self) -> None:
        Spool.create(
            self.disk,
            capacity_bytes=self.settings.capacity_bytes,
            device=self.device,
            incarnation=self.incarnation,
            evict=self.settings.evict,
        )

    # --- what happens to it --------------------------------------------------------------------------------

    def deliver(self, body: bytes) -> None:
        if not self.up:
            return
        if self._clock.now < self._frozen_until:
            self._clock.at(self._frozen_until, self.deliver, body)
            return
        self._drive(body)

    def _tick(self) -> None:
        if not self.sensing:
            return
        self._clock.after(self.settings.every_s * self._rng.uniform(0.5, 1.5), self._tick)
        if not self.up or self._clock.now < self._frozen_until:
            return
        self._ticks += 1
        self.sender.status(DeviceStatus(overruns=self._ticks))
        try:
            self._sense()
        except Crash:
            self.crash()
        except DiskFailed:
            self._facts.disk_faults += 1
            self.crash()
        else:
            self._drive()

    def _sense(self) -> None:
        rng = self._rng
        edge = rng.choice(self.edge_ids)
        if rng.random() < 0.2:
            self.sender.frontier(edge, int(self._clock.now * 1e6), self.now)
            return
        lo = self.spool.head(edge)
        hi = lo + rng.randint(1, 9)
        columns = b"%d/%d/%d/" % (self.number, edge, lo) + rng.randbytes(rng.randrange(self.settings.payload_bytes_max))
        batch = SpooledBatch(
            edge=edge, lo=lo, hi=hi, rows=hi - lo, schema_id=SCHEMA.id, applied=0,
            frontier_us=int(self._clock.now * 1e6), codec=0, payload=columns, priority=rng.randrange(3),
        )  # fmt: skip
        # It is offered before it is known: a crash inside append may leave it whole on the disk.
        self._facts.appended(self.key(edge), lo, hi, columns)
        try:
            entry = self.sender.append(batch, self.now)
        except SpoolFull:
            self._facts.edge(self.key(edge)).tentative.pop(lo)
            self._tell(self.name, "full", f"{edge % 1000} {lo}")
            return
        what = "append" if isinstance(entry, DataEntry) else "give up"
        self._tell(self.name, what, f"{edge % 1000} [{lo}, {hi})")

    # --- the driver ------------------------------------------------------------------------------------------

    def _sleep_until(self, wake_at: float) -> None:
        self._wake_at = wake_at
        self._clock.at(wake_at, self._wake, wake_at)

    def _wake(self, wake_at: float) -> None:
        """Only the newest alarm rings."""
        if self.up and wake_at == self._wake_at and self._clock.now >= self._frozen_until:
            self._wake_at = float("inf")
            self._drive()

    def _drive(self, arrived: bytes | None = None) -> None:
        """The whole contract of a driver: persist, then send, until there is nothing left; then sleep."""
        if not self.up:
            return
        self.changed = True
        now = self.now
        try:
            if arrived is not None:
                self.sender.receive(arrived, now)
            self.sender.wake(now)
            while step := self.sender.step(now):
                for item in step.persist:
                    self._persist(item)
                for body in step.send:
                    self._send(self.number, body)
        except Crash:
            self.crash()
            return
        except (DiskFailed, OSError):
            # What the disk holds is known only by reading it again: the node restarts.
            self._facts.disk_faults += 1
            self.crash()
            return
        for event in self.sender.events():
            self._notice(event)
        # No clock is finer than a millisecond; without that, two ways to round the same sum never meet.
        wake_at = self._clock.now + max(0.001, self.sender.next_wake() - now)
        if wake_at < self._wake_at or self._wake_at <= self._clock.now:
            self._sleep_until(wake_at)

    def _persist(self, item: object) -> None:
        if isinstance(item, SyncSpool):
            self.spool.sync()
            for key in self.keys_of_edges:
                self._facts.durable(key, self.spool.head(key.edge))
        elif isinstance(item, StoreResults):
            self.store.through = item.through
            self.store.applied += [result.seq for result in item.results]
            self.store.save()
            self._tell(self.name, "apply", f"results through {item.through}")
        elif isinstance(item, StorePlan):
            self.store.plan = item.version
            self.store.save()
        elif isinstance(item, StoreEdge):
            self.store.edges.append(item.name)
            self.store.save()

    def _notice(self, event: object) -> None:
        if isinstance(event, ReceiptReceived):
            facts = self._facts.edge(self.key(event.edge))
            facts.acknowledged = max(facts.acknowledged, event.through)
            self._tell(self.name, "receipt", f"{event.edge % 1000} through {event.through}")
        elif isinstance(event, Refused):
            self._tell(self.name, "refused", event.code)
        elif isinstance(event, Disconnected):
            self._tell(self.name, "disconnected", event.code)
        elif isinstance(event, Reconnected):
            self._tell(self.name, "reconnected", f"after {event.outage_s:.1f} s")
        elif isinstance(event, PlanArrived):
            self._tell(self.name, "plan", str(event.version))

    @property
    def drained(self) -> bool:
        """Whether the log has everything this phone has numbered, durably or not, and the phone knows it."""
        return self.up and all(
            self.spool.head(key.edge) == self._facts.edge(key).acknowledged for key in self.keys_of_edges
        )
