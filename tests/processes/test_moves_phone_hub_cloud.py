"""A vertex moves while it runs, between a phone, a hub and a node beside the gateway: asked of the dashboard's interface and
by command. The sink holds what it would have held without, and its stream pauses for less than two seconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from resurge.cli.gateway_api import Api
from shared.hosting.planned_moves import ASKED
from shared.moves import MOVED, THIS_GATEWAY
from tests.claims import Claim
from tests.patience import SPARK_PATIENCE_S, wait_until
from tests.processes.fleets import PHONE, digest, ideal
from tests.processes.gateway_process import GatewayProcess
from tests.processes.governed_fleets import LAPTOP, SMOOTHED, GovernedFleet
from tests.processes.test_fleet_moves import Gaps

pytestmark = pytest.mark.processes
ROWS = 24_000  # four minutes; the test ends long before
MORE = 200  # results after each move
OPTIONS = {
    PHONE: ["--lane", "wifi", "--capacity", "2"],
    "hub1": ["--lane", "wifi", "--capacity", "4"],
    LAPTOP: ["--cloud"],
}


@pytest.mark.covers("SO-16")
def test_a_vertex_moves_between_phone_hub_and_cloud_and_no_result_changes(tmp_path: Path, claim: Claim) -> None:
    with GatewayProcess(tmp_path / "gateway", "--results", str(tmp_path / "results.sqlite")) as gateway:
        fleet = GovernedFleet(tmp_path, gateway, SMOOTHED, hubs=1, rows=ROWS, options=OPTIONS)
        fleet.start()
        pauses: dict[str, float] = {}
        try:
            names = {LAPTOP, PHONE, "hub1"}
            wait_until(lambda: fleet.members() == names, "all nodes offer", patience_s=SPARK_PATIENCE_S)
            fleet.submit(to="", smooth="hub1")
            fleet.wait_for(MORE, "results")
            api = Api(gateway.home)
            for to in (PHONE, LAPTOP, "hub1"):
                gaps = Gaps(tmp_path / LAPTOP / "fleet")
                gaps.start()
                if to == PHONE:
                    wanted = {"query": "q", "vertex": "smooth", "to": to}
                    id = api.post(f"/fleets/{THIS_GATEWAY}/move", wanted)["id"]

                    def state(id: str = id) -> str:
                        (found,) = api.get("/fleets")["fleets"]
                        return next((each["state"] for each in found["asked"] if each["id"] == id), "")

                    wait_until(lambda: state() == MOVED, "the dashboard says it moved", patience_s=SPARK_PATIENCE_S)
                else:
                    said = fleet.command("fleet", "move", "q", "smooth", "--to", to, "--json")
                    assert json.loads(said)["state"] == MOVED
                fleet.wait_for(fleet.count() + MORE, f"results from {to}")
                pauses[to] = gaps.end()
                assert fleet.placed()["smooth"] == to
            shown = fleet.shown()
        except AssertionError:
            print(fleet.logs())
            raise
        finally:
            fleet.stop()
    found = fleet.results()
    same = ideal(SMOOTHED, fleet.path, ROWS, found)
    mine, theirs = digest(found["smooth"]), digest(same["smooth"])
    claim(
        f"hub to phone (asked of the dashboard), phone to cloud, cloud to hub: {len(found['smooth'])} rows compared, digests "
        f"{mine} = {theirs}; longest pause "
        + ", ".join(f"{pause_s:.2f} s going to {to}" for to, pause_s in pauses.items())
    )
    assert [each["why"] for each in shown["moves"]] == [ASKED] * 3
    assert mine == theirs
