"""Commands against a gateway that really listens: what they say, as a table and as JSON."""

from __future__ import annotations

import importlib
import io
import json
import socket
import sqlite3
import threading

import pytest
import uvicorn
from rich.console import Console
from typer.testing import CliRunner

from resurge.cli import gateway_api, stream
from resurge.cli.device import in_words
from shared.errors import ResurgeError, UsageError
from shared.sync.exchange import StatusReceived
from shared.wire.status import AdviceStatus, DeviceStatus, HostOffer
from tests.cloud_backend.dashboard.house import House
from tests.patience import PATIENCE_S

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
    thread.join(PATIENCE_S)
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
    trips = run(house, "query", "rows", "my_trips")
    assert "0.123456" in trips
    assert "tram-07" in trips
    assert house.phones[0].hex() not in trips
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


def test_of_devices_with_one_name_the_ids_are_named(house):
    ids = {house.enrol(name).hex() for name in ("ferry", "boat")}
    run(house, "device", "rename", "boat", "ferry")
    with pytest.raises(UsageError, match=r"2 fit 'ferry'; say which: .*\[device-not-found\]") as refused:
        run(house, "device", "show", "ferry")
    assert all(each in refused.value.message for each in ids)
    assert run(house, "device", "show", ids.pop(), as_json=True)["name"] == "ferry"


def test_what_a_device_says_of_itself_is_told_in_words():
    said = in_words({
        "advice": [360.0, 1, None, 90.0], "clock_doubt_s": 3e-06, "full_in_s": 144_426.0, "operators": [], "plan": 1,
        "missing_sensors": ["gps", "light"], "pace": [60.0, 5, 3], "spool_capacity_bytes": 52_428_800,
    })  # fmt: skip
    assert said == {
        "advice": "its spool fills at 360 B a second; 1 outage seen, 99 of 100 not longer than 1 min 30 s",
        "clock_doubt_s": "0.003 ms", "full_in_s": "1 d 16 h", "plan": "1", "missing_sensors": "gps, light",
        "pace": "it plays time, 60 times as fast", "spool_capacity_bytes": "52.4 MB",
    }  # fmt: skip


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
    monkeypatch.setattr(gateway_api, "_again", lambda: next(rounds))
    module = importlib.import_module("resurge.cli.stream")
    arguments = ["list", "--home", str(house.settings.home), "--watch", "--json"]
    assert len(CliRunner().invoke(module.app, arguments).output.splitlines()) == 3


def test_a_table_takes_no_orders_from_what_it_shows():
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(gateway_api.table(("name",), [("\x1b]0;owned\x07\x1b[2J[red]bus\r\n",)]))
    shown = console.export_text()
    assert "[red]bus" in shown
    assert not set(shown) & set("\x1b\x07\r")


def test_a_device_is_revoked_by_its_name(house):
    assert run(house, "device", "revoke", "bus-12", as_json=True)["name"] == "bus-12"
    assert run(house, "device", "show", "bus-12", as_json=True)["state"] == "revoked"
    with pytest.raises(UsageError, match="device-not-found"):
        run(house, "device", "revoke", "bus-1")


def test_a_result_keeps_the_names_of_its_key_and_columns(house, tmp_path):
    assert "device" in run(house, "query", "rows", "my_trips")
    run(house, "query", "export", "my_trips", str(tmp_path / "trips.csv"))
    head = (tmp_path / "trips.csv").read_text().splitlines()[0]
    assert head == "device,window_start_us,window_end_us,complete,km,lat,lon,points"


def test_people_are_added_without_a_running_gateway(house):
    link = run(house, "person", "add", "ada", "--role", "operator", as_json=True)["link"]
    assert "/signin/once/" in link
    assert {each["name"]: each["role"] for each in run(house, "person", "list", as_json=True)["accounts"]}[
        "ada"
    ] == "operator"
    browser = house.browser()
    assert browser.get(link[link.index("/signin") :]).status_code == 200
    run(house, "person", "remove", "ada")
    assert browser.get("/v1/api/me").status_code == 401


def test_a_gateway_that_does_not_run_is_told_apart_from_one_that_never_did(house, tmp_path):
    with pytest.raises(UsageError, match="gateway-home"):
        gateway_api.Api(tmp_path)
    (tmp_path / "operator.token").write_text("t")
    (tmp_path / "gateway.json").write_text(json.dumps({"host": "127.0.0.1", "port": 1, "pin": "", "key": ""}))
    with pytest.raises(UsageError, match="gateway-not-running"):
        gateway_api.Api(tmp_path).get("/me")


def test_an_anchor_kept_elsewhere_shows_what_was_cut(house, tmp_path):
    kept = tmp_path / "anchors.jsonl"
    run(house, "person", "add", "ada")
    assert "is anchored" in run(house, "audit", "anchor", str(kept))
    run(house, "person", "add", "eve")
    run(house, "audit", "anchor", str(kept))
    assert "2 anchored ones" in run(house, "audit", "verify", "--anchor", str(kept))
    with sqlite3.connect(house.settings.home / "audit.sqlite") as database:
        database.execute("DROP TRIGGER lines_last")
        for table in ("lines", "heads"):
            database.execute(f"DELETE FROM {table} WHERE number = (SELECT max(number) FROM {table})")
    assert run(house, "audit", "verify", as_json=True)["sound"]
    with pytest.raises(ResurgeError, match="audit-anchor"):
        run(house, "audit", "verify", "--anchor", str(kept))
    kept.write_text(kept.read_text().replace('"number": 1', '"number": 7'))
    with pytest.raises(ResurgeError, match="audit-anchor-file"):
        run(house, "audit", "verify", "--anchor", str(kept))


def test_contracts_are_shown_and_a_report_that_was_altered_by_a_byte_is_named(house):
    audits, now_us = house.app.state.sources.contracts, house.now_us
    audits.follow(now_us)
    house.deliver(house.phones[0], seq=8)
    audits.follow(now_us + 2 * 3600 * 1_000_000)
    assert "lossless" in run(house, "contract", "show")
    assert "broken" in run(house, "contract", "show", "gps")
    shown = run(house, "contract", "show", "gps", as_json=True)
    assert 0.75 in [each["kept"] for each in shown["reports"]]
    assert f"{len(shown['reports'])} reports, all as they were signed" in run(house, "contract", "verify")
    with sqlite3.connect(house.settings.home / "contracts.sqlite") as database:
        database.execute("DROP TRIGGER reports_stay")
        database.execute("UPDATE reports SET body = replace(body, '0.75', '0.85')")
    database.close()
    with pytest.raises(ResurgeError, match=r"report 1 on contracts was changed .*contract-chain"):
        run(house, "contract", "verify")


REGION = """
import resurge as rs
near = rs.sensor("noise", every="1s", columns={"db": "float64"}).gather("noise")
near.sliding(count=5).aggregate(db=rs.mean("db")).subscribe("loud")
"""


def test_a_query_runs_on_the_gateways_fleet_as_on_any_other(house, tmp_path):
    program = tmp_path / "noise.py"
    program.write_text(REGION)
    asked = (str(program), "--from", "hub")
    with pytest.raises(UsageError, match="no node offers to host"):
        run(house, "query", "submit", "noise", *asked)
    for number, name in enumerate(("hub", "desk")):
        offer = HostOffer(name, "0" * 40, (f"tcp://127.0.0.1:{7301 + number}",), 8)
        house.gateway.fleet.notice(StatusReceived(house.enrol(f"{name}-1"), 1, DeviceStatus(offer=offer)))
    with pytest.raises(UsageError, match=r"on which node.*\[query-sink\]"):
        run(house, "query", "submit", "noise", *asked)
    with pytest.raises(UsageError, match=r"room for.*\[place-capacity\]|\[place-path\]"):
        run(house, "query", "submit", "noise", *asked, "--to", "desk", "--place", "cloud-only")
    drawn = run(house, "query", "explain", *asked, "--to", "desk", "--place", "top-down")
    assert "hub (source) --wired 1--> desk (sink) [loud]" in drawn
    assert "loud on desk" in drawn
    assert not house.gateway.fleet.runs("query")
    said = run(house, "query", "submit", "noise", *asked, "--to", "desk", "--on", "loud=hub", as_json=True)
    assert [each["hosts"] for each in said["vertices"]] == [["hub"]]
    again = run(house, "query", "submit", "again", "SELECT db FROM noise", "--from", "hub", "--to", "desk")
    assert "again begins; `resurge fleet show --gateway" in again
    assert "loud on hub" in run(house, "query", "list")
    assert [each["name"] for each in run(house, "query", "list", as_json=True)["fleet"]["queries"]] == [
        "noise",
        "again",
    ]
    for name, refused in (("noise", SQL), ("noise", "SELECT db FROM noise")):
        placed = () if refused is SQL else ("--from", "hub", "--to", "desk")
        with pytest.raises(UsageError, match=r"\[query-name-taken\]"):
            run(house, "query", "submit", name, refused, *placed)
    with pytest.raises(UsageError, match=r"\[query-edit\]"):
        run(house, "query", "edit", "noise", "SELECT db FROM noise WHERE db > 3")
    program.write_text(REGION.replace("near.sliding", "near.where(rs.col.db > 3).sliding"))
    assert "noise goes on as edited" in run(house, "query", "edit", "noise", str(program))
    assert run(house, "query", "edit", "noise", str(program), as_json=True)["edited"] is False
    for name in ("noise", "again"):
        run(house, "query", "drop", name)
    with pytest.raises(UsageError, match=r"\[query-not-found\]"):
        run(house, "query", "drop", "noise")


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        ("SELECT v FROM gps", "query-name", 'submit loud "SELECT ..."'),
        ("noise.py", "query-name", "submit noise noise.py"),
        ("noise", "query-kind", "say what 'noise' asks"),
    ],
)
def test_a_query_without_a_name_or_without_a_question_says_what_is_lacking(house, said, code, words):
    with pytest.raises(UsageError) as refused:
        run(house, "query", "submit", said)
    assert (refused.value.code, words in refused.value.message) == (code, True)


def test_how_large_a_devices_buffer_should_be_is_said_at_the_gateway(house):
    van = house.enrol("van-9")
    asked = ("advise", "--gateway", str(house.settings.home), "--device", "van-9")

    def advise(*more: str):
        result = CliRunner().invoke(stream.app, [*asked, *more], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    with pytest.raises(UsageError, match=r"van-9 has not said.*\[advice-unknown\]"):
        advise()
    advice = AdviceStatus(1000.0, 40, 3600.0, 72_000.0)
    status = DeviceStatus(produced=12, incarnation=1, spool_capacity_bytes=50_000_000, advice=advice)
    house.gateway.roster.seen([(van, house.now_us, status)])
    house.app.state.sources.look_again()
    said = advise("--outage", "24h")
    assert "all streams  1.0 KB/s" in said
    assert "but 1 of 100 outages lasted 20 h or longer" in said
    assert "(24h) would lose 47.4 % of its readings" in said
    found = json.loads(advise("--json"))
    assert (found["outages"], round(found["lasts_s"])) == (40, 45455)
    page = house.browser("viewer").get(f"/devices/{van.hex()}").text
    assert "but 1 of 100 outages lasted 20 h or longer: that long takes" in page
    assert "It fills at 1.0 KB a second." in page
    with pytest.raises(UsageError, match="of which device"):
        CliRunner().invoke(stream.app, ["advise", "--gateway", "x"], catch_exceptions=False)
