"""The capacity model: what it measures is of this machine, and what breaks first follows from it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from resurge.cli import capacity, doctor
from resurge.cli.capacity import Machine, answer, parts

LARGE = Machine(
    connections=120_000, exchange_us=50.0, sync_ms=1.0, edge_bytes=250.0, rows_per_core_s=15_000.0,
    memory_bytes=64 << 30, free_bytes=4 << 40, cores=32,
)  # fmt: skip


def test_the_part_that_breaks_first_is_named_first() -> None:
    assert answer(50_000, LARGE)["enough"]
    assert answer(50_000, LARGE)["first"] == "connections"
    assert not answer(70_000, LARGE)["enough"]
    assert parts(replace(LARGE, free_bytes=1 << 30))[0].name == "log"
    assert parts(replace(LARGE, cores=1))[0].name == "spark"
    assert parts(replace(LARGE, exchange_us=5_000.0))[0].name == "gateway"
    assert parts(replace(LARGE, memory_bytes=64 << 20))[0].name == "memory"


def test_twice_the_price_is_half_the_devices() -> None:
    by_name = {part.name: part.devices_max for part in parts(LARGE)}
    dearer = replace(
        LARGE, exchange_us=100.0, rows_per_core_s=7_500.0, memory_bytes=32 << 30, free_bytes=2 << 40, connections=60_000
    )
    for part in parts(dearer):
        assert part.devices_max == pytest.approx(by_name[part.name] / 2, abs=1)


def test_this_machine_is_measured_and_nothing_is_left_behind(tmp_path: Path) -> None:
    done = CliRunner().invoke(doctor.app, ["--capacity", "1", "--home", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.output.splitlines()[-1])
    assert said["modelled"]
    assert {part["name"] for part in said["parts"]} == {"connections", "gateway", "memory", "log", "spark"}
    assert all(value > 0 for value in said["machine"].values())
    assert 50 < said["machine"]["edge_bytes"] < 5_000
    assert list(tmp_path.iterdir()) == []


def test_a_machine_that_is_too_small_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "measure", lambda _: replace(LARGE, connections=700))
    done = CliRunner().invoke(doctor.app, ["--capacity", "5000", "--home", str(tmp_path)])
    assert done.exit_code == 1
    assert "NO  connections" in done.output
    assert "LimitNOFILE" in done.output
