"""What `resurge up` starts its processes with, also when it goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import resurge as rs
from resurge.up import home as up_home
from resurge.up.home import make_stage, stage_again
from shared.errors import UsageError
from shared.plan.graph import Plan


def plan() -> Plan:
    up = rs.sensor("gps", every="1s").sync("up")
    return rs.plan_of(up.tumbling("10s").aggregate(n=rs.count()).subscribe("counts"), name="counts")


def test_how_far_back_a_rollback_goes_reaches_spark_and_stays(tmp_path: Path) -> None:
    stage = make_stage(tmp_path, plan(), port=1, speed=1.0, rollback={"hours": 6.0, "gigabytes": 0.5})
    for command in (stage.spark().command, _again(tmp_path, {})):
        assert command[command.index("--rollback-hours") + 1] == "6"
        assert command[command.index("--rollback-gb") + 1] == "0.5"
    changed = _again(tmp_path, {"hours": 48.0})
    assert changed[changed.index("--rollback-hours") + 1] == "48"
    assert changed[changed.index("--rollback-gb") + 1] == "0.5"


def test_without_a_word_about_it_spark_decides(tmp_path: Path) -> None:
    assert not [part for part in make_stage(tmp_path, plan(), port=1, speed=1.0).spark().command if "rollback" in part]


def test_gateway_and_relay_never_get_the_same_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[int] = set()

    @contextlib.contextmanager
    def create_server(_: object) -> Iterator[SimpleNamespace]:
        """A system that hands out the lowest port that is free just now."""
        port = next(each for each in range(5000, 6000) if each not in taken)
        taken.add(port)
        yield SimpleNamespace(getsockname=lambda: ("127.0.0.1", port))
        taken.discard(port)

    monkeypatch.setattr(up_home.socket, "create_server", create_server)
    stage = make_stage(tmp_path / "any", plan(), port=0, speed=1.0)
    assert (stage.port, stage.relay_port) == (5000, 5001)
    asked = make_stage(tmp_path / "asked", plan(), port=5000, speed=1.0)
    assert (asked.port, asked.relay_port) == (5000, 5001)


def _again(home: Path, rollback: dict[str, float]) -> list[str]:
    stage, _ = stage_again(home, None, port=0, speed=None, log_json=False, host="", rollback=rollback)
    return stage.spark().command


def test_a_plan_with_a_region_is_refused_before_anything_starts(tmp_path: Path) -> None:
    region = rs.plan_of(rs.sensor("gps", every="1s").gather("gps").sync("up"))
    with pytest.raises(UsageError) as caught:
        make_stage(tmp_path, region, port=1, speed=1.0)
    assert caught.value.code == "placement-region"
    assert not list(tmp_path.iterdir())
