"""The gateway's machines behind a link, in memory: what a node's test needs of a gateway and no more."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from cloud_backend.gateway.keys import Keys
from mobile_app.links.link import LinkDown
from shared.identity import DeviceId, EdgeId, EdgeKey, device_id
from shared.plan.encoding import encode_plan
from shared.plan.graph import Plan
from shared.sync.receiver import Arrival, Receiver
from shared.sync.session import Enrolment, GatewaySessions
from shared.wire.frame import Frame, FrameType, decode_one
from shared.wire.messages import Hint, PlanMessage, PlanWithheld


class SmallGateway:
    """A link whose other end is right here. Set `plan`, `rows`, `rates`, `down`; look at `records`."""

    def __init__(self) -> None:
        self.keys = Keys(b"g" * 32)
        self.down = False
        self.plan_to_send: Plan | None = None
        self.withhold: tuple[tuple[str, ...], str] | None = None  # what the device lacks, and an app that has it
        self.rows: list[Mapping[str, object]] = []
        self.rates: dict[str, float] = {}
        self.records: list[Frame] = []
        self._enrolled: dict[DeviceId, Enrolment] = {}
        self.receiver = Receiver(self, GatewaySessions(self.keys, self), self, self.keys)

    def enrol_key(self, public_key: bytes, incarnation: int = 1) -> None:
        self._enrolled[device_id(public_key)] = Enrolment(public_key, incarnation)

    def wait(self, body: bytes) -> bool:
        raise LinkDown(f"nobody can wait here ({len(body)} bytes)")

    # --- what the machines ask -------------------------------------------------------------------------------

    def find(self, device: DeviceId) -> Enrolment | None:
        return self._enrolled.get(device)

    takes_marks = False  # they are for vertices; what is in the log is safe as it is

    def producer_term(self, carrier: DeviceId, key: EdgeKey) -> int | None:
        """None: a device sends its own elements here, nobody else's."""
        return None

    def high_water(self, key: EdgeKey) -> int:
        ends = [
            frame.seq + frame.count
            for frame in self.records
            if frame.type in (FrameType.DATA, FrameType.TOMBSTONE)
            and EdgeKey(frame.source, frame.incarnation, frame.edge) == key
        ]
        return max(ends, default=0)

    def edges_of(self, device: DeviceId, incarnation: int) -> dict[EdgeId, int]:
        return {frame.edge: 0 for frame in self.records if (frame.source, frame.incarnation) == (device, incarnation)}

    def results(self, device: DeviceId, after: int, limit: int) -> Sequence[tuple[int, Mapping[str, object]]]:
        return [(number + 1, self.rows[number]) for number in range(after, min(len(self.rows), after + limit))]

    def plan(
        self, device: DeviceId, newer_than: int, operators: frozenset[str] | None
    ) -> PlanMessage | PlanWithheld | None:
        if self.plan_to_send is None or self.plan_to_send.version <= newer_than:
            return None
        if self.withhold is not None:
            return PlanWithheld(device, self.plan_to_send.version, *self.withhold)
        encoded, version = encode_plan(self.plan_to_send), self.plan_to_send.version
        return PlanMessage(device, version, encoded, self.keys.sign(PlanMessage.signed(version, encoded)))

    def hint(self, device: DeviceId) -> Hint | None:
        return Hint(device, rates=self.rates) if self.rates else None

    def next_deployment(self, device: DeviceId, follows: tuple[int, int]) -> None:
        return None

    # --- the link ----------------------------------------------------------------------------------------------

    def exchange(self, body: bytes) -> bytes:
        if self.down:
            raise LinkDown("no network")
        self.receiver.receive(Arrival(0, body), time.monotonic())
        step = self.receiver.step(time.monotonic())
        self.records += [decode_one(record.frame)[0] for record in step.persist]
        return bytes(step.send[0].body)

    def enrol(self, request: bytes) -> tuple[int, bytes]:
        raise LinkDown("enrol by hand")

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass
