"""Regions that broadcast snapshots over bad media: copies everywhere, of what was sent, for few bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.claims import Claim
from tests.simulation.peers.bugs import STORE
from tests.simulation.peers.test_planted_bugs import ROOT, plant
from tests.simulation.region.world import Loss, drawn, run

pytestmark = pytest.mark.sim
SEEDS_MAX = 40
BROADCAST, BLOCKS = "shared/region/broadcast.py", "shared/region/blocks.py"


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(1000, 1500), marks=pytest.mark.soak)], ids=len)
def test_every_member_that_is_there_has_what_was_sent_last(seeds: range, claim: Claim) -> None:
    outcomes = [run(drawn(seed)) for seed in seeds]
    broken = [f"seed {seed}: {one.violation}" for seed, one in zip(seeds, outcomes, strict=True) if one.violation]
    assert not broken, "; ".join(broken)
    fired, lost = sum(one.fired for one in outcomes), sum(one.lost for one in outcomes)
    forged, refused = sum(one.forged for one in outcomes), sum(one.refused for one in outcomes)
    kept = sum(one.kept for one in outcomes)
    assert fired
    assert lost
    assert kept
    assert forged
    assert refused >= forged
    claim(
        f"{len(seeds)} regions: {fired} members died, came back or joined, {lost} datagrams lost, {forged} forged, "
        f"{refused} refused, {kept} copies compared with what was sent"
    )


@pytest.mark.covers("MS-18")
@pytest.mark.parametrize(("loss", "most"), [(0.01, 1.15), (0.1, 1.7)])
@pytest.mark.parametrize("seeds", [1, pytest.param(10, marks=pytest.mark.soak)])
def test_a_megabyte_to_seven_receivers_costs_little_more_than_one(
    loss: float, most: float, seeds: int, claim: Claim
) -> None:
    ratios = []
    for seed in range(seeds):
        outcome = run(Loss(seed, receivers=7, state_bytes=1 << 20, loss=loss))
        assert (outcome.violation, outcome.kept, outcome.sent.pieces) == ("", 7, 0)
        ratios.append(outcome.sent.ratio)
    claim(f"{loss:.0%} lost at each of 7 receivers: {max(ratios):.3f} bytes sent for a byte of state, at most {most}")
    assert 1 < max(ratios) <= most


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    edits: tuple[tuple[str, str, str], ...]
    checkers: tuple[str, ...]


BUGS = (
    Bug("bitmaps-or-ed",
        ((BROADCAST, "        everywhere = self._all\n", "        everywhere = 0\n"),
         (BROADCAST, "            everywhere &= bits\n", "            everywhere |= bits\n")),
        ("ResendsWhatOneLacks",)),
    Bug("unhashed-block-taken",
        ((BLOCKS, "        return _hash(data) == self._hashes[at : at + HASH_BYTES]\n", "        return at >= 0\n"),),
        ("NoUnhashedBlock", "OnlyWhatWasSent")),
    Bug("keeper-answers-before-sync",
        ((STORE, "        case KeepSnapshot(name, data):\n            disk.replace(name, data)\n",
          "        case KeepSnapshot(name, data):\n            disk.open(name, create=True).write(0, data)\n"),),
        ("KeptIsDurable",)),
    Bug("edge-not-released",
        (("shared/hosting/state_lane.py", "            self._outbox.release(edge)\n", "            pass\n"),),
        ("CopiesEverywhere",)),
)  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_in_a_region_is_caught_by_name(bug: Bug, tmp_path: Path, claim: Claim) -> None:
    plant(bug, tmp_path)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.simulation.region.run", str(SEEDS_MAX)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    summary = json.loads(ran.stdout.splitlines()[-1])
    caught = summary["first"]
    claim(f"{bug.name}: {caught} after {summary['seeds']} seeds")
    assert caught is not None, f"{bug.name} went unnoticed for {SEEDS_MAX} seeds"
    assert caught["checker"] in bug.checkers, caught
    assert not run(drawn(caught["seed"])).violation, "the seed must be green without the bug"


def test_every_planted_bug_of_a_region_still_has_its_place() -> None:
    for bug in BUGS:
        for name, old, _ in bug.edits:
            assert (ROOT / name).read_text().count(old) == 1, f"{bug.name}: move it along with the code"
