"""The commands an operator uses, against a gateway that really runs, with TLS and copies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cloud_backend.gateway.reach import machine_addresses
from cloud_backend.process_log import newest
from mobile_app.links.gateway import GatewayLink
from mobile_app.links.link import LinkDown
from shared.wire.enrolment import EnrolmentAnswer, EnrolmentLink
from shared.wire.frame import decode_one
from shared.wire.messages import Refusal
from tests.patience import PATIENCE_S
from tests.processes.gateway_process import ROOT, GatewayProcess

pytestmark = pytest.mark.processes


def resurge(*arguments: str, status: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "from resurge.cli import main; main()", *arguments],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def test_a_phone_pairs_over_tls_by_link_and_is_revoked_while_connected(tmp_path: Path):
    home = tmp_path / "home"
    with GatewayProcess(home, "--tls") as gateway:
        shown = resurge("device", "pair", "--no-wait", "--home", str(home))
        assert "█" in shown or "▀" in shown or "\x1b[" in shown  # the QR code
        link = EnrolmentLink.parse(json.loads(resurge("device", "pair", "--home", str(home), "--json"))["link"])
        assert link.pin
        carrier = GatewayLink(link.url, pin=link.pin)
        from tests.cloud_backend.gateway.phone_client import PhoneClient

        phone = PhoneClient(link.gateway_key, lambda body: (200, carrier.exchange(body)), name="walker")
        status, body = carrier.enrol(phone.enrolment(link.code))
        assert status == 200
        phone.enrolled(EnrolmentAnswer.decode(body, phone.keys.public_key).incarnation)
        phone.hello()
        assert phone.send(10) == 10

        impostor = GatewayLink(link.url, pin=bytes(32))
        with pytest.raises(LinkDown):
            impostor.exchange(b"x")
        impostor.close()

        (device,) = json.loads(resurge("device", "list", "--home", str(home), "--json"))["devices"]
        assert (device["name"], device["revoked"]) == ("walker", False)
        resurge("device", "revoke", device["device"][:10], "--home", str(home))
        code = ""
        while code != "device-revoked":  # the test's time limit says if it never happens
            answer = carrier.exchange(phone.session.hello())
            frame = decode_one(answer)[0]
            code = Refusal.of(frame).code if frame.type.name == "REFUSAL" else ""
        carrier.close()
        assert gateway.stop() == 0


def test_a_link_leads_to_another_address_of_the_machine_and_both_sides_show_the_same_digits(tmp_path: Path):
    home, phone = tmp_path / "home", tmp_path / "phone"
    with GatewayProcess(home, "--host", "0.0.0.0", "--tls") as gateway:
        waiting = subprocess.Popen(
            [sys.executable, "-m", "resurge", "device", "pair", "--home", str(home), "--host", "127.0.0.2"],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        link = next(line.strip() for line in waiting.stdout if line.startswith("resurge://"))
        assert EnrolmentLink.parse(link).host == "127.0.0.2"
        enrolled = json.loads(resurge("node", "enrol", link, "--home", str(phone), "--name", "attic", "--json"))
        shown, warned = waiting.communicate(timeout=PATIENCE_S)
        assert enrolled["gateway"] == f"https://127.0.0.2:{gateway.port}"
        assert f"attic is paired. It must show {enrolled['compare']}" in shown
        assert "[device-pair-local]" in warned  # 127.0.0.2 is for this machine alone
        said = json.loads(resurge("device", "pair", "--home", str(home), "--json"))
        assert EnrolmentLink.parse(said["link"]).host == (machine_addresses() or ["127.0.0.1"])[0]
        assert gateway.stop() == 0
    with GatewayProcess(home, "--host", "0.0.0.0", "--tls", "--results", str(tmp_path / "results")) as gateway:
        listed = json.loads(resurge("stream", "list", "--home", str(home), "--json"))  # asks the gateway, over TLS
        assert listed["streams"] == []
        assert gateway.stop() == 0
    with GatewayProcess(tmp_path / "local") as gateway:
        said = json.loads(resurge("device", "pair", "--home", str(tmp_path / "local"), "--json"))
        assert "only this machine reaches it" in said["warning"]
        assert gateway.stop() == 0


def test_a_log_that_was_cut_off_is_found_by_an_end_kept_elsewhere(tmp_path: Path):
    home, kept = tmp_path / "home", tmp_path / "kept elsewhere"
    with GatewayProcess(home) as gateway:
        phone = gateway.phone()
        phone.send(10)
        assert gateway.stop() == 0
    (segment,) = (home / "log").glob("*.segment")
    short = segment.read_bytes()
    with gateway:
        phone.hello()
        phone.send(10)
        assert gateway.stop() == 0
    kept.write_text(resurge("log", "anchor", "--home", str(home)))
    assert json.loads(resurge("log", "verify", "--home", str(home), "--anchor", str(kept), "--json"))["sound"]
    segment.write_bytes(short)  # as if the second half had never been
    for name in ("log.head", "log.heads"):
        (home / name).unlink()  # and whoever did it was thorough
    assert json.loads(resurge("log", "verify", "--home", str(home), "--json"))["sound"]
    told = resurge("log", "verify", "--home", str(home), "--anchor", str(kept), "--json", status=1)
    assert json.loads(told)["logs"][0]["code"] == "log-cut"


@pytest.mark.covers("SO-21")
def test_a_damaged_log_is_found_and_repaired_from_its_copy(tmp_path: Path):
    home, copy = tmp_path / "home", tmp_path / "copy"
    with GatewayProcess(home, "--copy", str(copy)) as gateway:
        phone = gateway.phone()
        for _ in range(5):
            phone.send(10)
        phone.exchange(phone.tombstone(50, 55))
        assert gateway.stop() == 0
    assert [line.message for line in newest(home)] == ["has stopped", f"listens on 127.0.0.1:{gateway.port}"]
    report = json.loads(resurge("log", "verify", "--home", str(home), "--copy", str(copy), "--json"))
    assert report["sound"]
    assert [(log["delivered"], log["ledgered"], log["duplicates"]) for log in report["logs"]] == [(50, 5, 0)] * 2
    (segment,) = (home / "log").iterdir()
    content = bytearray(segment.read_bytes())
    content[400] ^= 1
    segment.write_bytes(content)
    damaged = json.loads(resurge("log", "verify", "--home", str(home), "--json", status=1))
    assert damaged["logs"][0]["code"] == "log-damaged"
    with pytest.raises(AssertionError, match="ended before it listened"):
        GatewayProcess(home).start()
    fixed = json.loads(resurge("log", "verify", "--home", str(home), "--copy", str(copy), "--repair", "--json"))
    assert [item["was"] for item in fixed["repaired"]] == ["damaged"]
    assert fixed["sound"]
    ledger = json.loads(resurge("ledger", "list", "--home", str(home), "--json"))
    assert ledger["ledgered"] == 5
    assert [(row["edge"], row["lo"], row["hi"], row["reason"]) for row in ledger["ranges"]] == [
        ("gps", 50, 55, "evicted")
    ]


def test_commands_without_a_gateway_say_what_to_do(tmp_path: Path):
    for arguments in (("device", "list"), ("device", "pair"), ("log", "verify"), ("ledger", "list")):
        done = subprocess.run(
            [sys.executable, "-c", "from resurge.cli import main; main()", *arguments, "--home", str(tmp_path)],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert "[gateway-home]" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["roster.sqlite", "accounts.sqlite"])
def test_a_damaged_file_ends_the_start_in_one_line_that_names_it(tmp_path: Path, name: str):
    home = tmp_path / "gateway"
    home.mkdir(mode=0o700)
    (home / name).write_bytes(b"no database, but long enough to be one" * 100)
    results = str(tmp_path / "results.sqlite")
    said = subprocess.run(
        [sys.executable, "-m", "cloud_backend.gateway", "--home", str(home), "--port", "0", "--results", results],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert said.returncode == 1
    assert said.stderr.startswith(f"resurge.gateway: {name} is damaged")
    assert said.stderr.count("\n") == 1
    assert [f"resurge.gateway: {line.message}\n" for line in newest(home)] == [said.stderr]


def test_the_spark_job_says_it_as_well(tmp_path: Path):
    (tmp_path / "results.sqlite").write_bytes(b"no database, but long enough to be one" * 100)
    options = {"--log": "gateway/log", "--store": "spark", "--plan": "plan.bin", "--results": "results.sqlite"}
    said = subprocess.run(
        [sys.executable, "-m", "cloud_backend.spark.job", "--log-json",
         *(part for name, path in options.items() for part in (name, str(tmp_path / path)))],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert said.returncode == 1
    [line] = [json.loads(text) for text in said.stderr.splitlines()]
    assert (line["level"], line["logger"]) == ("critical", "resurge.spark")
    assert line["message"].startswith("results.sqlite is damaged")
    assert [each.message for each in newest(tmp_path / "spark")] == [line["message"]]
