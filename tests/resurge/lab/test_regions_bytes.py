"""The lab of a region's bytes: broadcasting to seven costs less than sending to three."""

from __future__ import annotations

import json

import pytest

from resurge.lab import regions_bytes


def test_seven_broadcast_copies_take_fewer_bytes_than_three_sent_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions_bytes, "draw", lambda *_: None)
    report = regions_bytes.run(window=200, every=200, elements=1000, losses=(0.0, 0.2))
    assert [shape["name"] for shape in report["shapes"] if not shape["holds"]] == []
    (ours, *_) = report["sent_per_state"].values()
    assert 1 < ours["0%"] < ours["20%"] < 3
    json.dumps(report)
