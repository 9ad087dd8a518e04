"""A phone whose link to the gateway is really lost: between network namespaces where they can be made, else through a
forwarder on loopback. The claim says which."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from resurge.lab._linked_nodes import Namespaces, network
from resurge.up.process_fleet import COORDINATOR, PHONE
from tests.claims import Claim
from tests.patience import let_pass, wait_until
from tests.processes.gateway_process import GatewayProcess
from tests.processes.node_processes import SPEED, NodeHome, account, check_rows, enrolment_link, write_plan

pytestmark = pytest.mark.processes
AWAY_S = 60.0 / SPEED  # a minute of the phone's own time
GATEWAY = COORDINATOR  # what the network calls the node at the other end


@pytest.mark.soak
@pytest.mark.covers("SO-10", "SO-44")
def test_a_minute_without_a_link_is_masked_and_all_of_it_comes_at_once(tmp_path: Path, claim: Claim) -> None:
    with network([GATEWAY, PHONE], [(PHONE, GATEWAY)], tmp_path) as links:
        host, port = links.address(GATEWAY).removeprefix("tcp://").split(":")
        gateway = GatewayProcess(tmp_path / "gateway", "--plan", str(write_plan(tmp_path)), "--host", host)
        gateway.port = int(port)
        between = isinstance(links, Namespaces)
        if between:
            gateway.host, gateway.run_by = host, links.run_by(GATEWAY)
        with gateway:
            phone = NodeHome(tmp_path / "phone", gateway, seed=4)
            if between:
                phone.run_by = links.run_by(PHONE)
            else:
                door = json.loads((tmp_path / f"{PHONE}.doors").read_text())[links.address(GATEWAY)]
                phone.link = enrolment_link(gateway, int(door.rpartition(":")[2]))
            links.gain(GATEWAY)
            phone.start()
            try:
                wait_until(lambda: phone.has("delivered", 40), "first deliveries")
                links.lose(GATEWAY)
                wait_until(lambda: phone.status()["connected"] is False, "it is noticed")
                before = int(phone.status()["delivered"])
                made = int(phone.status()["produced"])
                let_pass(AWAY_S)
                wait_until(lambda: phone.has("produced", made + 60), "it goes on meanwhile")
                there = int(phone.status()["produced"])
                assert phone.status()["delivered"] == before, "nothing gets through"
                links.gain(GATEWAY)
                wait_until(lambda: phone.has("delivered", there), "what was buffered")
                ended = phone.running.terminate()
                phone.start("--for", "1").running.finish()
            finally:
                phone.running.end()
            total = account(gateway, phone)
            compared = check_rows(gateway.home / "log", phone, gaps=1)
    claim(f"{links.kind}: {there - before} elements buffered meanwhile, then all there; {compared}")
    assert total.adds_up
    assert total.ledgered == 0
    assert there - before >= 60
    assert ended["disconnections"] == 1
