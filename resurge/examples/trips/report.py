"""The report of everyone, and one digest of it that two runs can be compared by.

In a run a person is a device with a key of its own, and an answer may have been given several times. The report
puts the person's name in place of the device and keeps the last answer; floats are compared by every bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

import resurge as rs
from cloud_backend.results.rows import Identity, ResultRow, Value, digest_of
from cloud_backend.spark.graph import sink_of
from cloud_backend.spark.publishing.sink_rows import result_rows
from resurge.examples.trips.people import Person
from resurge.examples.trips.program import my_trips
from shared.batch import Batch
from shared.plan.graph import Plan
from shared.plan.operators import Timer
from shared.plan.placement import device_fragment


def trips_plan(*, recorded: bool, at_least: int = 5, zone: str = "UTC", version: int = 1) -> Plan:
    return rs.plan_of(*my_trips(recorded=recorded, at_least=at_least, zone=zone), name="trips", version=version)


def failure_free(plan: Plan, people: Sequence[Person]) -> list[ResultRow]:
    """What the report must be: the program over the recordings, in memory. No phones, no network, no Spark."""
    inputs: dict[str, dict[str, np.ndarray]] = {}
    for sensor in sorted({sensor for person in people for sensor in person.sensors}):
        held = [person for person in people if sensor in person.sensors]
        columns = {name: np.concatenate([person.sensors[sensor][name] for person in held])
                   for name in held[0].sensors[sensor]}  # fmt: skip
        devices = np.repeat([person.name for person in held], [len(person.sensors[sensor]["time"]) for person in held])
        inputs[sensor] = {**columns, "device": devices}
    inputs |= {name: _ticks(every_us, people) for name, every_us in _timers(plan).items()}
    rows: dict[Identity, ResultRow] = {}
    for sink, columns in rs.evaluate(plan, inputs).items():
        kind = plan.sink(sink).type
        batch = Batch.of(kind.schema, {name: columns[name] for name in kind.schema.names}, columns["time"])
        rows.update((row.identity, row) for row in result_rows(sink_of(plan, sink), batch))
    return list(rows.values())


def _timers(plan: Plan) -> dict[str, int]:
    operators = {entry.name: plan.node(entry.node).operator for entry in device_fragment(plan).inputs}
    return {name: operator.every_us for name, operator in operators.items() if isinstance(operator, Timer)}


def _ticks(every_us: int, people: Sequence[Person]) -> dict[str, np.ndarray]:
    """What a timer says on everyone's phone, from the first reading to the last."""
    ticks = [np.arange(-(-person.start_us // every_us), person.end_us // every_us + 1) for person in people]
    ticked = np.concatenate(ticks)
    devices = np.repeat([person.name for person in people], [len(one) for one in ticks])
    return {"time": ticked * every_us, "tick": ticked, "device": devices}


def with_names(rows: Iterable[ResultRow], names: Mapping[str, str]) -> list[ResultRow]:
    """The rows with people's names in place of devices."""
    return [
        replace(row, device=names.get(row.device, row.device), key=tuple(_with_name(part, names) for part in row.key))
        for row in rows
    ]


def _with_name(part: Value, names: Mapping[str, str]) -> Value:
    return names.get(part, part) if isinstance(part, str) else part


def digest(rows: Iterable[ResultRow]) -> str:
    return digest_of(replace(row, revision=0) for row in rows)
