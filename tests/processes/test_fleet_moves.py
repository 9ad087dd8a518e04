"""A vertex moves between node processes while it runs: there, on and back, then once more while the node that it leaves
is killed. The sinks hold what they would have held without."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from resurge.bench._pauses import Gaps
from resurge.cli.gateway_api import Api
from shared.hosting.planned_moves import ASKED
from shared.moves import MOVED, PREVIEW
from tests.claims import Claim
from tests.patience import SPARK_PATIENCE_S, let_pass, wait_until
from tests.processes.fleets import COORDINATOR, Fleet, digest, example, ideal
from tests.processes.gateway_process import GatewayProcess
from tests.processes.node_processes import enrolment_link

pytestmark = pytest.mark.processes
ROWS, EVERY_US = 60_000, 10_000
UNDER_WAY_S = 0.3  # after it was asked for, a move is somewhere between its steps
VERTEX = "mean"


def asked(fleet: Fleet, to: str, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "resurge", "fleet", "move", "q", VERTEX, "--to", to, "--home",
         str(fleet.folder / COORDINATOR), "--json", *more],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def answer(run: subprocess.Popen[str]) -> dict[str, Any]:
    said, _ = run.communicate(timeout=SPARK_PATIENCE_S)
    try:
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
    except ValueError:
        pytest.fail(said)
    return found


def check(folder: Path, strategy: str, claim: Claim, *, kills: bool, gateway: GatewayProcess | None = None) -> None:
    program = replace(example("average"), every_us=EVERY_US)
    fleet = Fleet(
        folder, program, hubs=3, strategy=strategy, rows=ROWS, every=100, keepers=0 if strategy == "none" else 1,
        hosts={VERTEX: "hub1"},
    )  # fmt: skip
    fleet.link = "" if gateway is None else enrolment_link(gateway)
    fleet.start()
    killed = 0
    try:
        fleet.wait_for(20, "first results")
        before = fleet.terms()
        preview = answer(asked(fleet, "hub2", "--dry-run"))
        assert (preview["state"], preview["preview"]["after"]) == (PREVIEW, ["hub2"])
        assert fleet.terms() == before, "a dry run changes nothing"
        gaps = Gaps(folder / COORDINATOR / "fleet")
        gaps.start()
        if gateway is not None:
            wait_until(lambda: Api(gateway.home).get("/fleets")["fleets"], "the gateway hears of the fleet")
        for to in ("hub2", "hub3", "hub1"):
            by = [] if gateway is None or to == "hub1" else ["--gateway", str(gateway.home)]
            assert answer(asked(fleet, to, *by))["state"] == MOVED
            fleet.wait_for(fleet.count() + 60, f"results from {to}")
        pause_s = gaps.end()
        shown = fleet.shown()
        assert fleet.placed()[VERTEX] == "hub1"
        others = {vertex: term for vertex, term in fleet.terms().items() if vertex != VERTEX}
        assert others == {vertex: term for vertex, term in before.items() if vertex != VERTEX}, "nobody else moved"
        assert [each["why"] for each in shown["moves"]] == [ASKED] * 3
        if kills:
            run = asked(fleet, "hub2")
            let_pass(UNDER_WAY_S)
            fleet.kill("hub1")
            killed = 1
            answer(run)  # it was there already, or is recovered: both are right
            fleet.wait_for(fleet.count() + 60, "results after the kill")
            assert fleet.placed()[VERTEX] != "hub1"
    except AssertionError:
        print(fleet.logs())
        raise
    finally:
        fleet.stop()
    found = fleet.results()
    same = ideal(fleet.program, fleet.path, ROWS, found)
    mine, theirs = digest(found[VERTEX]), digest(same[VERTEX])
    claim(
        f"{strategy}: 3 moves there and back, {0 if gateway is None else 2} of them asked by way of the gateway that the "
        f"coordinator is paired with, {killed} host killed midway, {len(found[VERTEX])} rows compared, digests "
        f"{mine} = {theirs}; longest pause while it moved {pause_s:.2f} s"
    )
    assert found[VERTEX]
    assert mine == theirs
    assert pause_s > 0, "how long it may be is measured by `resurge bench peers`"


@pytest.mark.soak  # test_governed_fleet.py moves one in every run
def test_a_vertex_moves_three_times_and_its_host_is_killed_midway_and_no_result_changes(
    tmp_path: Path, claim: Claim
) -> None:
    with GatewayProcess(tmp_path / "gateway", "--results", str(tmp_path / "results.sqlite")) as gateway:
        check(tmp_path, "extended-ecoc", claim, kills=True, gateway=gateway)


@pytest.mark.soak
def test_without_snapshots_a_vertex_moves_with_all_its_state(tmp_path: Path, claim: Claim) -> None:
    check(tmp_path, "none", claim, kills=False)
