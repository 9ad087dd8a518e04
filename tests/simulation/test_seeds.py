"""Many worlds, no broken promise. `make sim` runs more of them; soak more still."""

from __future__ import annotations

import os

import pytest

from tests.claims import Claim
from tests.simulation.world import Outcome, run_seed

pytestmark = pytest.mark.sim
FIRST = 100_000  # not the seeds of `make sim`


def run(seeds: range) -> list[Outcome]:
    outcomes = [run_seed(seed) for seed in seeds]
    broken = [f"python -m tests.simulation.run --seed {o.seed}: {o.violation}" for o in outcomes if o.violation]
    assert not broken, "\n".join(broken)
    return outcomes


def test_no_world_loses_repeats_or_reorders_an_element(claim: Claim) -> None:
    outcomes = run(range(FIRST, FIRST + 60))
    fired = {
        name: sum(getattr(o, name) for o in outcomes)
        for name in ("crashes", "partitions", "duplicates", "replays", "disk_faults", "ledgered", "results", "elements")
    }
    claim(", ".join(f"{number} {name}" for name, number in fired.items()))
    assert all(fired.values()), f"a fault that never fires shows nothing: {fired}"


@pytest.mark.soak
@pytest.mark.sim
def test_no_world_breaks_a_promise_in_a_long_run() -> None:
    run(range(FIRST, FIRST + int(os.environ.get("SIM_SEEDS", "2000"))))
