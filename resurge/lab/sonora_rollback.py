"""Sonora, section 5.2, the 63 %: one of nine first-stage vertices fails; three rules recover it.

Sonora's rule takes the 23 vertices of the second stage with it, full rollback all 32; here the failed vertex repeats
itself, so by the digests of its output nobody else goes back. All three must end with the same results.
"""

from __future__ import annotations

from typing import Any

from resurge.lab._figure import draw, report, shape
from resurge.lab._sonora import KEPT, Recovery, fail_first_stage, parameters, running
from shared.recovery.rollback import Rule

EPOCHS, LOST = 8, 4
RULES = (Rule.FULL, Rule.SONORA, Rule.CHANGED)
HARDLY_FILTERED = 0.9  # the share of rows kept in a second run, to show what the first choice is worth


def run() -> dict[str, Any]:
    found, same = _recover(KEPT)
    other, other_same = _recover(HARDLY_FILTERED)
    same = same and other_same
    full, sonora, ours = (found[rule.value] for rule in RULES)
    saved = 100 * (1 - sonora.bytes_read / full.bytes_read)
    predicted = sonora.undone.cost["state_bytes"] + sonora.undone.cost["replay_bytes"]
    shapes = [
        shape("vertices rolled back by Sonora's rule, of 32", 24, len(sonora.undone.plan.rollback),
              len(sonora.undone.plan.rollback) == 24),
        shape("partial rollback reads less than full, percent", 63, round(saved, 1), saved > 0),
        shape("bytes read over the model |R| S + r lost_time", 1.0, round(sonora.bytes_read / predicted, 3),
              abs(sonora.bytes_read / predicted - 1) <= 0.15),
        shape("by the changed rule, re-executed vertex-epochs", "-", ours.epochs, ours.epochs == LOST),
        shape("by the changed rule, bytes over full", "-", round(ours.bytes_read / full.bytes_read, 3),
              ours.bytes_read <= 0.4 * full.bytes_read),
        shape("results after every recovery are the same", "-", same, same),
    ]  # fmt: skip
    series = {name: [(0.0, 0.0), (float(each.epochs), each.bytes_read / 1e6)] for name, each in found.items()}
    drawn = draw("sonora-rollback", "Recovery from one failed vertex", "vertex-epochs run again", "MB read", series)
    return report(
        "sonora-rollback", "Sonora section 5.2", shapes,
        parameters=parameters(EPOCHS, epochs_lost=LOST, hardly_filtered_keeps=HARDLY_FILTERED),
        measured=_measured(found), measured_hardly_filtered=_measured(other), drawn=drawn,
    )  # fmt: skip


def _recover(kept: float) -> tuple[dict[str, Recovery], bool]:
    """The recovery by each rule of the same failure, and whether the results were the same after all of them."""
    with running(EPOCHS, kept) as (_, driver):
        before = driver._results.digest()
        found = {rule.value: fail_first_stage(driver, LOST, rule) for rule in RULES}
        return found, driver._results.digest() == before


def _measured(found: dict[str, Recovery]) -> dict[str, dict[str, float]]:
    full = found["full"].bytes_read
    return {
        name: {
            "bytes": each.bytes_read, "saved_percent": round(100 * (1 - each.bytes_read / full), 1),
            "seconds": round(each.seconds, 3), "vertex_epochs": each.epochs,
        }
        for name, each in found.items()
    }  # fmt: skip
