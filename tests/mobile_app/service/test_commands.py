"""The service as a screen meets it: a real loop in a thread, a real socket, no gateway unless one is said."""

from __future__ import annotations

import base64
import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import resurge as rs
from mobile_app.headless import RunOptions, run
from mobile_app.home.keys import load_keys
from mobile_app.links import enrolment
from mobile_app.links.link import LinkDown
from mobile_app.sensors.choose import parse_choices
from mobile_app.service.connection import ServiceClient, ServiceGone, ServiceRefused
from mobile_app.settings import Gateway, save_gateway
from resurge.cli.node import app as node_commands
from shared.errors import ResurgeError
from shared.identity import device_id
from shared.wire.enrolment import EnrolmentAnswer, EnrolmentLink, comparison_digits
from tests.patience import PATIENCE_S, wait_until

PROGRAM = """
import resurge as rs
rs.sensor("gps", every="1s").sync("raw", batch=20, within="5s")
rs.stream("markers", {"label": "str"}).sync("labels", within="5s")
"""


class Service:
    """One home and the service in it."""

    def __init__(self, home: Path, **options) -> None:
        self.home = home
        home.mkdir(exist_ok=True)
        (home / "settings.toml").write_text("spool_mb = 1\nloss_window_s = 0.2\nfree_mb = 0\n")
        self.stop = threading.Event()
        self.account: dict[str, object] = {}
        sensors = parse_choices(["gps=synthetic:3", "accelerometer=synthetic:3"])
        self._options = RunOptions(home, sensors=sensors, stop=self.stop, signals=False, **options)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self.client = self.wait(lambda: ServiceClient.open(home))
        self.wait(lambda: self.client.view()["running"] or None)

    def _run(self) -> None:
        self.account = run(self._options)

    @staticmethod
    def wait(ask: Callable[[], object]):
        """The first answer that there is; a refusal is asked again."""
        return wait_until(ask, "the answer", again_after=ResurgeError)

    def end(self) -> None:
        self.client.close()
        self.stop.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path / "home")
    yield service
    service.end()


def test_a_recording_needs_no_server_and_no_plan(service):
    do = service.client.do
    started = do("start_recording", name="Walk")
    assert do("marker", label="gate")["label"] == "gate"
    service.wait(lambda: (service.client.view()["recording"] or {}).get("readings", {}).get("gps"))
    summary = do("stop_recording")
    assert summary["name"] == "Walk"
    assert set(summary["readings"]) == {"accelerometer", "gps"}
    assert [one["id"] for one in do("recordings")] == [started["id"]]
    assert do("rename_recording", recording=started["id"], name="Home")["name"] == "Home"
    path = Path(do("export", kind="zip", recording=started["id"])["path"])
    assert zipfile.ZipFile(path).testzip() is None
    do("delete_recording", recording=started["id"])
    assert do("recordings") == []
    assert [entry["code"] for entry in service.client.health()] == ["not-paired"]


def test_looking_at_a_sensor_reads_it_while_somebody_looks(service):
    samples = service.wait(lambda: next((s for s in [service.client.samples("accelerometer")] if s["times_us"]), None))
    assert samples["asked_hz"] == 50.0
    assert set(samples["columns"]) == {"x", "y", "z"}
    assert len(samples["times_us"]) == len(samples["columns"]["x"])
    newest = samples["times_us"][-1]
    later = service.wait(
        lambda: next((s for s in [service.client.samples("accelerometer", newest)] if s["times_us"]), None)
    )
    assert later["times_us"][0] > newest
    assert service.client.view()["recording"] is None


def test_what_cannot_be_is_refused_with_a_code(service):
    for act, arguments, code in [
        ("stop_recording", {}, "recording-none"),
        ("export", {"kind": "csv", "recording": "nothing"}, "recording-unknown"),
        ("fly", {}, "service-call"),
        ("marker", {"wrong": 1}, "service-call"),
        ("policy", {"spool_mb": 4}, "settings-name"),
        ("confirm_pair", {"yes": True}, "pairing-none"),
        ("unpair", {}, "pairing-none"),
        ("pair", {"link": "resurge://secret"}, "enrolment-link"),
    ]:
        with pytest.raises(ServiceRefused) as refused:
            service.client.do(act, **arguments)
        assert refused.value.code == code


def test_policies_change_at_once_and_are_shown(service):
    assert service.client.do("policy", wifi_only=True, record=["gps"])["record"] == ["gps"]
    assert service.client.view()["policies"]["wifi_only"] is True


def test_a_recording_takes_what_its_person_chose_and_allows_and_the_choice_is_remembered(tmp_path):
    service = Service(tmp_path / "home")
    do = service.client.do
    try:
        assert service.client.view()["to_record"] == {"accelerometer": 50.0, "gps": 1.0}  # nobody chose yet
        do("policy", record=["gps"])
        assert service.client.view()["to_record"] == {"gps": 1.0}
        do("start_recording", name="chosen")
        assert service.wait(lambda: service.client.view()["recording"])["sensors"] == ["gps"]
        do("stop_recording")
        do("consent", sensor="gps", allow=False)
        assert service.client.view()["to_record"] == {}
        for sensors in (None, ["gps"], ["thermometer"]):
            with pytest.raises(ServiceRefused) as refused:
                do("start_recording", sensors=sensors)
            assert refused.value.code == "recording-sensors"
        assert do("start_recording", sensors=["gps", "accelerometer"])["missing"] == {
            "gps": "its person has not allowed it"
        }
        with pytest.raises(ServiceRefused) as refused:
            do("consent", sensor="gps", allow="perhaps")
        assert refused.value.code == "settings-value"
        assert do("consent", sensor="gps", allow="recordings") == {"accelerometer": True, "gps": "recordings"}
        assert do("sensors")["gps"] == {"available": True, "why": "", "hz": 1.0}
    finally:
        service.end()
    again = Service(tmp_path / "home")
    try:
        assert again.client.view()["to_record"] == {"gps": 1.0}
        assert again.client.view()["consents"]["gps"] == "recordings"
    finally:
        again.end()


def test_a_recording_goes_at_the_pace_of_a_plan_that_reads_oftener(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import resurge as rs\nrs.sensor('accelerometer', every='10ms').sync('raw', within='5s')\n")
    service = Service(tmp_path / "home", plan=rs.load_program(program))
    try:
        view = service.wait(lambda: next((v for v in [service.client.view()] if v["plan"]), None))
        assert view["to_record"] == {"accelerometer": 100.0, "gps": 1.0}
        assert view["asked_sensors"] == {}  # its person started that program by hand
    finally:
        service.end()


def test_who_chooses_to_work_with_other_devices_takes_part_in_the_gateways_fleet_and_leaves_it(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    save_gateway(home, Gateway("http://127.0.0.1:9", b"k" * 32, b"", 1))  # nobody answers there
    service = Service(home)
    try:
        assert service.client.view()["fleet"] is None
        with pytest.raises(ServiceRefused) as refused:
            service.client.do("policy", hosting="sometimes")
        assert refused.value.code == "settings-value"
        device = service.client.view()["device"]
        for chosen in ("hosts", "feeds", "no"):
            assert service.client.do("policy", hosting=chosen)["hosting"] == chosen

            def seen(takes_part: bool = chosen != "no") -> bool:
                view = service.client.view()
                return view["running"] and (view["fleet"] is not None) is takes_part

            service.wait(lambda seen=seen: seen() or None)
        assert service.client.view()["device"] == device, "it is the same device as before"
    finally:
        service.end()


def test_deleting_my_data_leaves_no_reading_and_no_key(service):
    home = service.home
    before = service.client.view()["device"]
    key = (home / "device.key").read_bytes()
    service.client.do("start_recording", name="secret")
    service.client.do("marker", label="secret")
    service.client.do("stop_recording")
    service.client.do("export", kind="csv", recording=service.client.do("recordings")[0]["id"])
    answer = service.client.do("delete_my_data")
    assert {"device.key", "spool.key", "spool", "recordings", "exports"} <= set(answer["deleted"])
    assert answer["cloud_has"]["delivered"] == {}
    after = service.wait(lambda: next((v for v in [service.client.view()] if v["running"]), None))
    assert after["device"] != before
    assert (home / "device.key").read_bytes() != key
    assert service.client.do("recordings") == []
    for path in home.rglob("*"):
        assert not path.is_file() or b"secret" not in path.read_bytes()


def test_an_interrupted_deletion_is_finished_at_the_next_start(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "erasing").write_bytes(b"")
    (home / "device.key").write_bytes(b"k" * 32)
    (home / "recordings" / "one").mkdir(parents=True)
    service = Service(home)
    try:
        assert (home / "device.key").read_bytes() != b"k" * 32
        assert not (home / "erasing").exists()
        assert service.client.do("recordings") == []
    finally:
        service.end()


def test_diagnostics_tell_how_it_is_and_no_secret(service):
    home = service.home
    service.client.do("start_recording", name="my private walk")
    service.client.do("marker", label="my private label")
    path = Path(service.client.do("diagnostics")["path"])
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    assert set(members) == {"view.json", "health.json", "plan.json", "machine.json"}
    token = json.loads((home / "service.link").read_bytes())["token"]
    everything = b"".join(members.values())
    for secret in ((home / "device.key").read_bytes(), (home / "spool.key").read_bytes(), bytes.fromhex(token)):
        for form in (secret, secret.hex().encode(), base64.b64encode(secret).rstrip(b"=")):
            assert form not in everything
    for text in (b"my private", b'"lat"', b'"times_us"'):
        assert text not in everything


class FakeGateway:
    """Answers enrolments as a gateway would, or not at all."""

    public_key = b"g" * 32

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def enrol(self, request: bytes) -> tuple[int, bytes]:
        key = bytes.fromhex(json.loads(request)["public_key"])
        return 200, EnrolmentAnswer(device_id(key), 3).encode()

    def close(self) -> None:
        pass


def test_pairing_shows_digits_first_and_enrols_only_when_they_are_confirmed(service, monkeypatch):
    monkeypatch.setattr(enrolment, "GatewayLink", FakeGateway)
    link = EnrolmentLink("127.0.0.1", 1, b"c" * 16, FakeGateway.public_key)
    keys = load_keys(service.home)
    asked = service.client.do("pair", link=str(link))
    assert asked["confirmation"] == comparison_digits(link.code, keys.public_key, link.gateway_key)
    assert service.client.view()["pairing"]["confirmation"] == asked["confirmation"]
    assert not (service.home / "gateway.json").exists()
    assert service.client.do("confirm_pair", yes=False) == {"paired": False}
    assert service.client.view()["pairing"] is None
    service.client.do("pair", link=str(link))
    assert service.client.do("confirm_pair", yes=True) == {"paired": True}
    view = service.wait(lambda: next((v for v in [service.client.view()] if v["gateway"]), None))
    assert view["gateway"] == link.url
    service.wait(lambda: next((h for h in service.client.health() if h["code"] == "gateway-unreachable"), None))
    assert service.client.do("unpair")["gateway"] == link.url
    service.wait(lambda: next((h for h in service.client.health() if h["code"] == "not-paired"), None))


def test_a_home_that_another_process_enrols_speaks_with_that_gateway_at_once(service, monkeypatch):
    monkeypatch.setattr(enrolment, "GatewayLink", FakeGateway)
    link = EnrolmentLink("127.0.0.1", 1, b"c" * 16, FakeGateway.public_key)
    done = CliRunner().invoke(node_commands, ["enrol", str(link), "--home", str(service.home), "--json"])
    assert json.loads(done.stdout)["running"] == "the node that runs here goes on with this gateway"
    service.wait(lambda: service.client.view()["gateway"] == link.url)
    service.client.do("unpair")


def test_enrolling_a_home_in_which_nothing_runs_says_nothing_of_a_node(tmp_path, monkeypatch):
    monkeypatch.setattr(enrolment, "GatewayLink", FakeGateway)
    link = EnrolmentLink("127.0.0.1", 1, b"c" * 16, FakeGateway.public_key)
    done = CliRunner().invoke(node_commands, ["enrol", str(link), "--home", str(tmp_path / "home"), "--json"])
    assert set(json.loads(done.stdout)) == {"device", "incarnation", "gateway", "compare"}


def test_a_gateway_that_is_not_there_is_said(service, monkeypatch):
    def down(*_: object) -> None:
        raise LinkDown("the gateway cannot be reached")

    monkeypatch.setattr(FakeGateway, "enrol", down)
    monkeypatch.setattr(enrolment, "GatewayLink", FakeGateway)
    with pytest.raises(ServiceRefused) as refused:
        service.client.do("pair", link=str(EnrolmentLink("127.0.0.1", 1, b"c" * 16, b"g" * 32)))
    assert refused.value.code == "enrolment-unreachable"


def test_the_plan_is_shown_and_markers_reach_it(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    service = Service(tmp_path / "home", plan=rs.load_program(program))
    try:
        plan = service.client.plan()
        assert [(operator["kind"], operator["side"]) for operator in plan["operators"]][:2] == [
            ("sensor", "device"),
            ("sync", "device"),
        ]
        assert [(edge["name"], edge["promise"]) for edge in plan["edges"]] == [
            ("raw", "lossless"),
            ("labels", "lossless"),
        ]
        assert plan["missing"] == {}
        service.client.do("start_recording")
        service.client.do("marker", label="stairs")
        service.wait(lambda: service.client.view()["edges"].get("labels", {}).get("produced") or None)
        assert service.client.ledger() == []
        assert service.client.results() == []
        assert service.client.view()["goes_first"]
    finally:
        service.end()


def test_stopping_from_the_screen_ends_the_service_and_keeps_the_recording(tmp_path):
    service = Service(tmp_path / "home")
    service.client.do("start_recording", name="long one")
    service.client.do("stop")
    service.end()
    with pytest.raises(ServiceGone):
        ServiceClient.open(service.home)
    again = Service(tmp_path / "home")
    try:
        assert again.client.view()["recording"]["name"] == "long one"
    finally:
        again.end()
