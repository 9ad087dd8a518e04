"""A gateway that coordinates its nodes is asked to move a vertex, then killed while a node dies: rows go on, and the
vertex moves after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared.hosting.planned_moves import ASKED
from shared.moves import MOVED, PREVIEW
from tests.claims import Claim
from tests.patience import SPARK_PATIENCE_S, let_pass, wait_until
from tests.processes.fleets import PHONE, digest, ideal
from tests.processes.gateway_process import GatewayProcess
from tests.processes.governed_fleets import LAPTOP, SMOOTHED, GovernedFleet, counted

pytestmark = pytest.mark.processes
ROWS = 24_000  # four minutes; the test ends long before
MORE = 300  # results after each step
STANDS_S = 2.0  # after a node died and nobody coordinates: what was under way arrives, then nothing does


@pytest.mark.soak
@pytest.mark.covers("NB-16")
def test_a_vertex_moves_when_it_is_asked_for_and_after_the_gateway_that_coordinates_was_killed(
    tmp_path: Path, claim: Claim
) -> None:
    with GatewayProcess(tmp_path / "gateway", "--results", str(tmp_path / "results.sqlite")) as gateway:
        fleet = GovernedFleet(tmp_path, gateway, SMOOTHED, hubs=2, rows=ROWS)
        fleet.start()
        try:
            names = {LAPTOP, PHONE, "hub1", "hub2"}
            wait_until(lambda: fleet.members() == names, "all nodes offer", patience_s=SPARK_PATIENCE_S)
            fleet.submit(smooth="hub1")
            fleet.wait_for(MORE, "results")
            wait_until(lambda: fleet.shown()["placements"][0]["snapshot"], "a permanent snapshot")
            asked = ("fleet", "move", "q", "smooth", "--to", "hub2", "--json")
            preview = json.loads(fleet.command(*asked, "--dry-run"))
            assert (preview["state"], preview["preview"]["after"]) == (PREVIEW, ["hub2"])
            assert fleet.shown()["placements"][0]["hosts"] == ["hub1"], "a dry run changes nothing"
            assert json.loads(fleet.command(*asked))["state"] == MOVED
            fleet.wait_for(fleet.count() + MORE, "results from where it went")
            rows = counted(gateway, "resurge_elements_total")
            gateway.kill()
            before = fleet.count()
            fleet.wait_for(before + MORE, "results without the gateway")
            without = fleet.count() - before
            fleet.kill("hub2")
            let_pass(STANDS_S)
            stood = fleet.count()
            gateway.start()
            fleet.wait_for(stood + MORE, "results after the gateway is back")
            shown = fleet.shown()
        except AssertionError:
            print(fleet.logs())
            raise
        finally:
            fleet.stop()
        placed = shown["placements"][0]
        control = {node["name"]: node["control"] for node in shown["nodes"]}
    found = fleet.results()
    same = ideal(SMOOTHED, fleet.path, ROWS, found)
    mine, theirs = digest(found["smooth"]), digest(same["smooth"])
    claim(
        f"1 move asked of the gateway, 2 kills (gateway, hub2), {rows} rows through the gateway, "
        f"{without} rows without it, {len(found['smooth'])} rows compared, digests "
        f"{mine} = {theirs}; the vertex went to {placed['hosts'][0]}, term {placed['term']}"
    )
    assert placed["hosts"][0] in {"hub1", LAPTOP}
    assert [move["why"] == ASKED for move in shown["moves"]][-1:] == [True], "the first was asked for"
    assert len(shown["moves"]) > 1
    assert mine == theirs
    assert without >= MORE, "rows go from node to node by ZeroMQ: no other process is left that could carry them"
    assert rows == 0, "the gateway takes requests alone"
    assert all(each["up"] > 0 and each["down"] > 0 for name, each in control.items() if name != "hub2")
