"""Phones that send to a gateway whose log is in Kafka, and what must hold whatever was killed meanwhile."""

from __future__ import annotations

import http.client
import threading
from pathlib import Path

from cloud_backend.log.kafka.verify import verify
from cloud_backend.log.partitions import open_log
from shared.identity import DeviceId
from shared.wire.frame import FrameType, decode_one
from shared.wire.messages import Data
from tests.cloud_backend.gateway.phone_client import PhoneClient
from tests.patience import LOOK_AGAIN_S, let_pass, wait_until
from tests.processes.digests import digest_of, sent
from tests.processes.gateway_process import GatewayProcess

BATCH = 20
COLUMNS = bytes(200)
UNAVAILABLE = 503
REFUSED_S = LOOK_AGAIN_S  # a phone that was refused comes back


class Upload:
    """Some phones, each sending its share from a thread of its own until a receipt covers all of it."""

    def __init__(self, gateway: GatewayProcess, *, phones: int, elements: int) -> None:
        self.gateway, self.elements = gateway, elements
        self.phones = [gateway.phone(f"phone {number}") for number in range(phones)]
        self.statuses: list[int] = []  # of exchanges that were refused
        self.cut = 0  # exchanges whose connection broke
        self._given_up = False  # the test has failed: nobody waits for the rest
        self._threads = [threading.Thread(target=self._send, args=(phone,), daemon=True) for phone in self.phones]

    def __enter__(self) -> Upload:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        self._given_up = failure is not None
        self.finish()

    @property
    def receipts(self) -> int:
        """Elements that receipts cover by now."""
        return sum(phone.next for phone in self.phones)

    def reach(self, share: float) -> None:
        """Until receipts cover this share of everything."""
        wait_until(lambda: self.receipts >= share * self.elements * len(self.phones), f"{share:.0%} was sent")

    def finish(self) -> None:
        for thread in self._threads:
            thread.join()

    def _send(self, phone: PhoneClient) -> None:
        in_session = True
        while phone.next < self.elements and not self._given_up:
            try:
                if not in_session and phone.hello()[0] != 200:
                    let_pass(REFUSED_S)
                    continue
                in_session = True
                body = phone.batch(phone.next, phone.next + BATCH, COLUMNS)
                status, frames = phone.exchange(phone.declare(), body)
                if status == 200:
                    phone.next = max(frame.seq for frame in frames)
                    continue
                self.statuses.append(status)
                in_session = status == UNAVAILABLE  # else the gateway is another one by now
            except (OSError, http.client.HTTPException):
                self.cut += 1
            let_pass(REFUSED_S)

    def check(self, location: str) -> str:
        """Receipts are a subset of the log, each number is there once, the chain holds, and every replay is the same;
        in words, for a claim."""
        found = verify(location)
        for phone in self.phones:
            (edge,) = [edge for key, edge in found.edges.items() if key.device == phone.device]
            assert edge.through >= phone.next, "a receipt covers what the log does not hold"
        assert (found.duplicates, found.gaps) == (0, 0)
        expected = sent([phone.device for phone in self.phones], self.elements, BATCH, COLUMNS)
        devices = {phone.device for phone in self.phones}
        first, again = logged(location, devices), logged(location, devices)
        assert first == again == expected
        return f"{found.records} records, {first[0]} elements, digests {expected[1]} {first[1]} {again[1]}"


def logged(location: str, devices: set[DeviceId]) -> tuple[int, str]:
    """(elements, digest) of every batch of these devices, in all partitions."""
    reader = open_log(location)
    starts, ends = reader.starts(), reader.ends()
    frames = (decode_one(record.frame)[0] for each in ends for _, record in reader.read(each, starts[each], ends[each]))
    batches = (Data.of(frame) for frame in frames if frame.type is FrameType.DATA and frame.source in devices)
    return digest_of((batch.device, batch.lo, batch.hi, bytes(batch.columns)) for batch in batches)


def gateway_on(home: Path, location: str, *options: str) -> GatewayProcess:
    return GatewayProcess(home, "--log", location, "--rate", "100000", *options)
