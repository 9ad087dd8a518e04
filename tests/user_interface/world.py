"""A gateway's morning, written through the real log and the real results store, for pages to show.

Three phones on a bus line; one goes through a tunnel, one sits behind a relay that restarts, one is offline now.
Everything is a function of the clock that is handed in: the same picture every time.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

from cloud_backend.dashboard.fleet.overview import FleetOverview
from cloud_backend.dashboard.fleet.phones import Contact
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from cloud_backend.results.store import ResultRow, Results
from shared.identity import DeviceId, EdgeId, device_id, edge_id
from shared.spool.disk import PosixDisk
from shared.wire.frame import Frame, FrameType, encode
from shared.wire.status import DeviceStatus

SECOND_US = 1_000_000
NOW_US = 1_794_816_000 * SECOND_US  # a fixed morning
EDGE: EdgeId = edge_id("gps")
HISTORY_S = 300
WINDOW_S = 30


class PhoneOnLine:
    def __init__(self, name: str, lane: str, outages: tuple[tuple[int, int], ...], ledgered: int = 0) -> None:
        self.name = name
        self.lane = lane
        self.outages = outages  # seconds before now: from, to
        self.ledgered = ledgered
        self.device: DeviceId = device_id(name.encode())
        self.next_seq = 0

    def connected(self, second: int) -> bool:
        return not any(start >= -second > end for start, end in self.outages)


def phones() -> list[PhoneOnLine]:
    return [
        PhoneOnLine("tram-07", "gateway", ((210, 168), (70, 58))),
        PhoneOnLine("bus-12", "relay", ((150, 118),)),
        PhoneOnLine("bicycle-3", "gateway", ((250, 236), (41, 0)), ledgered=24),
    ]


def build(directory: Path, *, now_us: int = NOW_US) -> FleetOverview:
    """A feed over a log and a store with five minutes of history in them."""
    log = Log.open(PosixDisk(directory / "log"))
    fleet = phones()
    for second in range(-HISTORY_S, 0):
        log.append([record for phone in fleet for record in _exchange(phone, second, now_us)])
    log.sync()
    results = Results(directory / "results.db")
    for epoch, end in enumerate(range(-HISTORY_S + WINDOW_S, 1, WINDOW_S), start=1):
        results.publish(epoch, [_result(phone, end, now_us) for phone in fleet if phone.connected(end - 1)])
    contacts = [_contact(phone, now_us) for phone in fleet]
    names = {contact.device: contact.name for contact in contacts}
    return FleetOverview(
        log=log, results=results, contacts=lambda: contacts, clock_us=lambda: now_us, names=lambda: names
    )


def build_empty(directory: Path) -> FleetOverview:
    return FleetOverview(
        log=Log.open(PosixDisk(directory / "log")),
        results=Results(directory / "results.db"),
        contacts=lambda: [],
        clock_us=lambda: NOW_US,
    )


def _exchange(phone: PhoneOnLine, second: int, now_us: int) -> list[Record]:
    if not phone.connected(second):
        return []
    received_us = now_us + second * SECOND_US + 250_000
    produced = (second + HISTORY_S) * 4 + random.Random(f"{phone.name} {second}").randrange(4)
    records: list[Record] = []
    if phone.ledgered and second > -200:
        records.append(Record(received_us, _frame(phone, FrameType.TOMBSTONE, phone.ledgered)))
        phone.ledgered = 0
    records.append(Record(received_us, _frame(phone, FrameType.DATA, max(produced - phone.next_seq, 1))))
    return records


def _frame(phone: PhoneOnLine, kind: FrameType, count: int) -> bytes:
    frame = Frame(kind, phone.device, incarnation=1, edge=EDGE, seq=phone.next_seq, count=count)
    phone.next_seq += count
    return encode(frame)


def _result(phone: PhoneOnLine, end: int, now_us: int) -> ResultRow:
    pace = {"tram-07": 0.31, "bus-12": 0.24, "bicycle-3": 0.13}[phone.name]
    return ResultRow(
        sink="my_trips", device=phone.device.hex(), key=(phone.device.hex(),),
        window_start_us=now_us + (end - WINDOW_S) * SECOND_US, window_end_us=now_us + end * SECOND_US, revision=1,
        retract=False, complete=True,
        values={"km": pace * (1 + 0.35 * math.sin(end / 37 + len(phone.name))), "points": 4 * WINDOW_S},
    )  # fmt: skip


def _contact(phone: PhoneOnLine, now_us: int) -> Contact:
    away = next((start for start, end in phone.outages if end == 0), 0)
    last_seen_us = now_us - (away or 1) * SECOND_US
    # The one that is away had not sent everything when its network went.
    status = DeviceStatus(lane=phone.lane, produced=phone.next_seq + (12 if away else 3), incarnation=1)
    return Contact(phone.device.hex(), phone.name, last_seen_us, status)
