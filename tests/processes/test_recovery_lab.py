"""`resurge lab run ecoc-recovery`, one kill: the report's times come from nodes that really failed and went on."""

from __future__ import annotations

import json

import pytest

from resurge.lab import ecoc_recovery
from tests.claims import Claim

pytestmark = [pytest.mark.processes, pytest.mark.soak]


@pytest.mark.covers("EC-32", "EC-36")
def test_a_killed_operator_is_restored_elsewhere_and_catches_up(monkeypatch: pytest.MonkeyPatch, claim: Claim) -> None:
    monkeypatch.setattr(ecoc_recovery, "draw", lambda *_: None)
    report = ecoc_recovery.run(repeats=1, processes=("SP2",), strategies=("ecoc",), every=(200,))
    json.dumps(report)
    ((one,),) = report["each_run"].values()
    claim(f"1 kill, {one['rows']} rows in order, {one['lost']} lost, {one['recovery']} s to restore")
    assert one["lost"] == 0
    assert one["rows"] > 200
    assert 0 < one["recovery"] < one["first_output"] < one["detection"] + one["recovery"] + one["catch_up"] + 1
