"""The lab of ranges that follow the rate: it holds with the job's own rules and not with others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cloud_backend.spark.control import balance
from resurge.lab import sonora_rebalance


def missed(report: dict[str, Any]) -> list[str]:
    return [shape["name"] for shape in report["shapes"] if not shape["holds"]]


def test_ranges_follow_the_rate_and_settle_inside_the_band() -> None:
    report = sonora_rebalance.run()
    assert missed(report) == []
    assert report["modelled"] is True
    json.dumps(report)


@pytest.mark.parametrize(
    ("rule", "value", "name"),
    [
        ("SPLIT_ABOVE", 100.0, "machines follow the rate up"),
        ("MERGE_BELOW", 0.0, "and down"),
        ("SPLIT_ABOVE", 0.4, "ranges inside the band once settled, percent"),
    ],
)
def test_other_rules_are_noticed(rule: str, value: float, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance, rule, value)
    assert name in missed(sonora_rebalance.run())
