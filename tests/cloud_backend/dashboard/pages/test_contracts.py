"""The contracts' pages: promise, verdict, reports, what was lost and what strategies cost, for whoever may look."""

from __future__ import annotations

import re
import time
from types import SimpleNamespace

import pytest

from cloud_backend.dashboard.drawing.number_text import duration
from cloud_backend.gateway import fleet as fleet_module
from shared.plan.encoding import encode_plan
from shared.stream.program import load_program
from shared.sync.exchange import StatusReceived
from shared.wire.status import DeviceStatus, HostOffer, InstanceStatus

HOUR_US = 3600 * 1_000_000


@pytest.fixture
def audited(dashboard):
    audits = dashboard.app.state.sources.contracts
    audits.follow(dashboard.now_us)
    dashboard.deliver(dashboard.phones[0], seq=8)
    audits.follow(dashboard.now_us)
    return dashboard


def test_the_page_shows_what_was_promised_and_how_it_is(audited):
    page = audited.browser("viewer").get("/contracts").text
    assert "lossless" in page
    assert "broken: loss" in page
    assert "75.00 %" in page
    assert "The first report comes when an hour is over." in page
    assert 'href="/contracts"' in audited.browser("viewer").get("/streams").text
    assert audited.browser().get("/contracts").status_code in (303, 401)


def test_a_sink_s_page_has_its_reports_what_was_lost_and_the_strategies(audited):
    audited.app.state.sources.contracts.follow(audited.now_us + HOUR_US + 10_000_000)
    page = audited.browser("viewer").get("/contracts/gps").text
    assert "Ranges lost" in page
    assert "[14, 16)" in page
    assert "evicted" in page
    assert "tram-07" in page
    assert "extended-ecoc" in page
    assert "Older" not in page


def test_a_sink_that_promises_nothing_is_not_found(audited):
    browser = audited.browser("viewer")
    assert browser.get("/contracts/elsewhere").status_code == 404
    assert browser.get("/v1/api/contracts/sinks/elsewhere").json()["code"] == "contract-not-found"


def test_the_api_says_the_same_and_verifies_for_operators(audited):
    viewer, operator = audited.browser("viewer"), audited.browser("operator")
    audited.app.state.sources.contracts.follow(audited.now_us + HOUR_US + 10_000_000)
    (sink,) = viewer.get("/v1/api/contracts").json()["contracts"]
    assert (sink["sink"], sink["promise"], sink["row"]) == ("gps", "lossless", "local")
    found = viewer.get("/v1/api/contracts/reports").json()
    assert [each["verdict"] for each in found["reports"]] == ["broken"]
    assert found["key"] == audited.gateway.keys.public_key.hex()
    assert operator.get("/v1/api/contracts/verify").json() == {"sound": True, "reports": 1}
    assert viewer.get("/v1/api/contracts/verify").status_code == 403
    assert viewer.get("/v1/api/contracts/sinks/gps").json()["reports"][0]["lost"][0]["reason"] == "evicted"


PROGRAM = """
import resurge as rs
near = rs.sensor("noise", every="1s", columns={"db": "float64"}).gather("noise")
near.sliding(count=5).aggregate(db=rs.mean("db")).sync("loud")
"""


class Nodes:
    """Three nodes of the gateway's fleet, with a clock that is put forward instead of waiting for one that is silent."""

    def __init__(self, house, monkeypatch) -> None:
        self.fleet, self.now = house.gateway.fleet, time.monotonic()
        monkeypatch.setattr(fleet_module, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.devices = {name: house.enrol(name) for name in ("hub1", "hub2", "desk")}

    def speak(self, name: str, *instances: InstanceStatus) -> None:
        address = f"tcp://127.0.0.1:{7301 + [*self.devices].index(name)}"
        offer = HostOffer(name, "0" * 40, (address,), 8)
        self.fleet.notice(StatusReceived(self.devices[name], 1, DeviceStatus(offer=offer, instances=instances)))

    def pass_until_recovered(self, *alive: str) -> float:
        """When the coordinator decided to."""
        for _ in range(60):
            self.pass_s(1, *alive)
            if self.fleet.recoveries():
                break
        return self.now

    def pass_s(self, seconds: int, *alive: str) -> None:
        for _ in range(seconds):
            self.now += 1.0
            for name in alive:
                self.speak(name)
            self.fleet.tick()


def test_a_query_s_sink_has_what_its_nodes_had_to_recover(dashboard, monkeypatch, tmp_path):
    audits, nodes = dashboard.app.state.sources.contracts, Nodes(dashboard, monkeypatch)
    audits.follow(dashboard.now_us)
    for name in nodes.devices:
        nodes.speak(name)
    (tmp_path / "p.py").write_text(PROGRAM)
    asked = {"name": "q", "plan": encode_plan(load_program(tmp_path / "p.py")).decode(), "sources": ["desk"]}
    nodes.fleet.ask("submit", asked | {"sink": "desk", "on": ["loud=hub1"], "keepers": 1})
    browser = dashboard.browser("viewer")
    audits.follow(time.time_ns() // 1000)
    page = browser.get("/contracts/loud").text
    assert "Recovered on nodes" not in page
    begun_at = nodes.pass_until_recovered("hub2", "desk")  # hub1 is dead
    nodes.pass_s(5, "hub2", "desk")
    (begun,) = nodes.fleet.recoveries()
    assert (begun.kind, begun.move.before, begun.took_s) == ("moved", ("hub1",), None)
    (host,) = begun.move.after
    audits.follow(time.time_ns() // 1000)
    assert ">not measured<" in browser.get("/contracts/loud").text
    nodes.speak(host, InstanceStatus("q", "loud", begun.move.term, "running"))
    (ended,) = nodes.fleet.recoveries()
    assert ended.took_s == pytest.approx(nodes.now - begun_at)
    audits.follow(time.time_ns() // 1000 + HOUR_US + 10_000_000)
    said = [each["query"]["recovered"] for each in browser.get("/v1/api/contracts/sinks/loud").json()["reports"]]
    (found,) = [each for each in said if each["count"]]
    assert (found["kinds"], found["seconds"], found["not_measured"]) == ({"moved": 1}, ended.took_s, 0)
    page = browser.get("/contracts/loud").text
    (row,) = re.findall(r"<tr>(?:(?!</tr>).)*data-label=\"Part\">.*?</tr>", page, re.DOTALL)
    cells = dict(re.findall(r'data-label="(\w+)">(.*?)</td>', row))
    assert (cells["Part"], cells["What"], cells["From"], cells["To"]) == ("loud", "moved", "hub1", host)
    assert cells["Took"] == duration(ended.took_s)
    assert cells["Why"].startswith("hub1 is silent for ")
    assert "Recovered on nodes" not in browser.get("/contracts/gps").text
