"""A phone's end and a gateway's end in one process: the machines, toy keys, and a spool in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from shared.identity import DeviceId, EdgeId, EdgeKey, device_id
from shared.language.schema import Schema
from shared.spool.entry import SpooledBatch
from shared.spool.ring import Spool
from shared.sync.exchange import LogRecord
from shared.sync.pacing import Pacing
from shared.sync.persist import StorePlan, StoreResults, SyncSpool
from shared.sync.receiver import Arrival, Receiver, Reply
from shared.sync.sender import EdgePolicy, Sender
from shared.sync.session import DeviceSession, Enrolment, GatewaySessions
from shared.wire.frame import FrameType
from shared.wire.messages import Hint, PlanMessage, PlanWithheld
from tests.simulation.disk import SimulatedDisk
from tests.simulation.keys import ToyKeys

SCHEMA = Schema.of({"value": "float64"})


class Downlink:
    """What a test wants to come down."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, object]] = []
        self.message: PlanMessage | None = None
        self.push_back: Hint | None = None

    def results(self, device: DeviceId, after: int, limit: int) -> Sequence[tuple[int, Mapping[str, object]]]:
        return [(at + 1, row) for at, row in enumerate(self.rows)][after : after + limit]

    def plan(
        self, device: DeviceId, newer_than: int, operators: frozenset[str] | None
    ) -> PlanMessage | PlanWithheld | None:
        return self.message if self.message is not None and self.message.version > newer_than else None

    def hint(self, device: DeviceId) -> Hint | None:
        return self.push_back

    def next_deployment(self, device: DeviceId, follows: tuple[int, int]) -> None:
        return None


class Gateway:
    """The receiver with its log as a list. A step's records count as durable when `exchange` returns."""

    def __init__(self, known: dict[bytes, bytes], rng: Random, *, lifetime_s: int = 3600) -> None:
        self.keys = ToyKeys(rng, known)
        self.enrolments: dict[DeviceId, Enrolment] = {}
        self.downlink = Downlink()
        self.log: list[LogRecord] = []
        self.sessions = GatewaySessions(self.keys, self, lifetime_s=lifetime_s)
        self.receiver = Receiver(self, self.sessions, self.downlink, self.keys)
        self.events: list[object] = []

    def find(self, device: DeviceId) -> Enrolment | None:
        return self.enrolments.get(device)

    takes_marks = False  # they are for vertices; what is in the log is safe as it is

    def producer_term(self, carrier: DeviceId, key: EdgeKey) -> int | None:
        """None: a device sends its own elements here, nobody else's."""
        return None

    def high_water(self, key: EdgeKey) -> int:
        return max((record.hi for record in self.log if record.key == key), default=0)

    def edges_of(self, device: DeviceId, incarnation: int) -> dict[EdgeId, int]:
        mine = [record for record in self.log if (record.key.device, record.key.incarnation) == (device, incarnation)]
        sizes = {record.key.edge: 0 for record in mine}
        return sizes | {record.key.edge: len(record.frame) for record in mine if record.kind == FrameType.DECLARE}

    def exchange(self, body: bytes, now: float = 0.0) -> Reply:
        self.receiver.receive(Arrival("handle", body), now)
        step = self.receiver.step(now)
        self.log += step.persist
        self.events += self.receiver.events()
        (reply,) = step.send
        return reply

    def restart(self) -> None:
        self.sessions = GatewaySessions(self.keys, self)
        self.receiver = Receiver(self, self.sessions, self.downlink, self.keys)


class Node:
    """The sender with its driver: `step` persists and returns what to send."""

    def __init__(
        self,
        gateway: Gateway,
        known: dict[bytes, bytes],
        rng: Random,
        *,
        pacing: Pacing | None = None,
        policies: Mapping[str, EdgePolicy] | None = None,
        capacity_bytes: int = 65_536,
    ) -> None:
        self.gateway = gateway
        self.rng = rng
        self.keys = ToyKeys(rng, known, gateway_key=gateway.keys.public_key)
        self.device = device_id(self.keys.public_key)
        gateway.enrolments[self.device] = Enrolment(self.keys.public_key, 1)
        self.disk = SimulatedDisk(rng)
        Spool.create(self.disk, capacity_bytes=capacity_bytes, device=self.device, incarnation=1)
        self.pacing = pacing or Pacing()
        self.policies = policies or {"trips": EdgePolicy()}
        self.results: list[Mapping[str, object]] = []
        self.results_through = 0
        self.plan: tuple[int, bytes] = (-1, b"")
        self.events: list[object] = []
        self.boot(0.0)

    def boot(self, now: float, *, reaches: Mapping[EdgeId, int] | None = None) -> None:
        self.spool = Spool.open(self.disk)
        self.session = DeviceSession(self.keys, self.device, 1)
        self.sender = Sender(
            self.spool, self.session, pacing=self.pacing, rng=self.rng, now=now,
            edges=[(name, SCHEMA) for name in self.policies], results_through=self.results_through,
            plan_version=self.plan[0], reaches=reaches,
        )  # fmt: skip
        self.edges: dict[str, EdgeId] = {
            name: self.sender.declare(name, SCHEMA, policy) for name, policy in self.policies.items()
        }

    def append(
        self,
        edge: str = "trips",
        *,
        elements: int = 2,
        now: float = 0.0,
        payload: bytes = b"columns",
        schema: Schema = SCHEMA,
    ) -> None:
        number = self.edges[edge]
        lo = self.spool.head(number)
        self.sender.append(
            SpooledBatch(number, lo, lo + elements, elements, schema.id, 0, 1000 * (lo + elements), 1, payload), now
        )

    def step(self, now: float = 0.0) -> bytes | None:
        """Everything the driver does until there is something to send; None when there is not."""
        while step := self.sender.step(now):
            for item in step.persist:
                if isinstance(item, SyncSpool):
                    self.spool.sync()
                elif isinstance(item, StoreResults):
                    self.results += [result.body for result in item.results]
                    self.results_through = item.through
                elif isinstance(item, StorePlan):
                    self.plan = (item.version, item.plan)
            if step.send:
                return step.send[0]
        self.events += self.sender.events()
        return None

    def talk(self, now: float = 0.0, *, limit: int = 50) -> int:
        """Exchange until there is nothing to say just now; returns how many bodies went up."""
        bodies = 0
        while bodies < limit and (body := self.step(now)) is not None:
            bodies += 1
            self.sender.receive(self.gateway.exchange(body, now).body, now)
        self.events += self.sender.events()
        return bodies


def pair(**options: object) -> Node:
    """A node and a gateway it is enrolled with; a quick edge unless the test says otherwise."""
    known: dict[bytes, bytes] = {}
    rng = Random(1)
    lifetime_s = options.pop("lifetime_s", 3600)
    gateway = Gateway(known, rng, lifetime_s=lifetime_s)  # type: ignore[arg-type]
    options.setdefault("policies", {"trips": EdgePolicy(within_s=0.0)})
    return Node(gateway, known, rng, **options)  # type: ignore[arg-type]


def pair_with_batch() -> Node:
    """A pair whose session is open, with a batch that waits to be sent."""
    node = pair()
    node.talk()
    node.append()
    return node
