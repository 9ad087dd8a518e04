"""Commands against a gateway that really listens: what they say, as a table and as JSON."""

from __future__ import annotations

import importlib
import json
import socket
import threading

import pytest
import uvicorn
from typer.testing import CliRunner

from resurge.cli import asking
from shared.errors import UsageError
from tests.cloud_backend.dashboard.house import House

SQL = "SELECT device, count(*) AS n FROM gps GROUP BY TUMBLE(10 SECONDS), device"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    made = House(tmp_path_factory.mktemp("house"))
    listener = socket.create_server(("127.0.0.1", 0))
    address = made.settings.home / "gateway.json"
    address.write_text(json.dumps(json.loads(address.read_text()) | {"port": listener.getsockname()[1]}))
    server = uvicorn.Server(uvicorn.Config(made.app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield made
    server.should_exit = True
    thread.join(timeout=10)
    listener.close()
    made.close()


def run(house, noun: str, *arguments: str, as_json: bool = False):
    module = importlib.import_module(f"resurge.cli.{noun}")
    extra = ["--home", str(house.settings.home), *(["--json"] if as_json else [])]
    result = CliRunner().invoke(module.app, [*arguments, *extra], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.output.splitlines()[-1]) if as_json else result.output


def test_tables_show_what_the_api_says(house):
    assert "gps" in run(house, "stream", "list")
    assert "tram-07" in run(house, "stream", "show", "gps")
    assert "47.37" in run(house, "stream", "batches", "gps", "--limit", "1")
    assert "enrolled" in run(house, "device", "show", "tram-07")
    assert "47.37" in run(house, "device", "trail", "tram-07")
    assert "0.123456" in run(house, "query", "rows", "my_trips")
    assert "main" in run(house, "job", "names")
    assert "enrolled" in run(house, "audit", "list")
    assert "alert" in run(house, "audit", "alerts")


def test_json_is_what_the_api_says(house):
    assert [each["name"] for each in run(house, "stream", "list", as_json=True)["streams"]] == ["gps"]
    assert run(house, "device", "show", "bus-12", as_json=True)["delivered"] == 6
    assert run(house, "audit", "verify", as_json=True)["sound"]


def test_a_device_is_found_by_its_name_its_id_or_the_start_of_it(house):
    device = house.phones[0].hex()
    for text in ("tram-07", device, device[:8]):
        assert run(house, "device", "show", text, as_json=True)["device"] == device
    with pytest.raises(UsageError, match=r"have: bus-12, tram-07.*\[device-not-found\]"):
        run(house, "device", "show", "ferry")


def test_a_device_is_renamed_configured_and_deleted_by_command(house):
    device = house.enrol("ferry-2").hex()
    run(house, "device", "rename", "ferry-2", "ferry two")
    assert run(house, "device", "configure", "ferry two", "--rate", "0.5", as_json=True)["sampling_rate"] == 0.5
    run(house, "device", "delete-data", "ferry two", "--yes")
    assert run(house, "device", "show", device, as_json=True)["state"] == "deleted"


def test_a_query_lives_from_submit_to_drop(house, tmp_path):
    assert "tumbling 10s" in run(house, "query", "explain", SQL)
    run(house, "query", "submit", "counts", SQL)
    assert [each["wanted"] for each in run(house, "query", "list", as_json=True)["queries"]] == ["running"]
    run(house, "query", "stop", "counts")
    run(house, "query", "resume", "counts")
    run(house, "query", "drop", "counts")
    assert run(house, "query", "list", as_json=True)["queries"] == []
    run(house, "query", "export", "my_trips", str(tmp_path / "trips.geojson"), "--format", "geojson")
    assert len(json.loads((tmp_path / "trips.geojson").read_text())["features"]) == 2


def test_watching_shows_it_again_until_it_is_interrupted(house, monkeypatch):
    rounds = iter([True, True, False])
    monkeypatch.setattr(asking, "_again", lambda: next(rounds))
    module = importlib.import_module("resurge.cli.stream")
    arguments = ["list", "--home", str(house.settings.home), "--watch", "--json"]
    assert len(CliRunner().invoke(module.app, arguments).output.splitlines()) == 3


def test_accounts_are_made_without_a_running_gateway(house):
    link = run(house, "account", "add", "ada", "--role", "operator", as_json=True)["link"]
    assert "/signin/once/" in link
    assert {each["name"]: each["role"] for each in run(house, "account", "list", as_json=True)["accounts"]}[
        "ada"
    ] == "operator"
    browser = house.browser()
    assert browser.get(link[link.index("/signin") :]).status_code == 200
    run(house, "account", "remove", "ada")
    assert browser.get("/v1/api/me").status_code == 401


def test_a_gateway_that_does_not_run_is_told_apart_from_one_that_never_did(house, tmp_path):
    with pytest.raises(UsageError, match="gateway-home"):
        asking.Api(tmp_path)
    (tmp_path / "operator.token").write_text("t")
    (tmp_path / "gateway.json").write_text(json.dumps({"host": "127.0.0.1", "port": 1, "pin": "", "key": ""}))
    with pytest.raises(UsageError, match="gateway-not-running"):
        asking.Api(tmp_path).get("/me")
