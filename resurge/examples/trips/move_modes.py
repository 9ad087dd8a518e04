"""The mode inference on the phone or in the cloud: one line of the program moved, the same answer, other bytes.

What is compared is what phones really put on the wire for a recording: frames of batches, by the edge's own codec.
Beside it stands the same readings as JSON texts, one by one, which is what the bytes would be without any of it.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import resurge as rs
from resurge.examples.trips import program
from resurge.examples.trips.cloud import Cloud
from resurge.examples.trips.people import DAY, SECOND, Person
from resurge.examples.trips.report import digest, failure_free
from shared.energy_model import joules
from shared.errors import BrokenInvariant
from shared.plan.graph import Plan

SYNC = "    here = here.sync("
MODE = '    here = here.apply("transport_mode")\n'
PHONE_SLOWER = 5.0  # an assumption: a phone's core against one of this machine
STEP_US = 300 * SECOND  # as long as the program lets a batch wait


def moved_text() -> str:
    """The program's text with the sync line one line higher: modes are told in the cloud."""
    lines = Path(program.__file__).read_text(encoding="utf-8").splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if line.startswith(SYNC))
    if lines[place - 1] != MODE:
        raise BrokenInvariant("the line before .sync() is not the mode inference any more", code="example-moved")
    lines[place - 1], lines[place] = lines[place], lines[place - 1]
    return "".join(lines)


def plan_with_modes_in_the_cloud(*, recorded: bool, at_least: int = 5) -> Plan:
    module = ModuleType("moved")
    module.__file__ = program.__file__
    exec(compile(moved_text(), program.__file__, "exec"), module.__dict__)  # noqa: S102  # our own file, a line moved
    return rs.plan_of(*module.my_trips(recorded=recorded, at_least=at_least), name="trips")


def plan_without_filter() -> Plan:
    """Every reading of the GPS as it is: what batches and the codec alone save."""
    return rs.plan_of(rs.sensor("gps", every="1s").sync("fixes", batch=120, within="5m").subscribe("fixes"))


@dataclass(frozen=True, slots=True)
class Sent:
    rows: int
    bytes: int
    exchanges: int  # one per batch: what a radio wakes for
    cpu_s: float  # the phone's part of the program, on this machine

    def as_json(self, raw_bytes: int, people: Sequence[Person]) -> dict[str, Any]:
        """With the energy it takes by the model of `shared/energy_model.py`: modelled, never measured."""
        readings: dict[str, int] = {}
        for person in people:
            for sensor, columns in person.sensors.items():
                readings[sensor] = readings.get(sensor, 0) + len(columns["time"])
        energy = joules(
            seconds=sum((person.end_us - person.start_us) / SECOND for person in people), readings=readings,
            exchanges=self.exchanges, bytes_sent=self.bytes, cpu_s=self.cpu_s * PHONE_SLOWER,
        )  # fmt: skip
        return {
            "modelled_joules": {name: round(value, 1) for name, value in energy.items()},
            "rows": self.rows, "bytes": self.bytes, "exchanges": self.exchanges, "cpu_s": round(self.cpu_s, 2),
            "saved_percent": round(100 * (1 - self.bytes / raw_bytes), 2),
        }  # fmt: skip


def sent(root: Path, plan: Plan, people: Sequence[Person]) -> Sent:
    """What people's phones send under a plan."""
    cloud = Cloud(root, plan, people)
    base_us, end_us = min(p.start_us for p in people), max(p.end_us for p in people) + DAY
    begun = time.process_time()
    exchanges = 0
    for until_us in range(base_us, end_us + STEP_US, STEP_US):
        before = cloud.batches
        cloud.advance(until_us)
        exchanges += cloud.batches - before
    took = time.process_time() - begun
    cloud.close()
    return Sent(cloud.points, cloud.bytes, exchanges, took)


def raw_json_bytes(people: Sequence[Person]) -> int:
    """Every GPS reading as a JSON text of its own, unknown columns left out."""
    total = 0
    for person in people:
        columns = person.sensors["gps"]
        names = [name for name in columns if name == "time" or not np.isnan(columns[name]).all()]
        for row in zip(*(columns[name].tolist() for name in names), strict=True):
            known = {name: value for name, value in zip(names, row, strict=True) if not math.isnan(value)}
            total += len(json.dumps(known)) + 1
    return total


def compare(root: Path, people: Sequence[Person], *, at_least: int = 2) -> dict[str, Any]:
    """Bytes and answers of the same people, modes told here and there."""
    on_phone = rs.plan_of(*program.my_trips(recorded=True, at_least=at_least), name="trips")
    in_cloud = plan_with_modes_in_the_cloud(recorded=True, at_least=at_least)
    raw = raw_json_bytes(people)
    variants = {"codec alone": plan_without_filter(), "modes in the cloud": in_cloud, "modes on the phone": on_phone}
    answers = {name: digest(failure_free(plan, people)) for name, plan in list(variants.items())[1:]}
    return {
        "raw_json_bytes": raw,
        **{
            name: sent(root / name.replace(" ", "-"), plan, people).as_json(raw, people)
            for name, plan in variants.items()
        },
        "same_answer": len(set(answers.values())) == 1,
        "digests": answers,
    }
