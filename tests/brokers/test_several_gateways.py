"""Several gateways on one log and one database: devices come to any of them, one is killed, each is restarted in turn.

After that receipts are a subset of the log, every number is there once, the chains verify and replays are equal."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.brokers.balancer import Balancer
from tests.brokers.uploads import Upload, gateway_on
from tests.claims import Claim
from tests.patience import PATIENCE_S, wait_until
from tests.postgres import PostgresServer
from tests.processes.gateway_process import ROOT, GatewayProcess, PersistentPost
from tests.processes.node_processes import NodeHome, check_rows, enrolment_link, log_rows, write_plan

pytestmark = pytest.mark.brokers

SOAK = pytest.mark.soak


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    yield postgres.url()
    postgres.clear()


def second_home(first: Path, second: Path) -> Path:
    """Made as the handbook says: the key that devices know, and nothing else."""
    second.mkdir()
    shutil.copy(first / "gateway.key", second)
    return second


def is_ready(gateway: GatewayProcess) -> bool:
    return gateway.get("/readyz")[0] == 200


def counted(gateway: GatewayProcess, name: str) -> float:
    """A number of /metrics."""
    import urllib.request

    token = (gateway.home / "operator.token").read_text().strip()
    asked = urllib.request.Request(
        f"http://127.0.0.1:{gateway.port}/metrics", headers={"authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


@pytest.mark.parametrize(("rounds", "elements"), [(1, 600), pytest.param(8, 12_000, marks=SOAK)])
def test_a_gateway_is_killed_and_each_is_restarted_while_phones_send(
    tmp_path: Path, location: Callable[..., str], database: str, rounds: int, elements: int, claim: Claim
) -> None:
    where = location(4)
    options = ("--database", database, "--plan", str(write_plan(tmp_path)))
    first = gateway_on(tmp_path / "first", where, *options)
    kills = restarts = 0
    with first:
        second = gateway_on(second_home(first.home, tmp_path / "second"), where, *options)
        gateways = (first, second)
        with second, Balancer(gateways) as balancer:
            wait_until(lambda: all(map(is_ready, gateways)), "both know who owns what")
            wait_until(
                lambda: all(counted(each, "resurge_partitions_owned") == 2 for each in gateways), "each owns half"
            )
            upload = Upload(first, phones=8, elements=elements)
            for phone in upload.phones:
                phone.post = PersistentPost(balancer)  # type: ignore[arg-type]
            node = NodeHome(tmp_path / "node", first, seed=7)
            node.link = enrolment_link(first, balancer.port)
            running = node.start().running
            forwarded = 0.0
            try:
                with upload:
                    for number in range(rounds):
                        victim, other = gateways if number % 2 else gateways[::-1]
                        upload.reach((number + 0.2) / rounds)
                        forwarded += sum(counted(each, "resurge_forwarded_total") for each in gateways)
                        victim.kill()
                        kills += 1
                        wait_until(lambda left=other: counted(left, "resurge_partitions_owned") == 4, "one owns all")
                        upload.reach((number + 0.4) / rounds)
                        victim.start()
                        wait_until(lambda: all(map(is_ready, gateways)), "both are ready again")
                        for each in gateways:
                            upload.reach((number + 0.5 + 0.2 * gateways.index(each)) / rounds)
                            assert each.stop() == 0
                            each.start()
                            restarts += 1
                            wait_until(lambda: all(map(is_ready, gateways)), "both are ready again")
                before = len(log_rows(where, node.device, "raw"))
                wait_until(lambda: len(log_rows(where, node.device, "raw")) > before, "the node goes on")
                running.terminate()
            finally:
                running.end()
                for phone in upload.phones:
                    phone.post.close()  # type: ignore[attr-defined]
            assert first.stop() == 0
            assert second.stop() == 0
    assert forwarded > 0
    assert set(upload.statuses) <= {503, 401}  # come back; say HELLO to the new owner
    claim(
        f"{kills} gateways killed, {restarts} restarted in turn, {forwarded:.0f} exchanges forwarded, "
        f"{upload.statuses.count(503)} refused with 503, {upload.check(where)}; a node: {check_rows(where, node, gaps=0)}"
    )


def refused(home: Path, *options: str) -> dict[str, object]:
    """What a gateway says that does not start."""
    done = subprocess.run(
        [sys.executable, "-m", "cloud_backend.gateway", "--home", str(home), "--port", "0", "--log-json", *options],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    (line,) = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("{")]
    return json.loads(line)


def test_a_gateway_that_does_not_know_the_same_devices_is_refused(
    tmp_path: Path, location: Callable[..., str], postgres: PostgresServer, database: str
) -> None:
    where = location(2)
    postgres.ask("CREATE DATABASE other")
    others = postgres.url("other")
    with gateway_on(tmp_path / "first", where, "--database", database) as first:
        wait_until(lambda: is_ready(first), "the first owns everything")
        with_key = second_home(first.home, tmp_path / "with key")
        cases = {
            "start this one with the same --database": (with_key, "--log", where),
            "another database": (tmp_path / "third", "--log", where, "--database", others),
            "copy gateway.key": (tmp_path / "fourth", "--log", where, "--database", database),
            "the location says 8": (
                tmp_path / "fifth", "--log", where.replace("=2", "=8"), "--database", database,
            ),
            "give --gateways ADDRESS:PORT": (
                second_home(first.home, tmp_path / "sixth"), "--log", where, "--database", database,
                "--gateways", "0.0.0.0:8751",
            ),
        }  # fmt: skip
        for said, arguments in cases.items():
            assert said in str(refused(*arguments)["message"])
        assert is_ready(first)
