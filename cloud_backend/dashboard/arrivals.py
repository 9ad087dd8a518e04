"""What the log says about contact: elements per second by device, and the gaps in which nothing came.

Every exchange of a device leaves at least a frontier in the log, so a gap between two records of a device that is
longer than `offline_after` is an outage, whoever caused it: the phone, its network, or this gateway being down.
Reading it from the log rather than counting it as it happens keeps the picture after a restart.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from shared.wire.frame import HEADER, FrameType

SECOND_US = 1_000_000
HISTORY_S = 600


@dataclass(slots=True)
class DeviceArrivals:
    last_us: int | None = None
    outage_count: int = 0
    outages: deque[tuple[int, int]] = field(default_factory=deque)  # only those that ended within the history
    elements: dict[int, int] = field(default_factory=dict)  # second -> elements that arrived in it, ascending


class Arrivals:
    def __init__(self, *, offline_after_us: int) -> None:
        self.offline_after_us = offline_after_us
        self._devices: dict[str, DeviceArrivals] = {}

    def take(self, received_us: int, frame: bytes) -> None:
        """Account for one record of the log; records come in the order they were received."""
        fields = HEADER.unpack_from(frame)
        kind, source, count = fields[2], fields[8], fields[11]
        device = self._devices.setdefault(source.hex(), DeviceArrivals())
        if device.last_us is not None and received_us - device.last_us > self.offline_after_us:
            device.outages.append((device.last_us, received_us))
            device.outage_count += 1
        device.last_us = max(received_us, device.last_us or received_us)
        if kind == FrameType.DATA:
            second = received_us // SECOND_US
            device.elements[second] = device.elements.get(second, 0) + count
        oldest = received_us // SECOND_US - HISTORY_S
        while device.elements and (first := next(iter(device.elements))) < oldest:
            del device.elements[first]
        while device.outages and device.outages[0][1] < oldest * SECOND_US:
            device.outages.popleft()

    def device(self, device: str) -> DeviceArrivals:
        return self._devices.get(device) or DeviceArrivals()

    def per_second(self, *, start: int, end: int) -> dict[str, list[int]]:
        """Elements that arrived in each second of [start, end), by device."""
        return {
            device: [arrivals.elements.get(second, 0) for second in range(start, end)]
            for device, arrivals in self._devices.items()
        }
