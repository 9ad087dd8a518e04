"""A device as the pages show it: what the roster knows, what the log holds, what the device said of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cloud_backend.coordinator.roster import RosterEntry
from cloud_backend.dashboard.fleet.phones import Phone
from cloud_backend.dashboard.history.arrivals import SECOND_US
from cloud_backend.dashboard.history.trails import Point, point_of
from shared.spool.advice import Advice, advice_of
from shared.wire.live import LiveReading
from shared.wire.status import NO_PLAN, DeviceStatus

NEARLY_FULL = 0.8  # of a spool
ALL_STREAMS = "all streams"  # a status says how fast they fill the spool together


@dataclass(frozen=True, slots=True)
class Device:
    """A row of the devices page: how a phone does, and what it reported of itself."""

    phone: Phone
    incarnation: int
    enrolled_us: int
    revoked_us: int | None
    status: DeviceStatus
    position: Point | None
    live: tuple[LiveReading, ...] = ()  # newer than what the log holds of their streams
    position_is_live: bool = False  # it comes from one of those
    group: str = ""

    @property
    def battery(self) -> float | None:
        """0 to 1."""
        return None if self.status.battery is None else self.status.battery / 100

    def own_now_us(self, now_us: int) -> int:
        """What the device takes for now: a recording is played at its own pace, and is not late for that."""
        return now_us if self.status.pace is None else self.status.pace.now_us(now_us)

    @property
    def plan(self) -> int | None:
        return None if self.status.plan == NO_PLAN else self.status.plan

    @property
    def state(self) -> str:
        if self.revoked_us is not None:
            return "revoked"
        if self.phone.since_us is None:
            return "new"
        return "connected" if self.phone.connected else "offline"

    @property
    def is_in_contact(self) -> bool:
        return self.state == "connected"

    @property
    def spool_share(self) -> float | None:
        held, room = self.status.spool_bytes, self.status.spool_capacity_bytes
        return min(held / room, 1.0) if held is not None and room else None

    def overwrites_in_s(self, now_us: int) -> float | None:
        """Until it has to give readings up, as far as is known; 0 where it may do so already, None where it will not.

        A device says how long its room lasts if nothing leaves it. In contact something does: then it only matters
        where the room is nearly gone all the same, or lasts no longer than until its next exchange.
        """
        room_s, since_us = self.status.full_in_s, self.phone.since_us
        if room_s is None or since_us is None:
            return None
        if not self.is_in_contact:
            return max(0.0, room_s - max(0, now_us - since_us) / SECOND_US)
        full = self.spool_share is not None and self.spool_share >= NEARLY_FULL
        return room_s if full or room_s <= (self.status.poll_s or 0.0) else None

    @property
    def advice(self) -> Advice | None:
        """How large its spool should be; None where it has not measured that."""
        said, room = self.status.advice, self.status.spool_capacity_bytes
        if said is None or room is None:
            return None
        return advice_of({ALL_STREAMS: said.bytes_per_s}, room, said.outages, said.p95_s, said.p99_s)


def device(
    entry: RosterEntry, phone: Phone, logged: Point | None, live: tuple[LiveReading, ...] = ()
) -> Device:  # fmt: skip
    position = newest_position(logged, live)
    return Device(
        phone=phone, incarnation=entry.incarnation, enrolled_us=entry.enrolled_us, revoked_us=entry.revoked_us,
        status=entry.status, position=position, live=live, position_is_live=position is not logged, group=entry.group,
    )  # fmt: skip


def newest_position(logged: Point | None, live: Sequence[LiveReading]) -> Point | None:
    """Where a device is: as the log has it, unless it said where it is now."""
    newest = logged
    for each in live:
        values = dict(each.values)
        point = point_of(each.time_us, values.get("lat"), values.get("lon"))
        if point is not None and (newest is None or point.time_us > newest.time_us):
            newest = point
    return newest
