"""A backup taken while phones deliver restores on an empty machine, and the gateway there goes on with the account."""

from __future__ import annotations

import json
import threading
import urllib.request
from pathlib import Path

import pytest

from cloud_backend.coordinator.backup import restore
from cloud_backend.gateway.operator_routes import operator_token
from tests.patience import PATIENCE_S
from tests.processes.gateway_process import GatewayProcess, PersistentPost
from tests.processes.test_gateway_commands import resurge

pytestmark = pytest.mark.processes
UNLIMITED = ("--rate", "1000000")


def test_a_backup_taken_while_running_restores_with_the_account_intact(tmp_path: Path):
    home, backup, machine = tmp_path / "site" / "gateway", tmp_path / "backup.tar.gz", tmp_path / "empty machine"
    with GatewayProcess(home, *UNLIMITED, "--results", str(tmp_path / "site" / "results.sqlite")) as gateway:
        phone = gateway.phone()
        phone.send(10)
        done = threading.Event()

        def deliver() -> None:
            while not done.is_set():
                phone.send(10)

        delivering = threading.Thread(target=deliver)
        delivering.start()
        try:
            made = json.loads(resurge("backup", "create", str(backup), "--home", str(home), "--json"))
        finally:
            done.set()
            delivering.join()
        assert made["files"] >= 8
        assert gateway.stop() == 0
    restored = restore(backup, machine)
    assert 10 <= restored["delivered"] <= phone.next
    with GatewayProcess(machine / "gateway", *UNLIMITED, "--results", str(machine / "results.sqlite")) as again:
        token = operator_token(machine / "gateway")
        asked = urllib.request.Request(
            f"http://127.0.0.1:{again.port}/v1/account", headers={"authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
            assert json.load(answer)["delivered"] == restored["delivered"]
        # The phone knows this gateway by its key, and the gateway knows how far the phone had come.
        phone.post = PersistentPost(again)
        assert phone.hello()[0] == 200
        phone.next = restored["delivered"]
        assert phone.send(10) == restored["delivered"] + 10
        phone.post.close()
