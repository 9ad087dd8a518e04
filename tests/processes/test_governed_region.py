"""A region under a gateway, as a person makes one: phones are paired, `resurge region add`, one is killed, it is dropped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.claims import Claim
from tests.patience import SPARK_PATIENCE_S, wait_until
from tests.processes.fleets import PHONE, digest, ideal
from tests.processes.gateway_process import GatewayProcess
from tests.processes.governed_fleets import LAPTOP, SMOOTHED, GovernedFleet

pytestmark = [pytest.mark.processes, pytest.mark.soak]
ROWS = 24_000  # four minutes; the test ends long before
HUBS = ("hub1", "hub2", "hub3")
HERE, AWAY = "1.3521,103.8198", "1.4,103.8"
MORE = 300


def region_of(fleet: GovernedFleet) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fleet.command("region", "list", "--json"))["regions"][0]
    return found


def kept(fleet: GovernedFleet, name: str) -> list[str]:
    """Files of a region on a phone: rows that came in, and snapshots."""
    return [each.name for each in (fleet.folder / name / "fleet").iterdir() if each.name.startswith(("copy-", "kept-"))]


@pytest.mark.covers("MS-6", "MS-30")
def test_a_region_is_added_runs_loses_a_phone_and_is_dropped(tmp_path: Path, claim: Claim) -> None:
    with GatewayProcess(tmp_path / "gateway", "--results", str(tmp_path / "results.sqlite")) as gateway:
        fleet = GovernedFleet(tmp_path, gateway, SMOOTHED, hubs=len(HUBS), rows=ROWS)
        for name in (*HUBS, LAPTOP):
            place = AWAY if name == LAPTOP else HERE
            (fleet.folder / name / "settings.toml").write_text(f'position = "{place}"\n')
        fleet.start(LAPTOP, PHONE)
        try:
            wait_until(lambda: fleet.members() == {LAPTOP, PHONE}, "two nodes offer", patience_s=SPARK_PATIENCE_S)
            said = fleet.command(
                "region", "add", "q", str(fleet.path), "--from", PHONE, "--to", LAPTOP, "--center", HERE, "--radius",
                "20", "--threshold", "2", "--dwell", "1s",
            )  # fmt: skip
            assert "it begins when 2 are in it" in said
            assert region_of(fleet)["state"] == "forming"
            fleet.start(*HUBS)
            wait_until(lambda: region_of(fleet)["state"] == "running", "it runs", patience_s=SPARK_PATIENCE_S)
            fleet.wait_for(MORE, "results")
            wait_until(lambda: len(region_of(fleet)["members"]) == len(HUBS), "all three are members")
            listed = " ".join(fleet.command("region", "list").split())
            assert all(name in listed for name in HUBS)
            (gone,) = {*fleet.placed().values()}
            fleet.kill(gone)
            fleet.wait_for(fleet.count() + MORE, f"results after killing {gone}")
            takes_over = {*fleet.placed().values()}
            left = [name for name in HUBS if name != gone]
            assert all(kept(fleet, name) for name in left), "who is there keeps what comes in"
            found = fleet.results()
            fleet.command("region", "drop", "q")
            wait_until(lambda: not any(kept(fleet, name) for name in left), "their copies are deleted")
            assert json.loads(fleet.command("region", "list", "--json"))["regions"] == []
        except AssertionError:
            print(fleet.logs())
            raise
        finally:
            fleet.stop()
    (mine,), (theirs,) = map(digest, found.values()), map(digest, ideal(SMOOTHED, fleet.path, ROWS, found).values())
    claim(
        f"{len(HUBS)} members; {gone} killed, {sorted(takes_over)} took over, {len(found['smooth'])} rows "
        f"compared, digests {mine} = {theirs}"
    )
    assert takes_over < {*HUBS} - {gone}
    assert mine == theirs
