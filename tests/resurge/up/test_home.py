"""What `resurge up` starts its processes with, also when it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

import resurge as rs
from resurge.up.free_ports import free_ports
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
    few = free_ports(3)
    monkeypatch.setattr("resurge.up.free_ports.PORTS", few)
    for number in range(20):
        stage = make_stage(tmp_path / f"any{number}", plan(), port=0, speed=1.0)
        assert len({stage.port, stage.relay_port} & {*few}) == 2
        asked = make_stage(tmp_path / f"asked{number}", plan(), port=few[0], speed=1.0)
        assert asked.port == few[0] != asked.relay_port


def _again(home: Path, rollback: dict[str, float]) -> list[str]:
    stage, _ = stage_again(home, None, port=0, speed=None, log_json=False, host="", rollback=rollback)
    return stage.spark().command


def test_a_plan_with_a_region_is_refused_before_anything_starts(tmp_path: Path) -> None:
    region = rs.plan_of(rs.sensor("gps", every="1s").gather("gps").sync("up"))
    with pytest.raises(UsageError) as caught:
        make_stage(tmp_path, region, port=1, speed=1.0)
    assert caught.value.code == "placement-region"
    assert not list(tmp_path.iterdir())
