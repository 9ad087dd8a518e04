"""What goes down to devices in the answer to an exchange: results, a newer plan, and hints to slow down.

Every exchange asks, so the answer "nothing new" must cost next to nothing. The results store belongs to another
process; `refresh` notices once a tick that it changed, and only then is it queried again, per device, as devices ask.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from cloud_backend.coordinator.device_operators import lacking
from cloud_backend.coordinator.fleet_requests import FleetRequests
from cloud_backend.coordinator.groups import GroupPlan, Groups, Membership, plan_for
from cloud_backend.database import DatabaseLost
from cloud_backend.gateway.fleet import GatewayFleet
from cloud_backend.results.store import ResultRow, Results
from shared.errors import ResurgeError
from shared.identity import DeviceId
from shared.sync.session import GatewayKeys
from shared.wire.messages import Hint, PlanMessage, PlanWithheld
from shared.wire.packed_deployment import NextDeployment

FULL_RATE = 1.0
RATE_MIN = 0.1
_IS_HEX = re.compile(r"(?:[0-9a-f]{2})*").fullmatch


class GatewayDownlink:
    def __init__(
        self,
        keys: GatewayKeys,
        *,
        results: Results | None,
        plan: Path | None,
        fleet: GatewayFleet | None = None,
        clock_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._keys = keys
        self._fleet = fleet
        self._results = results
        self._plan_path = plan
        self._plan_seen: tuple[int, int] | None = None  # modification time and size of the file last read
        self._plan: GroupPlan | None = None  # of all devices that are in no group with one of its own
        self._groups: Mapping[str, GroupPlan] = {}
        self._members: Mapping[DeviceId, Membership] = {}
        self._group_needs: dict[str, frozenset[str]] = {}
        self._signatures: dict[tuple[str, int], bytes] = {}  # of plans that were sent, by group and version
        self._heads: dict[DeviceId, int] = {}
        self._acknowledged: dict[DeviceId, int] = {}
        self._followed = 0 if results is None else results.change()  # up to which change devices heard of their results
        self.needs: frozenset[str] = frozenset()  # operator types that the plan wants of a device
        self.able_build = ""  # an app that has them, as devices said
        self._rate = FULL_RATE
        self.device_rates: Mapping[DeviceId, float] = {}  # what an operator configured, where it is less than all
        self._lock = threading.Lock()
        self._clock_us = clock_us
        self.requests = FleetRequests()  # what people ask of coordinators

    @property
    def plan_version(self) -> int | None:
        return None if self._plan is None else self._plan.version

    # -- asked by the receiver -----------------------------------------------------------------------------------

    def results(self, device: DeviceId, after: int, limit: int) -> Sequence[tuple[int, Mapping[str, object]]]:
        if self._results is None:
            return ()
        try:
            head = self._heads.get(device)
            if head is None:
                head = self._heads[device] = self._results.downlink_head(device.hex())
            found = [] if head <= after else self._results.downlink(device.hex(), after, limit)
        except DatabaseLost:  # results wait for a server that is away; readings go into the log, which is here
            return ()
        return [(seq, result_body(row)) for seq, row in found]

    def has_results(self, device: DeviceId, after: int) -> bool:
        """Whether a row waits for it. Numbers may be given without one: what was deleted since comes no more."""
        return bool(self.results(device, after, 1))

    def has_passed(self, device: DeviceId) -> bool:
        """Whether another node has something for it."""
        return self._fleet is not None and self._fleet.has_passed(device)

    def plan(
        self, device: DeviceId, newer_than: int, operators: frozenset[str] | None
    ) -> PlanMessage | PlanWithheld | None:
        """Its group's newest plan, if it is newer. A device that lacks an operator type of it keeps what it has."""
        found = plan_for(self._members.get(device), self._groups, self._plan)
        if found is None or found[1].version <= newer_than:
            return None
        group, plan = found
        if lacks := lacking(self._group_needs[group] if group else self.needs, operators):
            return PlanWithheld(device, plan.version, lacks, "" if group else self.able_build)
        signed = (group, plan.version)
        if signed not in self._signatures:
            self._signatures[signed] = self._keys.sign(PlanMessage.signed(plan.version, plan.encoded))
        return PlanMessage(device, plan.version, plan.encoded, self._signatures[signed])

    def hint(self, device: DeviceId) -> Hint | None:
        """Only while the log cannot be emptied as fast as it fills, or the operator wants less of this device; `*`
        stands for every sensor. And while it has not answered what people ask of its fleet."""
        rate = min(self._rate, self.device_rates.get(device, FULL_RATE)) if self.device_rates else self._rate
        rates = {"*": rate} if rate < FULL_RATE else {}
        moves = self.requests.waiting(device, self._clock_us())
        cuts = () if self._fleet is None else self._fleet.orders(device)
        if moves:
            return Hint(device, rates, moves, self._keys.sign(Hint.signed(device, moves)), cuts)
        return Hint(device, rates, cuts=cuts) if rates or cuts else None

    def next_deployment(self, device: DeviceId, follows: tuple[int, int]) -> NextDeployment | None:
        """What a node of the gateway's fleet should run; its version has nothing to do with the plan's."""
        return None if self._fleet is None else self._fleet.next_deployment(device, follows)

    # -- called by the gateway now and then ------------------------------------------------------------------------

    def acknowledged(self, device: DeviceId, through: int) -> None:
        with self._lock:
            self._acknowledged[device] = max(through, self._acknowledged.get(device, 0))

    def follow_results(self) -> tuple[DeviceId, ...]:
        """For whom there are results since the last call. Blocks on a file: use a thread."""
        if self._results is None:
            return ()
        told: set[str] = set()
        while True:
            before = self._followed
            self._followed, devices = self._results.told_since(before)
            told |= devices
            if self._followed == before:
                return self.forget_heads(told)

    def forget_heads(self, told: Iterable[str]) -> tuple[DeviceId, ...]:
        """There is something new for these devices."""
        devices = tuple(DeviceId(bytes.fromhex(device)) for device in told if _IS_HEX(device))
        for device in devices:
            self._heads.pop(device, None)
        return devices

    def refresh(self) -> None:
        """Notice new results and a new plan, and forget results that devices hold. Blocks on files: use a thread."""
        if self._results is not None:
            with self._lock:
                acknowledged, self._acknowledged = self._acknowledged, {}
            for device, through in acknowledged.items():
                self._results.trim(device.hex(), through)
            self._heads = {}
        self._read_plan()

    def follow_groups(self, groups: Groups) -> None:
        """Who is in which group, and what those run. Blocks on a file: use a thread."""
        plans = groups.plans()
        if plans != self._groups:
            from shared.plan.encoding import decode_plan
            from shared.plan.wellformed import operators_on_device

            self._group_needs = {name: operators_on_device(decode_plan(each.encoded)) for name, each in plans.items()}
            self._signatures = {}
        self._groups, self._members = plans, groups.members()

    def press(self, unread_bytes: int, unread_bytes_max: int, asked: object = None) -> None:
        """Ask devices for a share of their rate (SO-35): what the job asks for, or less if the log, which nobody may be
        reading at all, needs less to come back under its bound."""
        rate = FULL_RATE if unread_bytes <= unread_bytes_max else unread_bytes_max / unread_bytes
        if isinstance(asked, int | float):
            rate = min(rate, asked)
        self._rate = min(FULL_RATE, max(RATE_MIN, rate))

    def _read_plan(self) -> None:
        if self._plan_path is None:
            return
        from shared.plan.encoding import decode_plan  # brings the whole operator registry: only where there are plans
        from shared.plan.wellformed import operators_on_device

        try:
            status = self._plan_path.stat()
            if (status.st_mtime_ns, status.st_size) == self._plan_seen:
                return
            data = self._plan_path.read_bytes()
            plan = decode_plan(data)
            version, needs = plan.version, operators_on_device(plan)
        except (OSError, ResurgeError):
            return  # being written, or not a plan: the one we have stays, devices never see a broken one
        self._plan_seen = (status.st_mtime_ns, status.st_size)
        if plan.gathers:  # it has a region: the coordinator tells its nodes what to run, and Spark has the rest
            return
        if self._plan is None or version > self._plan.version:
            self.needs = needs
            self._plan = GroupPlan(version, data)
            self._signatures = {}


def result_body(row: ResultRow) -> dict[str, object]:
    """A result row as a device gets it. JSON has no NaN or infinity: they travel as null and as text."""
    return {
        "sink": row.sink,
        "key": list(row.key),
        "window_start_us": row.window_start_us,
        "window_end_us": row.window_end_us,
        "row": row.row,
        "revision": row.revision,
        "retract": row.retract,
        "complete": row.complete,
        "values": {
            name: _not_finite(value) if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in row.values.items()
        },
    }


def _not_finite(value: float) -> str | None:
    return None if math.isnan(value) else str(value)
