"""The recovery experiments on small data: what does not depend on the clock holds, whatever the machine does."""

from __future__ import annotations

from typing import Any

import pytest

from resurge.lab import _sonora, sonora_failure, sonora_interval, sonora_rollback, sonora_scaling


def held(report: dict[str, Any], *parts: str) -> dict[str, bool]:
    """Whether the shapes whose names contain these words hold."""
    return {part: shape["holds"] for part in parts for shape in report["shapes"] if part in shape["name"]}


@pytest.fixture(autouse=True)
def _small_and_undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    for lab in (sonora_failure, sonora_interval, sonora_rollback, sonora_scaling):
        monkeypatch.setattr(lab, "draw", lambda *_: None)
    monkeypatch.setattr(_sonora, "ROWS", 2_000)
    monkeypatch.setattr(_sonora, "USERS", 200)


@pytest.mark.covers("SO-38")
def test_after_the_failure_every_rule_ends_with_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sonora_failure, "EPOCHS", 8)
    monkeypatch.setattr(sonora_failure, "FAILS_AFTER", 5)
    monkeypatch.setattr(sonora_failure, "RANGES", {sonora_failure.FIRST: 2, sonora_failure.SECOND: 3})
    report = sonora_failure.run(rounds=1, rows=400)
    assert held(report, "results of all runs") == {"results of all runs": True}


@pytest.mark.covers("SO-39")
def test_recovery_costs_what_the_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sonora_interval, "INTERVALS", (4, 6, 8))
    monkeypatch.setattr(sonora_interval, "EPOCHS", 8)
    names = ("R-cost rises", "R-cost against", "vertices rolled back")
    assert held(sonora_interval.run(), *names) == dict.fromkeys(names, True)


@pytest.mark.covers("SO-37")
def test_points_per_core_are_counted_over_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sonora_scaling, "ROWS", 4_000)
    monkeypatch.setattr(sonora_scaling, "EPOCHS", 3)
    report = sonora_scaling.run()
    assert len(report["wall_points_per_second"]) == 3
    assert report["ok"]


@pytest.mark.covers("SO-40")
def test_partial_rollback_saves_the_other_vertices_raw_input(monkeypatch: pytest.MonkeyPatch) -> None:
    assert round(sonora_rollback.raw_over_processed(), 1) == 7.9  # by hand from the paper's figures
    monkeypatch.setattr(_sonora, "ROWS", 8_000)
    monkeypatch.setattr(sonora_rollback, "EPOCHS", 4)
    monkeypatch.setattr(sonora_rollback, "LOST", 1)
    monkeypatch.setattr(sonora_rollback, "OTHER_SHARES", (0.9,))
    report = sonora_rollback.run()
    names = ("vertices rolled back", "over the model", "re-executed vertex-epochs", "results after every recovery")
    assert held(report, *names) == dict.fromkeys(names, True)
    (other,) = report["measured_at_other_shares"].values()
    assert report["measured"]["sonora"]["saved_percent"] > other["sonora"]["saved_percent"] > 0
