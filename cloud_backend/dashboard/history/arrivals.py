"""What the log says about contact: elements per second by device, and the gaps in which nothing came.

A phone in use leaves data or a frontier in the log at a steady pace, and paces differ: one exchanges every second,
another every minute to spare its radio. A device announces how often it exchanges at least, and a silence much longer
than that is an outage, whoever caused it: the phone, its network, or this gateway being down. One that announced
nothing is judged by its usual gap. Reading it from the log keeps the picture after a restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from shared.wire.frame import FrameType, stored_header

SECOND_US = 1_000_000
HISTORY_S = 600
RATE_SPAN_S = 60
GAP_US_MIN = 5 * SECOND_US  # no shorter gap is ever an outage
GAP_US_UNKNOWN = 90 * SECOND_US  # while a device's usual gap is not known: three of a node's longest polls
GAPS_KNOWN = 3
GAP_FACTOR = 3
GAP_WEIGHT = 0.2  # of the newest gap in the running mean
POLL_FACTOR = 1.5  # an exchange may be late by half of what was announced, and by GAP_US_MIN


@dataclass(slots=True)
class DeviceArrivals:
    last_us: int | None = None  # its last record in the log
    contact_us: int = 0  # its last exchange, which may have left nothing in the log
    poll_us: float | None = None  # it announced that it exchanges at least this often
    gaps: int = 0
    gap_us: float = 0.0  # running mean of gaps that were no outage
    outage_count: int = 0
    outages: deque[tuple[int, int]] = field(default_factory=deque)  # only those that ended within the history
    elements: dict[int, int] = field(default_factory=dict)  # second -> elements that arrived in it, ascending

    def gap_us_max(self) -> float:
        """How long a silence may last before it is an outage."""
        if self.poll_us is not None:
            return GAP_US_MIN + POLL_FACTOR * self.poll_us
        return max(GAP_US_MIN, GAP_FACTOR * self.gap_us) if self.gaps >= GAPS_KNOWN else GAP_US_UNKNOWN

    def record_contact(self, received_us: int) -> None:
        if self.last_us is not None:
            before_us = max(self.last_us, min(self.contact_us, received_us))
            gap_us = received_us - before_us
            if gap_us > self.gap_us_max():
                self.outages.append((before_us, received_us))
                self.outage_count += 1
            elif gap_us > 0:  # records of one exchange share their time
                self.gap_us += (gap_us - self.gap_us) * (GAP_WEIGHT if self.gaps else 1.0)
                self.gaps += 1
        self.last_us = max(received_us, self.last_us or received_us)

    def rate(self) -> float:
        """Elements per second over the last minute before the device was last heard."""
        last = (self.last_us or 0) // SECOND_US
        return sum(count for second, count in self.elements.items() if second > last - RATE_SPAN_S) / RATE_SPAN_S


class Arrivals:
    def __init__(self) -> None:
        self._devices: dict[str, DeviceArrivals] = {}
        self._seconds: dict[int, int] = {}  # elements of all devices

    def take(self, received_us: int, frame: bytes | memoryview) -> None:
        """Account for one record of the log; records come in the order they were received."""
        header = stored_header(frame)
        device = self._devices.setdefault(header.source.hex(), DeviceArrivals())
        device.record_contact(received_us)
        if header.kind == FrameType.DATA:
            second = received_us // SECOND_US
            device.elements[second] = device.elements.get(second, 0) + header.elements
            self._seconds[second] = self._seconds.get(second, 0) + header.elements
        oldest = received_us // SECOND_US - HISTORY_S
        while device.elements and (first := next(iter(device.elements))) < oldest:
            del device.elements[first]
        while self._seconds and (first := next(iter(self._seconds))) < oldest:
            del self._seconds[first]
        while device.outages and device.outages[0][1] < oldest * SECOND_US:
            device.outages.popleft()

    def contact(self, device: str, at_us: int | None, poll_s: float | None) -> DeviceArrivals:
        """Note a device's last exchange and what it announced; returns what is known of it."""
        known = self._devices.setdefault(device, DeviceArrivals())
        known.contact_us = max(known.contact_us, at_us or 0)
        known.poll_us = None if poll_s is None else poll_s * SECOND_US
        return known

    def device(self, device: str) -> DeviceArrivals:
        return self._devices.get(device) or DeviceArrivals()

    def per_second(self, *, start: int, end: int, devices: Collection[str]) -> dict[str, list[int]]:
        """Elements that arrived in each second of [start, end), of these devices."""
        return {
            device: [arrivals.elements.get(second, 0) for second in range(start, end)]
            for device in sorted(devices)
            if (arrivals := self._devices.get(device)) is not None
        }

    def total(self, *, start: int, end: int) -> list[int]:
        """The same over all devices."""
        return [self._seconds.get(second, 0) for second in range(start, end)]

    def rate(self, now_us: int) -> float:
        """Elements per second over the last minute, of all devices."""
        last = now_us // SECOND_US
        return sum(self._seconds.get(second, 0) for second in range(last - RATE_SPAN_S, last)) / RATE_SPAN_S
