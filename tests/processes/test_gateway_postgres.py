"""A gateway whose databases are on a PostgreSQL server: the same commands, and a server that is killed under it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cloud_backend.results.store import Results
from tests.claims import Claim
from tests.cloud_backend.results.test_store import row
from tests.patience import PATIENCE_S, wait_until
from tests.postgres import PASSWORD, PostgresServer
from tests.processes.gateway_process import ROOT, GatewayProcess
from tests.processes.test_gateway_commands import resurge

pytestmark = pytest.mark.processes


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


def test_a_gateway_keeps_its_databases_on_a_server_and_outlives_it(
    tmp_path: Path, server: PostgresServer, claim: Claim
) -> None:
    home, url = tmp_path / "home", server.url()
    with (
        closing(Results(url, patience_s=PATIENCE_S)) as results,
        GatewayProcess(home, "--database", url, "--results", url) as gateway,
    ):
        phone = gateway.phone("walker")
        assert phone.send(10) == 10
        (device,) = json.loads(resurge("device", "list", "--home", str(home), "--json"))["devices"]
        assert device["name"] == "walker"
        resurge("person", "add", "ada", "--role", "viewer", "--home", str(home))
        assert results.publish(1, [row(0, device=device["device"])]) == 1
        server.kill()
        assert phone.send(10) == 20  # the log is on the gateway's disk, and the session is known
        assert phone.hello()[0] == 503  # who may begin one is not
        server.start()
        wait_until(lambda: phone.hello()[0] == 200, "a session")
        assert phone.send(10) == 30
        assert [each.device for each in results.current()] == [device["device"]]
        assert gateway.stop() == 0
    # It is the home that knows: started again without the option, and asked by commands, it is the same roster.
    with GatewayProcess(home, "--results", url), GatewayProcess(tmp_path / "second", "--database", url) as second:
        assert second.phone("rower").send(5) == 5
        assert len(json.loads(resurge("device", "list", "--home", str(home), "--json"))["devices"]) == 2
        assert "ada" in resurge("person", "list", "--home", str(home))
    assert sorted(path.name for path in home.glob("*.sqlite")) == [
        "alerts.sqlite", "contracts.sqlite", "fleet.sqlite", "history.sqlite",
    ]  # fmt: skip
    schemas = server.ask("SELECT schemaname, count(*) FROM pg_tables WHERE tablename = 'resurge' GROUP BY 1 ORDER BY 1")
    assert [name for name, _ in schemas] == [
        "accounts", "audit", "followers", "queries", "results", "roster",
    ]  # fmt: skip
    claim(f"{server.starts - 1} kill of PostgreSQL under a gateway; {len(schemas)} databases in schemas")


@pytest.mark.parametrize("command", ["cloud_backend.gateway", "cloud_backend.spark.job"])
def test_a_process_says_in_one_line_why_it_cannot_begin(tmp_path: Path, command: str) -> None:
    url = f"postgresql://resurge:secret@/postgres?host={tmp_path}"
    options = {
        "cloud_backend.gateway": ["--home", str(tmp_path / "home"), "--port", "0", "--database", url],
        "cloud_backend.spark.job": ["--log", str(tmp_path / "log"), "--store", str(tmp_path / "store"), "--plan",
                                    str(tmp_path / "plan"), "--results", "postgresql://resurge:secret@[::1"],
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", command, *options[command]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.endswith(("[database-unreachable]", "[database-url]"))
    assert "secret" not in line
    assert PASSWORD not in line
