"""One program on several node processes; the node that runs its last vertex is killed, and nobody who reads the results
can tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.claims import Claim
from tests.patience import SPARK_PATIENCE_S, wait_until
from tests.processes.fleets import COORDINATOR, PHONE, SINKS, Fleet, digest, first_reading, ideal

pytestmark = pytest.mark.processes
ROWS = 12_000  # four minutes; the test ends long before


@pytest.mark.covers("EC-14", "EC-21", "EC-28", "EC-30")
def test_a_killed_hub_changes_no_result(tmp_path: Path, claim: Claim) -> None:
    fleet = Fleet(tmp_path, "average", hubs=2, strategy="ecoc", rows=ROWS, every=100)
    fleet.start()
    try:
        wait_until(lambda: len(fleet.results()) > 50, "first results", patience_s=SPARK_PATIENCE_S)
        host = fleet.placed()[SINKS["average"]]
        assert host not in (COORDINATOR, PHONE)
        before = len(fleet.results())
        fleet.kill(host)
        wait_until(
            lambda: len(fleet.results()) > before + 200 and fleet.placed()[SINKS["average"]] != host,
            "results after the kill", patience_s=SPARK_PATIENCE_S,
        )  # fmt: skip
    except AssertionError:
        print(fleet.logs())
        raise
    finally:
        fleet.stop()
    found = fleet.results()
    same = ideal("average", ROWS, first_reading(found, ROWS))[: len(found)]
    claim(f"1 kill of {host}, {len(found)} rows compared, digests {digest(found)} = {digest(same)}")
    assert len(found) > before
    assert digest(found) == digest(same)
