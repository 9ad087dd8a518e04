"""Sonora, Fig 12: total KB sent over time with a sync stream; a disconnection of one minute is masked.

The real sender, spool, session, receiver and log exchange real bytes; only time is virtual, so four minutes take a
moment and the run is the same every time. A location is taken every second and batched; at t0 the link goes away,
at t1 it is back.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from cloud_backend.gateway.keys import Keys as GatewayKeys
from cloud_backend.gateway.keys import load_keys as load_gateway_keys
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from mobile_app.home.keys import load_keys as load_device_keys
from resurge.lab._figure import draw, report, shape
from shared.batch import Batch
from shared.identity import EdgeId, device_id
from shared.language.schema import Schema
from shared.spool.disk import PosixDisk
from shared.spool.entry import SpooledBatch
from shared.spool.ring import Spool
from shared.sync.composer import EdgePolicy
from shared.sync.events import Disconnected, Reconnected
from shared.sync.pacing import Pacing
from shared.sync.persist import SyncSpool
from shared.sync.receiver import Arrival, Receiver
from shared.sync.sender import Sender
from shared.sync.session import DeviceSession, Enrolment, GatewaySessions
from shared.wire.columns import encode
from shared.wire.frame import FrameType, decode_one
from shared.wire.messages import Hint, PlanMessage

SCHEMA = Schema.of({"lat": "float64", "lon": "float64", "accuracy": "float32"})
CUT_FROM_S, CUT_UNTIL_S, END_S = 90, 150, 240
BATCH_ROWS = 5
CAUGHT_UP_WITHIN_S = 20


class Cloud:
    """The receiver and its log on a real disk; nothing waits for the device in this experiment."""

    def __init__(self, directory: Path) -> None:
        self.keys: GatewayKeys = load_gateway_keys(directory)
        self.log = Log.open(PosixDisk(directory / "log"))
        self.enrolment: Enrolment | None = None
        self.receiver = Receiver(self.log, GatewaySessions(self.keys, self), self, self.keys)

    def find(self, *_: object) -> Enrolment | None:
        return self.enrolment

    def results(self, *_: object) -> list[tuple[int, dict[str, object]]]:
        return []

    def plan(self, *_: object) -> PlanMessage | None:
        return None

    def hint(self, *_: object) -> Hint | None:
        return None

    def next_deployment(self, *_: object) -> None:
        return None

    def exchange(self, body: bytes, now: float) -> bytes:
        self.receiver.receive(Arrival(None, body), now)
        step = self.receiver.step(now)
        self.log.append([Record(int(now * 1e6), record.frame, record.digest) for record in step.persist])
        self.log.sync()
        return step.send[0].body


@dataclass(slots=True)
class SimulatedPhone:
    """A sender and its driver. `sent_kb[t]` is the total after second t."""

    sender: Sender
    spool: Spool
    edge: EdgeId
    rows: list[tuple[float, float, float]] = field(default_factory=list)
    sent_bytes: int = 0
    sent_kb: list[float] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    outages: list[object] = field(default_factory=list)

    def sense(self, now: float, rng: Random) -> None:
        angle = now / 300.0
        noise = rng.gauss(0.0, 2e-6)
        self.rows.append((round(47.56 + 0.01 * np.sin(angle) + noise, 6), round(7.59 + 0.01 * np.cos(angle), 6), 8.0))
        if len(self.rows) == BATCH_ROWS:
            self._spool_batch(now)

    def _spool_batch(self, now: float) -> None:
        lo = self.spool.head(self.edge)
        columns = {name: [row[at] for row in self.rows] for at, name in enumerate(SCHEMA.names)}
        times = [int((now - BATCH_ROWS + 1 + at) * 1e6) for at in range(BATCH_ROWS)]
        batch = Batch.of(SCHEMA, columns, times, lo=lo, frontier_us=times[-1])
        codec, payload = encode(batch)
        self.sender.append(
            SpooledBatch(self.edge, lo, batch.hi, BATCH_ROWS, SCHEMA.id, 0, times[-1], codec, payload),
            now,
        )
        self.rows.clear()

    def drive(self, now: float, cloud: Cloud, *, connected: bool) -> None:
        self.sender.wake(now)
        while step := self.sender.step(now):
            for item in step.persist:
                if isinstance(item, SyncSpool):
                    self.spool.sync()
            for body in step.send:
                if connected:
                    self.sent_bytes += len(body)
                    self.sender.receive(cloud.exchange(body, now), now)
                else:
                    self.sender.fail(now)
        self.outages += [event for event in self.sender.events() if isinstance(event, Disconnected | Reconnected)]


def _measure(directory: Path) -> tuple[SimulatedPhone, int, int]:
    """(the phone after the run, elements produced, elements in the log)."""
    cloud = Cloud(directory / "cloud")
    keys = load_device_keys(directory / "phone", cloud.keys.public_key)
    device = device_id(keys.public_key)
    cloud.enrolment = Enrolment(keys.public_key, 1)
    disk = PosixDisk(directory / "phone" / "spool")
    spool = Spool.create(disk, capacity_bytes=1 << 20, device=device, incarnation=1)
    rng = Random(12)
    sender = Sender(spool, DeviceSession(keys, device, 1), pacing=Pacing(), rng=rng)
    edge = sender.declare("locations", SCHEMA, EdgePolicy(within_s=0.0))
    phone = SimulatedPhone(sender, spool, edge)
    for second in range(END_S):
        now = float(second)
        phone.sense(now, rng)
        phone.drive(now, cloud, connected=not CUT_FROM_S <= second < CUT_UNTIL_S)
        phone.sent_kb.append(round(phone.sent_bytes / 1000, 3))
        phone.waiting.append(sum(1 for _ in spool.pending(edge)))
    produced = spool.head(edge)
    delivered = 0
    for _, record in cloud.log.read(cloud.log.start, cloud.log.durable_end):
        frame, _ = decode_one(record.frame)
        delivered += frame.count if frame.type is FrameType.DATA else 0
    return phone, produced, delivered


def run() -> dict[str, Any]:
    """The figure's shape: flat while cut, nothing lost, a burst afterwards, then the same slope as before."""
    with tempfile.TemporaryDirectory(prefix="resurge-lab-") as directory:
        phone, produced, delivered = _measure(Path(directory))
    sent = phone.sent_kb
    caught_up = next(t for t in range(CUT_UNTIL_S, END_S) if phone.waiting[t] == 0)
    burst_kb = sent[caught_up] - sent[CUT_UNTIL_S - 1]
    before = (sent[CUT_FROM_S - 1] - sent[29]) / (CUT_FROM_S - 30)
    after = (sent[END_S - 1] - sent[caught_up]) / (END_S - 1 - caught_up)
    flat_kb = sent[CUT_UNTIL_S - 1] - sent[CUT_FROM_S - 1]
    shapes = [
        shape("nothing is sent while disconnected, KB", 0, flat_kb, flat_kb == 0),
        shape("elements produced and delivered", "all of them", [produced, delivered], produced == delivered == END_S),
        shape("seconds from reconnection to an empty spool", "a jump", caught_up - CUT_UNTIL_S,
              caught_up - CUT_UNTIL_S <= CAUGHT_UP_WITHIN_S),
        shape("the burst carries the minute's batches: KB, KB a minute before", "a jump",
              [round(burst_kb, 2), round(60 * before, 2)], burst_kb > 20 * before),
        shape("the slope after is the slope before, KB/s", "the same", [round(before, 4), round(after, 4)],
              0.8 < after / before < 1.25),
        shape("the program saw one disconnection and one return", "-", [type(each).__name__ for each in phone.outages],
              [type(each) for each in phone.outages] == [Disconnected, Reconnected]),
    ]  # fmt: skip
    lines = {
        "total KB sent": [(float(second), total) for second, total in enumerate(sent)],
        "batches waiting": [(float(second), float(count)) for second, count in enumerate(phone.waiting)],
        "disconnected": [(float(CUT_FROM_S), 0.0), (float(CUT_UNTIL_S), 0.0)],
    }
    return report(
        "sonora-disconnect", "Sonora Fig 12", shapes, t0_s=CUT_FROM_S, t1_s=CUT_UNTIL_S,
        paper="total KB sent is flat between t0 and t1 = t0 + 60 s and jumps after t1; no values are printed",
        sent_kb_every_10_s=sent[::10], batches_waiting_max=max(phone.waiting),
        drawn=draw("sonora-disconnect", "A minute without a network", "seconds", "KB sent; batches waiting", lines),
    )  # fmt: skip
