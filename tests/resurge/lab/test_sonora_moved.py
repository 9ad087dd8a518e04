"""The lab of moved inference: bytes are counted, power is modelled, and where they differ is said."""

from __future__ import annotations

import json

import pytest

from resurge.lab import sonora_moved


@pytest.mark.covers("SO-45")
def test_moved_inference_sends_more_and_its_power_is_told_by_part() -> None:
    report = sonora_moved.run(people=2, hours=1.5)
    json.dumps(report)
    held = {shape["name"]: shape["holds"] for shape in report["shapes"]}
    assert held["the answers are the same"]
    assert held["bytes sent, in the cloud over on the phone"]
    assert not held[sonora_moved.LESS_POWER], "both plans batch and pack: it cannot be the paper's 40 % less"
    parts = report["joules_phone_and_cloud"]
    assert report["modelled"] is True
    for place in (0, 1):
        whole = sum(both[place] for name, both in parts.items() if name != "total")
        assert parts["total"][place] == pytest.approx(whole, abs=0.5)
    assert parts["radio"][1] >= parts["radio"][0], "more bytes"
    assert parts["sensors"][0] == parts["sensors"][1], "the same readings"
