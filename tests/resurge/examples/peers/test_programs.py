"""SP1 to SP4 of the ECOC paper: what they compute, and that cut into vertices, scattered over slow edges and restored at
random points they compute the same, cycles included."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import resurge as rs
from mobile_app.sensors.file_formats import load
from resurge.examples.peers.operators import BLOCK, LAG, Attenuate
from shared.batch import END_OF_TIME, Batch
from shared.plan.cuts import back_edges, region_vertices
from shared.plan.graph import Plan
from shared.plan.placement import device_fragment
from tests.claims import Claim
from tests.reference.region_run import BEGINNING_OF_TIME, Devices, OnePipeline, Scattered, VertexByVertex
from tests.resurge.examples.ecg.test_heart import annotated_beats, matches

EXAMPLES = "resurge/examples/peers/{}.py"
ROWS = 800
Columns = dict[str, np.ndarray]


def program(name: str) -> Plan:
    return rs.load_program(EXAMPLES.format(name))


def readings(seed: int, rows: int = ROWS) -> dict[str, Columns]:
    draw = np.random.default_rng(seed)
    found = {}
    for name, device in (("test_a", "ann"), ("test_b", "bo")):
        times = np.sort(draw.choice(rows * 5_000, rows, replace=False)).astype(np.int64)
        found[name] = {"time": times, "device": np.array([device] * rows), "v": draw.normal(1.0, 0.3, rows)}
    return found


def heart(seconds: int = 8) -> dict[str, Columns]:
    """Two people's beats, 0.8 and 0.9 seconds apart."""
    at = np.arange(seconds * 360) / 360
    pulses = [np.exp(-(((at - 0.5) % gap - gap / 2) ** 2) / 0.0002) for gap in (0.8, 0.9)]
    times = np.round(at * 1e6).astype(np.int64)
    devices = np.repeat(["ann", "bo"], len(at))
    return {"ecg": {"time": np.tile(times, 2), "device": devices, "mv": np.concatenate(pulses)}}


def sliding(values: np.ndarray, fold: str) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(values, 100)
    return windows.sum(axis=1) if fold == "sum" else windows.mean(axis=1)


def direct(first: np.ndarray, second: np.ndarray, attenuates: tuple[bool, bool]) -> np.ndarray:
    """The programs once more, by numpy and block by block."""
    sensors, gains = [first.copy(), second.copy()], []
    for start in range(0, len(first), BLOCK):
        block = start // BLOCK
        for sensor, scaled in zip(sensors, attenuates, strict=True):
            if scaled and block >= LAG:
                sensor[start : start + BLOCK] *= gains[block - LAG]
        upto = min(start + BLOCK, len(first))
        both = sensors[0][:upto] + sensors[1][:upto]
        means = sliding(sliding(both, "sum"), "mean") if upto >= 199 else np.empty(0)
        gains = [0.5 if means[at + BLOCK - 1] > 150.0 else 1.0 for at in range(0, len(means) - BLOCK + 1, BLOCK)]
    return means


@pytest.mark.covers("EC-29")
def test_the_beats_of_a_recorded_heart_are_those_that_its_annotators_marked(
    outside_recordings: Path, claim: Claim
) -> None:
    track = load(outside_recordings / "ecg" / "100.hea")
    rows = 60 * 360
    signal = {"time": track.time_us[:rows], "device": np.array(["ann"] * rows), "mv": track.columns["mv"][:rows]}
    got = rs.evaluate(program("beats"), {"ecg": signal})["beats"]["beat_us"]
    truth = annotated_beats(outside_recordings / "ecg" / "100.atr") * (1e6 / 360)
    truth = truth[truth < signal["time"][-1] - 1e6]  # a beat is told of 0.6 s after it
    hits = matches(got, truth)
    claim(f"SP1 on a minute of a recorded lead: {len(truth)} beats annotated, {len(got)} found, {hits} within 150 ms")
    assert len(truth) > 60
    assert hits >= len(truth) - 1
    assert hits >= len(got) - 1


@pytest.mark.covers("EC-30", "EC-31")
@pytest.mark.parametrize(
    ("name", "attenuates"),
    [("average", (False, False)), ("one_attenuated", (True, False)), ("both_attenuated", (True, True))],
)
def test_the_mean_is_what_numpy_says(name: str, attenuates: tuple[bool, bool]) -> None:
    given = readings(1)
    found = rs.evaluate(program(name), given)["mean"]["v"]
    wanted = direct(given["test_a"]["v"], given["test_b"]["v"], attenuates)
    assert len(found) == len(wanted) == ROWS - 198
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    if any(attenuates):
        plain = direct(given["test_a"]["v"], given["test_b"]["v"], (False, False))
        assert (np.abs(found - plain) > 1).any(), "nothing was attenuated"


@pytest.mark.covers("EC-29")
def test_beats_are_those_that_the_phone_alone_finds() -> None:
    from resurge.examples.ecg.heart import beats

    alone = rs.evaluate(beats, heart())["out"]
    found = rs.evaluate(program("beats"), heart())["beats"]
    assert len(found["beat_us"]) > 10
    for name, values in alone.items():
        np.testing.assert_array_equal(found[name], values)


def run(plan: Plan, given: Mapping[str, Columns], seed: int) -> dict[str, tuple[Columns, int]]:
    """Rows in order of time, in one piece, vertex by vertex, and scattered; with how many vertices were restored."""
    draw = np.random.default_rng(seed)
    sources = [
        (int(time), source, str(device), place)
        for source, columns in given.items()
        for place, (time, device) in enumerate(zip(columns["time"], columns["device"], strict=True))
    ]
    devices = Devices(plan, sorted({device for _, _, device, _ in sources}))
    sides = {"whole": OnePipeline(plan), "vertices": VertexByVertex(plan), "scattered": Scattered(plan, draw)}
    edges = [output.name for output in device_fragment(plan).outputs]
    known = {source: sorted(set(columns["device"].tolist())) for source, columns in given.items()}
    for side in sides.values():
        for edge in edges:
            for device in known[edge]:
                side.advance(edge, BEGINNING_OF_TIME, device)
    schemas = {entry.name: entry.schema for entry in devices.fragment.inputs}
    numbers: dict[tuple[str, str], int] = {}
    for time, source, device, place in sorted(sources):
        row = {name: given[source][name][place : place + 1] for name in schemas[source].names}
        lo = numbers.setdefault((device, source), 0)
        numbers[device, source] += 1
        batch = Batch.of(schemas[source], row, np.array([time]), lo=lo)
        for edge, sent in devices.push(device, source, batch):
            for side in sides.values():
                side.push(edge, sent)
                side.advance(edge, time, device)
        if draw.random() < 0.01:
            vertices = sides["vertices"]
            assert isinstance(vertices, VertexByVertex)
            vertices.restore(list(vertices.vertices)[int(draw.integers(len(vertices.vertices)))])
    for side in sides.values():
        for edge in edges:
            side.advance(edge, END_OF_TIME)
    assert isinstance(sides["scattered"], Scattered)
    sides["scattered"].drain()
    assert sides["scattered"].waited_most > 10, "nothing waited on an edge"
    return {
        name: (columns(Batch.joined(next(iter(side.received.values())))), getattr(side, "restored", 0))
        for name, side in sides.items()
    }


def columns(batch: Batch) -> Columns:
    return {"time": batch.time_us, **batch.columns}


def digest(rows: Columns) -> str:
    """Of all columns, each device's rows in order: between devices there is none."""
    by_device: dict[str, list[str]] = {}
    for values in zip(*(each.tolist() for each in rows.values()), strict=True):
        row = dict(zip(rows, values, strict=True))
        by_device.setdefault(str(row.get("device")), []).append(repr(sorted(row.items())))
    return hashlib.sha256(repr(sorted(by_device.items())).encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("name", "rows"),  # the first attenuated block is the fifth
    [
        ("beats", 0),
        ("average", 300),
        ("both_attenuated", 520),
        *(
            pytest.param(name, ROWS, marks=pytest.mark.soak)
            for name in ("average", "one_attenuated", "both_attenuated")
        ),
    ],
)
def test_vertices_scattered_and_restored_give_the_same_rows(name: str, rows: int, claim: Claim) -> None:
    plan = program(name)
    given = readings(2, rows) if rows else heart(3)
    (wanted,) = rs.evaluate(plan, given).values()
    found = run(plan, given, seed=7)
    assert len(wanted["time"]) > max(3, rows - 200)
    for how, (same, _) in found.items():
        assert digest(same) == digest(wanted), how
    restored = found["vertices"][1], found["scattered"][1]
    assert min(restored) > 0
    claim(
        f"{name}: {sum(restored)} vertices restored, {len(wanted['time'])} rows compared three times, "
        f"digests {digest(wanted)} and {digest(found['scattered'][0])}"
    )


@pytest.mark.covers("EC-31")
@pytest.mark.parametrize(("name", "readers"), [("one_attenuated", 1), ("both_attenuated", 2)])
def test_the_feedback_closes_a_cycle_that_is_logged(name: str, readers: int) -> None:
    vertices = region_vertices(program(name))
    cycle = back_edges(vertices)
    assert "feedback answers" in cycle
    reading = [vertex for vertex in vertices if "feedback answers" in vertex.inputs]
    assert len(reading) == readers
    assert {vertex.merge for vertex in reading} == {"logged"}
    assert not [vertex.name for vertex in vertices if vertex.merge == "arrival"]
    assert not {"test_a", "test_b"} & cycle


def test_answers_count_by_their_number_however_late_they_come() -> None:
    given = [{"answer": False, "v": float(n), "time": n} for n in range(700)]
    answers = [{"answer": True, "v": v, "time": 0} for v in (200.0, 10.0, 300.0)]
    outcomes = []
    for late in (0, 250, 400, 699):
        machine = Attenuate()
        out = []
        for n, reading in enumerate(given):
            out += list(machine.process("in", reading))
            if n == late:
                for each in answers:
                    out += list(machine.process("in", each))
        state = machine.snapshot()
        again = Attenuate()
        again.restore(state)
        assert again.snapshot() == state
        outcomes.append(out)
    assert all(out == outcomes[0] for out in outcomes)
    assert len(outcomes[0]) == 700
    assert [outcomes[0][n]["v"] for n in (399, 400, 500, 600)] == [399.0, 200.0, 500.0, 300.0]
