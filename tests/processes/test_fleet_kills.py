"""SP1 to SP4 on five node processes that are killed at random, under every strategy that promises to lose nothing."""

from __future__ import annotations

import json
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cloud_backend.gateway.operator_routes import operator_token
from shared.hosting.store import stored_fleet
from shared.plan.deployment import decode_deployment
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Align, Commit, Home, Include
from shared.spool.disk import PosixDisk
from tests.claims import Claim
from tests.patience import SPARK_PATIENCE_S, let_pass, wait_until
from tests.processes.fleets import COORDINATOR, PHONE, Fleet, digest, example, ideal
from tests.processes.gateway_process import GatewayProcess
from tests.processes.node_processes import enrolment_link

pytestmark = pytest.mark.processes
ROWS, EVERY_US = 60_000, 10_000
READINGS_S = 600.0  # a busy machine takes minutes to start nodes again, and the readings go on meanwhile
CYCLIC = ("one_attenuated", "both_attenuated")
GROWS = {"beats": 4}  # results that must follow a kill; the others' come faster
BETWEEN_NODES = [
    each.row for each in STRATEGIES.values() if each.row.home is not Home.STORE and each.row.align is Align.NONE
]
LOSSLESS = [row for row in BETWEEN_NODES if row.include is not Include.NOTHING or row.copies > 1]
FOR_CYCLES = [
    row for row in LOSSLESS if row.include is not Include.NOTHING and (row.commit is not Commit.READERS or row.extends)
]
KILLS = 4  # of each case: 122 in all
BOTH_GONE_S = 1.0  # a vertex and who would move it are gone together
CASES = [
    # Of live copies one may go; it is not replaced.
    (program, row.name, KILLS if row.include is not Include.NOTHING else row.copies - 1)
    for program in ("beats", "average", *CYCLIC)
    for row in (FOR_CYCLES if program in CYCLIC else LOSSLESS)
]


def kill_some(fleet: Fleet, kills: int, rng: Random, *, moves: bool) -> list[str]:
    """Kill so many nodes, one after the other: first the one that makes the results, then any. Each is started again at
    once, or when its vertices are elsewhere, as the first is."""
    killed: list[str] = []
    victims = [name for name in fleet.names if name != PHONE]  # its sensors would be read with a gap
    grows = GROWS.get(fleet.program.name, 60)
    for _ in range(kills):
        last = fleet.placed()[next(iter(fleet.program.sinks))]
        name, before = rng.choice(victims) if killed or last == PHONE else last, fleet.count()
        time.sleep(rng.uniform(0.0, 1.5))
        fleet.kill(name)
        if moves and name != COORDINATOR and (not killed or rng.random() < 0.5):
            wait_until(lambda name=name: name not in fleet.placed().values(), "a move", patience_s=SPARK_PATIENCE_S)
        else:
            time.sleep(rng.uniform(0.0, 2.0))
        killed.append(name)
        fleet.start(name)
        fleet.wait_for(before + grows, f"results after killing {', '.join(killed)}")
    return killed


def check(
    folder: Path, program: str, strategy: str, kills: int, claim: Claim, gateway: GatewayProcess | None = None
) -> None:
    """With a gateway the coordinator is paired, and the dashboard must say of the first kill what moved and why."""
    row = STRATEGIES[strategy].row
    keepers = {Home.LOCAL: 0, Home.REGION: 4}.get(row.home, row.copies)
    chosen = example(program)
    if chosen.every_us > EVERY_US:
        chosen = replace(chosen, every_us=EVERY_US)
    rows = round(READINGS_S * 1e6 / chosen.every_us)
    fleet = Fleet(folder, chosen, hubs=3, strategy=strategy, rows=rows, every=100, keepers=keepers)
    fleet.link = "" if gateway is None else enrolment_link(gateway)
    fleet.start()
    try:
        fleet.wait_for(1, "first results")
        killed = kill_some(fleet, kills, Random(f"{program} {strategy}"), moves=row.home is not Home.LOCAL)
        if gateway is not None:
            claim(shown_move(gateway, fleet, killed[0]))
    except AssertionError:
        print(fleet.logs())
        raise
    finally:
        fleet.stop()
    found = fleet.results()
    same = ideal(fleet.program, fleet.path, rows, found)
    for sink, results in found.items():
        mine, theirs = digest(results), digest(same[sink])
        claim(
            f"{program} under {strategy}: {len(killed)} kills ({', '.join(killed)}), {len(results)} rows compared, "
            f"digests {mine} = {theirs}"
        )
        assert len(killed) == kills
        assert results
        assert mine == theirs


def shown_move(gateway: GatewayProcess, fleet: Fleet, killed: str) -> str:
    """What the dashboard's page and API say of the first vertex that left the killed node, once the gateway was told."""
    asked = urllib.request.Request(
        f"http://127.0.0.1:{gateway.port}/v1/api/fleets",
        headers={"authorization": f"Bearer {operator_token(gateway.home)}"},
    )

    def told() -> list[dict[str, Any]]:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            found = json.loads(answer.read())["fleets"]
        return [
            each | {"current": one["current"]}
            for one in found for each in one["moves"] if each["before"] == [killed] != each["after"]
        ]  # fmt: skip

    wait_until(told, "the gateway is told", patience_s=SPARK_PATIENCE_S)
    moved = told()[-1]
    assert moved["current"]
    assert moved["why"].startswith(f"{killed} is silent for ")
    assert abs(moved["at_us"] / 1e6 - time.time()) < SPARK_PATIENCE_S
    remembered = decode_deployment(stored_fleet(PosixDisk(fleet.folder / COORDINATOR / "fleet"))).moves
    assert (moved["at_us"], moved["why"]) in [(each.at_us, each.why) for each in remembered], "it is not durable"
    return f"the dashboard says: {moved['words']}, {moved['why']}"


@pytest.mark.covers("EC-3", "EC-14", "EC-28")
def test_a_killed_node_changes_no_result_and_the_dashboard_says_what_moved_and_why(
    tmp_path: Path, claim: Claim
) -> None:
    with GatewayProcess(tmp_path / "gateway", "--results", str(tmp_path / "results.sqlite")) as gateway:
        check(tmp_path, "average", "extended-ecoc", 1, claim, gateway)


@pytest.mark.soak
@pytest.mark.parametrize(("program", "strategy", "kills"), CASES)
def test_random_kills_change_no_result(program: str, strategy: str, kills: int, tmp_path: Path, claim: Claim) -> None:
    check(tmp_path, program, strategy, kills, claim)


@pytest.mark.soak
@pytest.mark.parametrize("first", ["host", "coordinator"])
def test_the_coordinator_dies_together_with_the_host_of_a_vertex(first: str, tmp_path: Path, claim: Claim) -> None:
    """Nobody sees the host fail. The coordinator that begins again finds it silent, and moves what it ran."""
    chosen = replace(example("average"), every_us=EVERY_US)
    fleet = Fleet(tmp_path, chosen, hubs=3, strategy="ecoc", rows=ROWS, every=100)
    fleet.start()
    try:
        fleet.wait_for(1, "first results")
        placed = fleet.placed()
        last = next(iter(chosen.sinks))
        host = placed[last] if placed[last] != PHONE else next(each for each in placed.values() if each != PHONE)
        before = fleet.count()
        for name in (host, COORDINATOR) if first == "host" else (COORDINATOR, host):
            fleet.kill(name)
        let_pass(BOTH_GONE_S)
        fleet.start(COORDINATOR)
        wait_until(lambda: host not in fleet.placed().values(), "a move", patience_s=SPARK_PATIENCE_S)
        fleet.wait_for(before + 60, "results without the host")
        fleet.start(host)
        fleet.wait_for(before + 120, "results with the host back")
    except AssertionError:
        print(fleet.logs())
        raise
    finally:
        fleet.stop()
    (rows,) = fleet.results().values()
    (same,) = ideal(fleet.program, fleet.path, ROWS, fleet.results()).values()
    claim(f"2 kills ({host}, {COORDINATOR}), {len(rows)} rows compared, digests {digest(rows)} = {digest(same)}")
    assert rows
    assert digest(rows) == digest(same)
    assert any(host in move["before"] and host not in move["after"] for move in fleet.shown()["moves"])
