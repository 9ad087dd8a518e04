"""A node that hosts nothing takes no plan whose rows would wait for a region for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

import resurge as rs
from mobile_app.node.plan_runner import choose_plan, decode
from mobile_app.node.plans import Plans
from shared.errors import UsageError
from shared.plan.encoding import encode_plan


def region() -> rs.Plan:
    return rs.plan_of(rs.sensor("gps", every="1s").gather("gps").sync("up"), version=2)


def test_a_plan_from_the_gateway_is_refused_and_said() -> None:
    said: list[str] = []
    assert decode(encode_plan(region()), said.append) is None
    assert len(said) == 1
    assert "[placement-region]" in said[0]


def test_the_programs_own_plan_is_refused_and_the_stored_one_stays(tmp_path: Path) -> None:
    plans = Plans(tmp_path)
    plans.store(1, b"earlier")
    with pytest.raises(UsageError) as caught:
        choose_plan(plans, region(), lambda _text: None)
    assert caught.value.code == "placement-region"
    assert plans.load() == (1, b"earlier")
