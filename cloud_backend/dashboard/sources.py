"""What views read and acts change: one object, made once when the gateway starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from cloud_backend.contracts.audits import Audits
from cloud_backend.coordinator.alerts import Alerts
from cloud_backend.coordinator.device_operators import PlanNeeds, build_with
from cloud_backend.coordinator.fleet_requests import FleetRequests
from cloud_backend.coordinator.followers import Followers
from cloud_backend.coordinator.queries import Queries
from cloud_backend.coordinator.roster import Roster, RosterEntry
from cloud_backend.dashboard.fleet.device import Device
from cloud_backend.dashboard.fleet.devices import Fleet
from cloud_backend.dashboard.history.history import History
from cloud_backend.dashboard.history.job_facts import JobFacts
from cloud_backend.dashboard.sign_in.access import Access
from cloud_backend.gateway.fleet import GatewayFleet
from cloud_backend.gateway.live_readings import LiveReadings
from cloud_backend.log.kafka.copy import LogCopy
from cloud_backend.log.log import Log
from cloud_backend.log.partitions import Place
from cloud_backend.results.store import Results
from cloud_backend.spark.control.jobs import JobDirectory
from shared.errors import ResurgeError
from shared.identity import DeviceId
from shared.plan.encoding import decode_plan
from shared.plan.graph import Plan
from shared.plan.wellformed import operators_on_device

PROGRAM = "main"  # the job of the devices' own program; queries have names of their own


@dataclass(frozen=True, slots=True)
class Sources:
    home: Path  # of the gateway
    log: Log
    roster: Roster
    results: Results
    access: Access
    history: History  # of the log, by hour; what pages read instead of the log
    plan: Path | None  # the encoded program of the devices
    stores: Callable[[], Mapping[str, Path]]  # Spark jobs by name, with the directory of their manifest and records
    queries: Queries  # what people asked beside the program
    alerts: Alerts
    followers: Followers  # who is sent results
    contracts: Audits  # what was promised and what was kept
    jobs: JobDirectory | None  # where further jobs are wanted; None: nothing here would run them
    clock_us: Callable[[], int]
    version: str
    key: bytes = b""  # the gateway's public key: what the audit log is signed with
    quarantined: Callable[[], int] = lambda: 0  # elements that were delivered and that Spark could not use
    governed: GatewayFleet | None = None  # the nodes that this gateway coordinates
    requests: FleetRequests = field(default_factory=FleetRequests)  # what people ask of fleets' coordinators
    told_us: Callable[[], int | None] = lambda: None  # up to when all that was acknowledged is in `log`
    unread: Callable[[Place], int] = lambda _: 0  # bytes that a job has not read that has come to a place
    kafka: LogCopy | None = None  # where `log` is the copy of one in Kafka
    live: LiveReadings = field(default_factory=LiveReadings)  # of devices that catch up
    fleet: Fleet = field(init=False)
    facts: JobFacts = field(default_factory=JobFacts)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fleet", Fleet(self.log, self.history, self.live))

    def program(self) -> Plan | None:
        """The devices' program as it is now; None where there is none, or none that can be read."""
        return program_at(self.plan)

    def plan_needs(self) -> PlanNeeds | None:
        """What the program wants of a device beside what every app has; None where it wants nothing."""
        plan = self.program()
        needs = frozenset[str]() if plan is None else operators_on_device(plan)
        if plan is None or not needs:
            return None
        apart = frozenset(self.roster.groups.plans())
        return PlanNeeds(plan.version, needs, build_with(self.entries(), needs), apart)

    def plans(self) -> Iterator[Plan]:
        """What runs now: the queries' plans, then the program."""
        if self.jobs is not None:
            yield from map(self.jobs.plan, self.jobs.names())
        program = self.program()
        if program is not None:
            yield program

    def look(self) -> Fleet:
        """What is kept of the devices, with the log read up to now: costs those that are active."""
        self.history.follow(seconds_max=0.2)
        self.fleet.look(self.roster, self.clock_us())
        return self.fleet

    def devices(self) -> list[Device]:
        """Every device ever enrolled, by name: for what shows all of them."""
        return self.look().devices()

    def entries(self) -> list[RosterEntry]:
        return self.roster.entries()

    def device_names(self) -> DeviceNames:
        return DeviceNames(self.roster)

    def edge_names(self) -> dict[str, str]:
        """By number in hex, as the ledger has it."""
        self.history.begin()
        with self.history.lock:
            return {f"{edge:016x}": name for edge, name in self.history.names.items()}

    def look_again(self) -> None:
        """Read devices and jobs anew at the next look: something was just changed."""
        self.fleet.forget()
        self.facts.forget()

    def close(self) -> None:
        self.history.close()
        self.queries.close()
        self.alerts.close()
        self.followers.close()
        self.contracts.close()
        self.access.close()


class DeviceNames(Mapping[str, str]):
    """What devices are called, by their ids; a name costs one look, however many devices there are."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster

    def __getitem__(self, device: str) -> str:
        try:
            entry = self._roster.entry(DeviceId(bytes.fromhex(device)))
        except (TypeError, ValueError):  # a part of some key, which names no device
            entry = None
        if entry is None:
            raise KeyError(device)
        return entry.name

    def __iter__(self) -> Iterator[str]:
        return (entry.device.hex() for entry in self._roster.entries())

    def __len__(self) -> int:
        return len(self._roster)


def program_at(path: Path | None) -> Plan | None:
    if path is None or not path.exists():
        return None
    return _program(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _program(path: Path, _: int) -> Plan | None:
    try:
        return decode_plan(path.read_bytes())
    except (ResurgeError, OSError):
        return None
