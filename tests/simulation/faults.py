"""Fault schedules as data: drawn from a seed for the long runs, from Hypothesis for small worlds it can shrink."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.disk import SimulatedDisk
    from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Fault:
    """At this simulated second something happens to a phone (by number) or to the cloud; value: seconds or a count."""

    at: float
    kind: str
    target: int = 0
    value: float = 1.0


# kind: how often, and between which values
KINDS: dict[str, tuple[float, float, float]] = {
    "phone-crash": (2.0, 0.1, 15.0),
    "phone-crash-at-write": (3.0, 1, 40),
    "cloud-crash": (2.0, 0.1, 10.0),
    "cloud-crash-at-write": (3.0, 1, 40),
    "cut-up": (1.0, 1.0, 40.0),
    "cut-down": (1.5, 1.0, 40.0),
    "cut": (2.0, 1.0, 60.0),
    "cloud-full": (1.5, 1.0, 15.0),
    "cloud-sync-fails": (0.7, 0.0, 0.0),
    "phone-sync-fails": (0.5, 0.0, 0.0),
    "phone-full": (0.7, 1.0, 15.0),
    "freeze": (0.7, 1.0, 40.0),
    "clock": (0.7, 1.0, 86_400.0),
    "replay": (3.0, 0.0, 0.0),
    "results": (3.0, 1, 5),
    "plan": (0.7, 0.0, 0.0),
    "reinstall": (0.15, 0.0, 0.0),
}


def draw(rng: Random, *, duration_s: float, phones: int, count: int) -> tuple[Fault, ...]:
    kinds = list(KINDS)
    weights = [KINDS[kind][0] for kind in kinds]
    faults = []
    for kind in rng.choices(kinds, weights, k=count):
        _, low, high = KINDS[kind]
        # Square the draw: short outages are common, long ones happen.
        value = low + (high - low) * rng.random() ** 2
        faults.append(Fault(round(rng.uniform(0.0, duration_s), 3), kind, rng.randrange(phones), round(value, 3)))
    return tuple(sorted(faults, key=lambda fault: (fault.at, fault.kind, fault.target)))


def inject(world: World, fault: Fault) -> None:
    """Let it happen."""
    phone = world.phones[fault.target % len(world.phones)]
    cloud, clock = world.cloud, world.clock
    world.tell("fault", fault.kind, f"{phone.name} {fault.value:g}")
    match fault.kind:
        case "phone-crash":
            phone.crash(fault.value)
        case "phone-crash-at-write":
            phone.disk.arm(int(fault.value))
        case "phone-sync-fails":
            phone.disk.sync_fails = True
        case "cloud-crash":
            cloud.crash(fault.value)
        case "cloud-crash-at-write":
            cloud.disk.arm(int(fault.value))
        case "cloud-full" | "phone-full":
            disk = cloud.disk if fault.kind == "cloud-full" else phone.disk
            disk.full = True
            clock.after(fault.value, _space_again, disk)
        case "cloud-sync-fails":
            cloud.disk.sync_fails = True
        case "cut" | "cut-up" | "cut-down":
            directions = ("up", "down") if fault.kind == "cut" else (fault.kind.removeprefix("cut-"),)
            world.facts.partitions += 1
            for direction in directions:
                world.network.cut(phone.number, direction)
                clock.after(fault.value, world.mend, phone.number, direction)
        case "freeze":
            phone.freeze(fault.value)
        case "clock":
            phone.jump(fault.value)
        case "replay":
            world.network.replay(world.rng, cloud.deliver)
        case "results":
            rows = cloud.downlink.rows.setdefault(phone.device, [])
            rows += [{"sink": "trips", "number": len(rows) + at} for at in range(int(fault.value))]
        case "plan":
            cloud.downlink.version += 1
        case "reinstall":
            cloud.enrol(phone.keys.public_key)
            phone.reinstall()
        case _:
            raise ValueError(f"no fault {fault.kind!r}; expected one of {', '.join(KINDS)}")


def _space_again(disk: SimulatedDisk) -> None:
    disk.full = False
