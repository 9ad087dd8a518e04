"""A simulated cloud: the production sessions, receiver and log on a disk that misbehaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from cloud_backend.log.format import Record
from cloud_backend.log.log import Group, Log
from shared.errors import ResurgeError
from shared.identity import DeviceId, device_id
from shared.sync.exchange import LogRecord
from shared.sync.receiver import Arrival, Receiver, Reply
from shared.sync.session import Enrolment, GatewaySessions
from shared.sync.step import Step
from shared.wire.messages import Hint, PlanMessage, PlanWithheld
from tests.simulation.clock import Clock
from tests.simulation.disk import Crash, SimulatedDisk
from tests.simulation.facts import Facts
from tests.simulation.keys import ToyKeys

SEGMENT_BYTES = 16 * 1024  # small, so that segments roll


class Downlink:
    """Results and plans that wait for devices. In the product another store keeps them; here they survive crashes."""

    def __init__(self, keys: ToyKeys) -> None:
        self._keys = keys
        self.rows: dict[DeviceId, list[Mapping[str, object]]] = {}
        self.version = 0

    def results(self, device: DeviceId, after: int, limit: int) -> Sequence[tuple[int, Mapping[str, object]]]:
        rows = self.rows.get(device, [])
        return [(at + 1, rows[at]) for at in range(after, min(len(rows), after + limit))]

    def plan(
        self, device: DeviceId, newer_than: int, operators: frozenset[str] | None
    ) -> PlanMessage | PlanWithheld | None:
        if self.version <= newer_than:
            return None
        plan = b"plan %d" % self.version
        return PlanMessage(device, self.version, plan, self._keys.sign(PlanMessage.signed(self.version, plan)))

    def hint(self, device: DeviceId) -> Hint | None:
        return Hint(device, {"gps": 0.5}) if self.version else None

    def next_deployment(self, device: DeviceId, follows: tuple[int, int]) -> None:
        return None


class Cloud:
    name = "cloud"

    def __init__(
        self,
        *,
        clock: Clock,
        rng: Random,
        facts: Facts,
        keys: ToyKeys,
        session_lifetime_s: int,
        send: Callable[[int, bytes], None],
        tell: Callable[[str, str, str], None],
        observe: Callable[[object], None],
    ) -> None:
        self.disk = SimulatedDisk(rng)
        self.keys = keys
        self.downlink = Downlink(keys)
        self.enrolments: dict[DeviceId, Enrolment] = {}
        self._clock = clock
        self._rng = rng
        self._facts = facts
        self._lifetime_s = session_lifetime_s
        self._send = send
        self._tell = tell
        self._observe = observe
        self._boot = 0
        self._committing = False
        self.up = False
        self.committed: list[Record] = []  # since the checkers last looked
        self.reread = False  # the log was opened anew: look at all of it
        self.log: Log
        self.receiver: Receiver
        self.start()

    def find(self, device: DeviceId) -> Enrolment | None:
        return self.enrolments.get(device)

    def enrol(self, public_key: bytes) -> None:
        """Enrol, or enrol again as the next incarnation."""
        device = device_id(public_key)
        before = self.enrolments.get(device)
        self.enrolments[device] = Enrolment(public_key, 1 if before is None else before.incarnation + 1)

    def start(self) -> None:
        if self.up:
            return
        self.up = True
        self._boot += 1
        try:
            self.log = Log.open(self.disk, segment_bytes=SEGMENT_BYTES)
        except (Crash, OSError):
            self.crash()
            return
        sessions = GatewaySessions(self.keys, self, lifetime_s=self._lifetime_s)
        self.receiver = Receiver(self.log, sessions, self.downlink, self.keys)
        self._committing = False
        self.reread = True
        self._tell(self.name, "start", f"boot {self._boot}")

    def crash(self, down_s: float = 1.0) -> None:
        if not self.up:
            return
        self.up = False
        self._facts.crashes += 1
        self.committed.clear()
        self.disk.crash()
        self._tell(self.name, "crash", f"for {down_s:.1f} s")
        self._clock.after(down_s, self.start)

    def deliver(self, phone: int, body: bytes) -> None:
        if not self.up:
            return
        self.receiver.receive(Arrival(phone, body), self._clock.now)
        for event in self.receiver.events():
            self._observe(event)
        if not self._committing:
            self._begin()

    def _begin(self) -> None:
        """Decide on a group; the disk gets to it a little later, and more may arrive meanwhile."""
        step = self.receiver.step(self._clock.now)
        if not step:
            return
        self._committing = True
        self.log.append([Record(int(self._clock.now * 1e6), record.frame, record.digest) for record in step.persist])
        self._clock.after(self._rng.uniform(0.0, 0.03), self._finish, self._boot, step, self.log.take())

    def _finish(self, boot: int, step: Step[LogRecord, Reply], group: Group) -> None:
        if not self.up or boot != self._boot:
            return
        try:
            self.log.commit(group)
        except Crash:
            self.crash()
            return
        except (OSError, ResurgeError) as error:
            self._facts.disk_faults += 1
            self._tell(self.name, "disk fault", str(error))
            self._stop()
            return
        self._committing = False
        self.committed += group.records
        elements = sum(record.hi - record.lo for record in step.persist)
        self._tell(self.name, "commit", f"{len(step.persist)} records {elements} elements {len(step.send)} replies")
        for reply in step.send:
            self._send(int(str(reply.handle)), reply.body)
        self._begin()

    def _stop(self) -> None:
        """The disk refused. Full: read the log again and go on. A failed sync: the process ends and starts over."""
        if self.disk.sync_fails or not self.disk.full:
            self.crash()
            return
        self._facts.reopened += 1
        try:
            self.log = Log.open(self.disk, segment_bytes=SEGMENT_BYTES)
        except (OSError, Crash):
            self.crash()
            return
        self.receiver.abandon(self.log)
        self._committing = False
        self.reread = True
        self._tell(self.name, "reopen", "")
