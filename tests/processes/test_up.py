"""`resurge up` as a person runs it: real processes, kills included, and an account that adds up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from cloud_backend.results.store import Results
from resurge.cli.gateway_api import Api
from resurge.up.free_ports import free_ports
from resurge.up.home import alone, make_stage
from shared.stream.program import load_program
from tests.patience import PATIENCE_S, SPARK_PATIENCE_S, wait_until

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parents[2]
OWN_OPERATORS = Path(__file__).parent / "own_operators"
EXAMPLE = ROOT / "resurge" / "examples" / "kilometres.py"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "resurge", "up", *arguments]


def processes_of(home: Path) -> list[str]:
    """Command lines of processes that work on this home."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(home) in line:
                found.append(line)
    return found


def check(outcome: dict, *, outages: int) -> None:
    assert outcome["produced"] == outcome["delivered"] + outcome["spooled"] + outcome["ledgered"]
    assert outcome["delivered"] > 0
    assert outcome["duplicates"] == 0
    assert outcome["outages"] >= outages
    assert outcome["results"] > 0
    assert outcome["results_digest"] == outcome["expected_digest"]


def test_killing_every_part_once_changes_neither_the_account_nor_the_results(tmp_path):
    home, [port] = tmp_path / "home", free_ports(1)
    errors = (tmp_path / "stderr.txt").open("w")
    player = subprocess.Popen(
        command("--for", "30", "--chaos", "--json", "--log-json", "--home", str(home), "--port", str(port), "--program",
                str(OWN_OPERATORS / "program.py")), cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=errors, text=True,
    )  # fmt: skip
    view = watch(home, port, player)
    printed, _ = player.communicate()
    errors.close()
    said = (tmp_path / "stderr.txt").read_text()
    assert player.returncode == 0, said
    outcome = json.loads(printed.splitlines()[-1])
    check(outcome, outages=3)
    assert sorted(kill["target"] for kill in outcome["kills"]) == ["gateway", "relay", "spark", "tram-07"]
    for kill in outcome["kills"]:
        assert f"kill -9  {kill['target']} (pid {kill['pid']})" in said
        assert kill["pid"] != kill["restarted_pid"]
    assert outcome["dashboard"] in said
    # Phones and Spark ran the program's own functions, which are in none of our packages.
    results = Results(home / "results.sqlite")
    try:
        paces = {json.dumps(row.values["pace"]) for row in results.current()}
    finally:
        results.close()
    assert paces
    assert paces <= {'"fast"', '"slow"'}
    # The dashboard showed the same phones while it ran, and nothing is left running.
    assert {phone["name"]: phone["lane"] for phone in view["phones"]} == {
        "tram-07": "gateway", "bus-12": "relay", "bicycle-3": "gateway",
    }  # fmt: skip
    assert processes_of(home) == []
    for name in ("gateway", "spark"):  # the JVM's own words included, a collector can read every line
        lines = [json.loads(line) for line in (home / "output" / f"{name}.txt").read_text().splitlines()]
        assert all(isinstance(line, dict) for line in lines)
        assert len(lines) >= 2


def watch(home: Path, port: int, player: subprocess.Popen) -> dict:
    """What the dashboard said once every phone had delivered something and told its lane."""
    view: dict = {"phones": []}
    while player.poll() is None:
        try:
            token = (home / "gateway" / "operator.token").read_text().strip()
            asked = urllib.request.Request(
                f"http://127.0.0.1:{port}/v1/overview", headers={"authorization": f"Bearer {token}"}
            )
            with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
                view = json.load(answer)
        except OSError:
            time.sleep(0.2)
            continue
        if len(view["phones"]) == 3 and all(phone["delivered"] for phone in view["phones"]):
            break
        time.sleep(0.2)
    return view


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)])
def test_asking_it_to_end_while_it_starts_leaves_nothing_running(tmp_path, number):
    home = tmp_path / "home"
    player = subprocess.Popen(
        command("--home", str(home), "--phones", "2"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (home / "output" / "gateway.txt").exists():
        assert player.poll() is None
        time.sleep(0.05)
    player.send_signal(number)
    _, said = player.communicate()
    assert player.returncode == 130, said
    wait_until(lambda: not processes_of(home), "the end of what was starting")  # the kernel tells it that we ended


def test_a_home_that_is_not_empty_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("not yours")
    refused = subprocess.run(command("--home", str(tmp_path)), cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "is not empty" in refused.stderr
    assert "[up-home]" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert (tmp_path / "mine.txt").read_text() == "not yours"


def test_a_home_in_use_and_another_program_are_refused(tmp_path):
    home, program = tmp_path / "home", tmp_path / "other.py"
    program.write_text(
        "import resurge as rs\n"
        "rs.sensor('gps', every='1s').sync('gps').tumbling('1m').aggregate(n=rs.count()).sync_back('n')\n"
    )
    stage = make_stage(home, load_program(EXAMPLE), port=0, speed=1.0)
    assert json.loads((home / "up.json").read_text())["port"] == stage.port

    def refused(*arguments: str) -> str:
        done = subprocess.run(
            command("--home", str(home), *arguments), cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        return done.stderr

    assert "[up-program]" in refused("--program", str(program))
    with alone(home):
        assert "[up-running]" in refused()


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("phones", ["3", "8"])
def test_a_minute_without_kills_adds_up_too(tmp_path, phones):
    done = subprocess.run(
        command("--for", "60", "--json", "--phones", phones, "--home", str(tmp_path / "home")), cwd=ROOT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout.splitlines()[-1]), outages=5)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_query_submitted_while_it_runs_has_results_before_it_ends(tmp_path):
    home = tmp_path / "home"
    errors = (tmp_path / "stderr.txt").open("w")
    player = subprocess.Popen(
        command("--for", "90", "--json", "--home", str(home)),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )
    wait_until(
        lambda: "Spark is ready" in (tmp_path / "stderr.txt").read_text() or player.poll() is not None,
        "Spark",
        patience_s=SPARK_PATIENCE_S,
    )
    api = Api(home / "gateway")
    sql = "SELECT device, count(*) AS n FROM gps GROUP BY TUMBLE(5 SECONDS), device"
    assert api.post("/queries", {"name": "counted", "sql": sql})["wanted"] == "running"
    printed, _ = player.communicate()
    errors.close()
    assert player.returncode == 0, (tmp_path / "stderr.txt").read_text()
    assert json.loads(printed.splitlines()[-1])["results"] > 0
    results = Results(home / "results.sqlite")
    counted = results.latest("counted")
    results.close()
    assert counted
    assert all(row.device == "" and row.values["n"] > 0 for row in counted)
