"""Nodes as real processes: outages, a relay, and kill -9 in the middle of uploads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from resurge.up.process_fleet import free_address
from tests.patience import PATIENCE_S, wait_until
from tests.processes.gateway_process import ROOT, GatewayProcess
from tests.processes.node_processes import (
    SPEED,
    Command,
    NodeHome,
    account,
    check_rows,
    listens,
    write_plan,
)

pytestmark = pytest.mark.processes


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return write_plan(tmp_path)


def seconds_to_deliver(phone: NodeHome) -> float:
    """How long a node takes here and now from its start to its first receipts, to plan outages by."""
    began = time.monotonic()
    phone.start()
    try:
        wait_until(lambda: phone.has("delivered", 10), f"first delivery of {phone.home.name}")
        return time.monotonic() - began
    finally:
        phone.running.terminate()


def empty_spools(gateway: GatewayProcess, *phones: NodeHome) -> int:
    """Runs of one more second until every spool is empty: at its end a node drains for ten seconds only."""
    runs = 0
    while account(gateway, *phones).spooled:
        runs += 1
        assert runs < 10, "the spools do not empty"
        for phone in phones:
            phone.start("--for", "1").running.finish()
    return runs


@pytest.mark.covers("SO-9", "SO-10", "SO-44", "NB-4", "NB-10")
@pytest.mark.soak
def test_outages_are_masked_on_the_way_to_the_gateway_and_behind_a_relay(tmp_path, plan, claim):
    address = free_address()
    with GatewayProcess(tmp_path / "gateway", "--plan", str(plan)) as gateway:
        relay = Command("relay", "--bind", address, "--gateway", f"http://127.0.0.1:{gateway.port}", "--json")
        wait_until(lambda: listens(address), "the relay")
        first = NodeHome(tmp_path / "first", gateway, seed=4)
        pace = seconds_to_deliver(first)
        down, up = 2 * pace, 2 * pace + max(4, pace)  # two nodes start at once: they deliver before, and fail between
        again, end = up + pace, up + 2 * pace + 2
        phones = [
            NodeHome(tmp_path / "direct", gateway, seed=5),
            NodeHome(tmp_path / "behind", gateway, seed=6, relay=address),
        ]
        outages = [f"{down:.1f}+{up - down:.1f}", f"{down:.1f}+{up - down:.1f},{again:.1f}+1"]
        for phone, schedule in zip(phones, outages, strict=True):
            phone.start("--outages", schedule, "--for", f"{end:.1f}")
        try:
            accounts = [phone.running.finish(end) for phone in phones]
            gaps = empty_spools(gateway, *phones)
        finally:
            for phone in phones:
                phone.running.end()
            carried = relay.terminate()
        total = account(gateway, first, *phones)
        checked = [check_rows(gateway.home / "log", phone, gaps=gaps) for phone in phones]
    assert [one["outages"] for one in accounts] == [1, 2]
    assert all(one["disconnections"] >= 1 for one in accounts)
    assert total.adds_up
    assert total.ledgered == 0
    assert carried["carried"] > 0
    claim(f"outages 3, compared {'; '.join(map(str, checked))}")


@pytest.mark.covers("SO-9")
@pytest.mark.parametrize("rounds", [2, pytest.param(12, marks=pytest.mark.soak)])
def test_kills_of_phone_relay_and_gateway_lose_nothing_durable_and_repeat_nothing(tmp_path, plan, rounds, claim):
    address, faults = free_address(), 0
    with GatewayProcess(tmp_path / "gateway", "--plan", str(plan)) as gateway:

        def start_relay() -> Command:
            return Command("relay", "--bind", address, "--gateway", f"http://127.0.0.1:{gateway.port}", "--json")

        relay = start_relay()
        direct = NodeHome(tmp_path / "direct", gateway, seed=7).start()
        behind = NodeHome(tmp_path / "behind", gateway, seed=8, relay=address).start()
        phones, phone_kills = [direct, behind], {"direct": 0, "behind": 0}
        try:
            for phone in phones:
                wait_until(lambda phone=phone: phone.has("delivered", 10), f"first delivery of {phone.home.name}")
            for round_number in range(rounds):
                victim = phones[round_number % 2]
                produced = int(victim.status()["produced"])
                victim.running.kill()
                phone_kills[victim.home.name] += 1
                if round_number % 2:
                    relay.kill()
                    relay = start_relay()
                else:
                    gateway.kill()
                    gateway.start()
                victim.start()
                faults += 2
                for phone in phones:
                    wait_until(
                        lambda phone=phone, least=produced + 15: phone.has("delivered", least),
                        f"catching up of {phone.home.name} after round {round_number}",
                    )
            for phone in phones:
                phone.running.terminate()
            before = account(gateway, *phones)
            for phone in phones:
                phone.start("--for", "1")
            finished = [phone.running.finish() for phone in phones]
        finally:
            for phone in phones:
                phone.running.end()
            relay.end()
        after = account(gateway, *phones)
        # A hole is what the loss window took, and the time until the process ran again: one per stop.
        checked = [check_rows(gateway.home / "log", phone, gaps=phone_kills[phone.home.name] + 1) for phone in phones]
    assert before.adds_up, before
    assert after.adds_up, after
    assert after.spooled == 0
    assert after.produced == sum(one["produced"] for one in finished)
    claim(f"faults fired {faults}, compared {'; '.join(map(str, checked))}, {after}")


@pytest.mark.covers("SO-10", "NB-4")
def test_a_node_without_any_gateway_records_and_delivers_when_it_is_paired_later(tmp_path, plan):
    with GatewayProcess(tmp_path / "gateway", "--plan", str(plan)) as gateway:
        phone = NodeHome(tmp_path / "lonely", gateway, seed=9)
        command = (
            "run", "--home", str(phone.home), "--program", str(tmp_path / "program.py"),
            "--sensor", "gps=synthetic:9", "--speed", str(SPEED), "--json", "--for",
        )  # fmt: skip
        alone = Command(*command, "1.5").finish()
        assert (alone["delivered"], alone["spooled"]) == (0, alone["produced"])
        assert alone["produced"] > 5
        paired = Command("enrol", phone.link, "--home", str(phone.home), "--json").finish()
        assert paired["incarnation"] == 1
        later = Command(*command, "0.5").finish()
        assert later["spooled"] == 0
        assert later["delivered"] >= alone["produced"]
        assert account(gateway, phone).adds_up
        check_rows(gateway.home / "log", phone, gaps=1)
        status = Command("status", "--home", str(phone.home), "--json").finish()
        assert (status["running"], status["delivered"]) == (False, later["delivered"])


def test_a_revoked_phone_is_told_so_over_tls_and_keeps_its_data(tmp_path, plan):
    with GatewayProcess(tmp_path / "gateway", "--plan", str(plan), "--tls") as gateway:
        phone = NodeHome(tmp_path / "phone", gateway, seed=3).start()
        try:
            wait_until(lambda: phone.has("delivered", 10), "first delivery over TLS")
            assert phone.status()["gateway"].startswith("https://")
            revoke = [
                sys.executable,
                "-m",
                "resurge",
                "device",
                "revoke",
                phone.device.hex(),
                "--home",
                str(gateway.home),
            ]
            subprocess.run(revoke, cwd=ROOT, check=True, capture_output=True, timeout=PATIENCE_S)
            wait_until(lambda: "device-revoked" in phone.status()["why_not"], "the refusal")
            delivered = account(gateway).of_others  # nobody has told it of this phone
            wait_until(lambda: phone.has("spooled", 20), "recording on")
            kept = phone.running.terminate()
        finally:
            phone.running.end()
        assert kept["spooled"] > 0
        after = account(gateway, phone)
        assert after.adds_up
        assert after.delivered == delivered


def test_a_second_node_in_the_same_home_is_refused(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "settings.toml").write_text("spool_mb = 1\n")
    (tmp_path / "program.py").write_text("import resurge as rs\nrs.sensor('gps', every='1s').sync('raw')\n")
    program = str(tmp_path / "program.py")
    options = ("run", "--home", str(home), "--program", program, "--sensor", "gps=synthetic:1", "--json")
    first = Command(*options)
    try:
        wait_until((home / "status.json").exists, "the first node")
        second = Command(*options)
        said, _ = second.process.communicate(timeout=PATIENCE_S)
        assert second.process.returncode == 1
        assert "home-busy" in said
        first.terminate()
    finally:
        first.end()


OPTIMISED = """
import json, pathlib, sys, threading
from mobile_app.headless import RunOptions, run
from mobile_app.sensors.choose import parse_choices
from shared.stream.program import load_program

assert False, "compiled away"
home = pathlib.Path(sys.argv[1])
(home / "settings.toml").write_text("spool_mb = 1")
(home / "program.py").write_text("import resurge as rs; rs.sensor('gps', every='1s').sync('raw', within='1s')")
program = load_program(home / "program.py")
stop = threading.Event()
account = run(RunOptions(home=home, sensors=parse_choices(["gps=synthetic:1"]), speed=60, stop=stop, plan=program,
                         on_view=lambda view: view["spooled"] and stop.set()))
print(json.dumps(account))

import pytest

# They mostly wait, so two at once. Their processes are optimised by the environment, as this one is.
options = ["-q", "-p", "no:cacheprovider", "-n", "2", "-W", "ignore::pytest.PytestConfigWarning"]
sys.exit(pytest.main([*options, *(f"tests/mobile_app/{name}" for name in sys.argv[2:])]))
"""
SUITE = (
    "home/test_home.py", "spool/test_batching.py", "home/test_clock.py", "node/test_results.py",
    "sensors/test_synthetic.py", "condition/test_health.py", "recordings/test_recordings.py",
    "service/test_connection.py", "node/test_operator_failures.py",
)  # fmt: skip


def test_device_code_runs_without_assertions_and_docstrings(tmp_path):
    """Android starts Python with -OO: what guards data must not be an assert, nothing may hang on a docstring."""
    command = [sys.executable, "-c", OPTIMISED, str(tmp_path), *SUITE]
    environment = os.environ | {"PYTHONOPTIMIZE": "2"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[0])["spooled"] > 0
