"""The recovery experiments on small data: what does not depend on the clock holds, whatever the machine does."""

from __future__ import annotations

from typing import Any

import pytest

from resurge.lab import _sonora, sonora_failure, sonora_interval, sonora_rollback


def held(report: dict[str, Any], *parts: str) -> dict[str, bool]:
    """Whether the shapes whose names contain these words hold."""
    return {part: shape["holds"] for part in parts for shape in report["shapes"] if part in shape["name"]}


@pytest.fixture(autouse=True)
def _small_and_undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    for lab in (sonora_failure, sonora_interval, sonora_rollback):
        monkeypatch.setattr(lab, "draw", lambda *_: None)
    monkeypatch.setattr(_sonora, "ROWS", 2_000)
    monkeypatch.setattr(_sonora, "USERS", 200)


@pytest.mark.covers("SO-38")
def test_after_the_failure_every_rule_ends_with_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sonora_failure, "EPOCHS", 8)
    monkeypatch.setattr(sonora_failure, "FAILS_AFTER", 5)
    monkeypatch.setattr(sonora_failure, "RANGES", {sonora_failure.FIRST: 2, sonora_failure.SECOND: 3})
    report = sonora_failure.run(rounds=1, rows=400)
    names = ("results of all runs", "replayed, snapshots")
    assert held(report, *names) == dict.fromkeys(names, True)
    read = report["bytes_read_again"]
    assert read["full"]["replayed"] > read["sonora"]["replayed"] > read["changed"]["replayed"] > 0
    assert read["full"]["snapshots"] > read["sonora"]["snapshots"] > read["changed"]["snapshots"] > 0


@pytest.mark.covers("SO-39")
@pytest.mark.soak
def test_recovery_costs_what_the_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sonora_interval, "INTERVALS", (4, 6, 8))
    monkeypatch.setattr(sonora_interval, "EPOCHS", 8)
    monkeypatch.setattr(sonora_interval, "REPEATS", 1)
    names = ("R-cost rises", "R-cost against", "vertices rolled back", "RC-time over R-time")
    report = sonora_interval.run()
    assert held(report, *names) == dict.fromkeys(names, True)
    replayed, snapshots = zip(*report["replayed_and_snapshot_bytes"].values(), strict=True)
    assert replayed[0] < replayed[1] < replayed[2], "the longer the interval, the more is read again"
    assert max(snapshots) < 1.2 * min(snapshots), "and as much of snapshots"


@pytest.mark.covers("SO-40")
@pytest.mark.soak
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
