"""What README, tutorial and the pages about nodes and operations say is typed as it stands there, and works.

The tutorial until its program runs is for every day; the rest of it and of the other pages takes minutes: for soak.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from pathlib import Path

import pytest

from cloud_backend.coordinator.roster import Roster
from cloud_backend.gateway.reach import machine_addresses
from tests.claims import Claim
from tests.docs.pages import ROOT, blocks
from tests.patience import SPARK_PATIENCE_S, wait_until
from tests.processes.newcomer import ROW, Newcomer, Terminal

pytestmark = pytest.mark.processes


def line_of(page: str, heading: str) -> int:
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    return lines.index(heading) + 1


def devices(home: Path) -> dict[str, int]:
    roster = Roster(home / "gateway" / "roster.sqlite")
    try:
        return {entry.device.hex(): entry.incarnation for entry in roster.entries()}
    finally:
        roster.close()


def account(text: str) -> dict[str, int]:
    """The table that `resurge up` ends with."""
    rows = re.findall(r"│ ([a-z ]+?) +│ +([\d,]+) │", text)
    return {name: int(figure.replace(",", "")) for name, figure in rows}


def stopped(up: Terminal) -> dict[str, int]:
    """Ctrl-C: it must end well and add up. `make` itself gets the signal, too, and may end by it."""
    assert up.end() in ((0, -signal.SIGINT) if up.command.startswith("make") else (0,)), up.said()
    assert "It adds up" in up.said()
    return account(up.said())


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("whole", "commands"),
    [
        pytest.param(False, 7, id="the tutorial until it runs"),
        pytest.param(True, 25, id="the tutorial, nodes and operations", marks=pytest.mark.soak),
    ],
)
def test_the_pages_work_as_written(tmp_path: Path, claim: Claim, whole: bool, commands: int):
    with Newcomer(tmp_path / "ann") as ann, Newcomer(tmp_path / "bob") as bob:
        typed = ann.follow("docs/tutorial.md", last=line_of("docs/tutorial.md", "## 8. Change it while it runs"))
        up, _, node = ann.terminals
        home = ann.folder / "demo"
        assert f"compare {ann.await_digits()} with" in node.said()
        if whole:
            typed += nodes_operations_and_a_changed_program(ann, bob, home)
        known = devices(home)
        for terminal in [*bob.terminals, node]:
            assert terminal.end() == 0, terminal.said()
        before = stopped(up)
        assert before["of devices you paired"] > 0
        if whole:
            again = ann.ask("resurge up --home ~/demo --for 10 --json", r'"produced": [1-9]')
            after = json.loads(re.findall(r"^\{.*\}$", again, re.M)[-1])
            assert after["produced"] > before["produced"]
            assert after["of_others"] == before["of devices you paired"]
            assert devices(home) == known
        assert set(known.values()) == {1}
    claim(f"{typed} commands, {len(known)} devices, {before['produced']} elements")
    assert typed >= commands


def nodes_operations_and_a_changed_program(ann: Newcomer, bob: Newcomer, home: Path) -> int:
    """Bob follows the pages about nodes and operations, then Ann the end of the tutorial; how many commands."""
    gateway = json.loads((home / "gateway" / "gateway.json").read_text())
    bob.instead, bob.ports[0] = {"DIR": str(home)}, gateway["port"]
    bob.type("resurge device pair --home DIR/gateway --host 127.0.0.1")
    typed = bob.follow("docs/termux.md", without="resurge node relay")
    bob.await_digits()
    typed += bob.follow(
        "docs/termux.md", first=line_of("docs/termux.md", "| `--json` | the last line is one JSON object |")
    )
    page = "docs/operations.md"
    typed += bob.follow(page, first=line_of(page, "## Deploy a changed program"))
    typed += ann.follow("docs/tutorial.md", first=line_of("docs/tutorial.md", "## 8. Change it while it runs"))
    ann.ask(f"resurge program show --home {home}/gateway", r"(?s)Spark +│ version 2.*5 devices +│ version 2")
    return typed


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_readme_works_from_top_to_bottom(tmp_path: Path, claim: Claim):
    with Newcomer(tmp_path / "ann") as ann:
        typed, digits = follow_the_readme(ann)
    claim(f"{typed} commands, the digits {digits} on both sides")


def follow_the_readme(ann: Newcomer) -> tuple[int, str]:
    """Everything it says in its order, and the ends of what lasts; how many commands, and the digits of pairing."""
    commands = [each for block in blocks("README.md") if block.language == "sh" for each in block.commands]
    for command in commands:
        if command == "make test":
            continue
        ann.type(command)
        if command == "make run":
            wait_until(lambda: "Spark is ready" in ann.terminals[-1].said(), "Spark", patience_s=SPARK_PATIENCE_S)
            wait_until(
                lambda: re.search(r"[1-9]\d* results", ann.terminals[-1].said()), "results",
                patience_s=SPARK_PATIENCE_S,
            )  # fmt: skip
            stopped(ann.terminals.pop())
    up, _, node = ann.terminals
    digits = ann.await_digits()
    assert f"compare {digits} with" in node.said()
    assert node.end() == 0, node.said()
    assert stopped(up)["of devices you paired"] > 0
    ann.terminals.clear()
    return len(commands), digits


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_parts_started_by_hand_work_as_operations_says(tmp_path: Path):
    with Newcomer(tmp_path / "ann") as ann:
        ann.instead = {"DIR": str(ann.folder / "dir")}
        page = "docs/operations.md"
        ann.follow(page, last=line_of(page, "## A cluster, and a second driver"))
        ann.await_digits()
        ann.ask(f"resurge node results --home {ann.folder}/dir/phone", "km=")
        for terminal in reversed(ann.terminals):
            assert terminal.end() in (0, 130), terminal.said()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_commands_of_the_trips_page_work(tmp_path: Path):
    recording = tmp_path / "recordings"
    recording.mkdir()
    (recording / "walk.gpx").write_bytes((ROOT / "resurge" / "examples" / "walk.gpx").read_bytes())
    with Newcomer(tmp_path / "ann") as ann:
        ann.instead = {"DIR": str(recording)}
        assert ann.follow("docs/trips.md") == 4


def test_the_command_of_the_page_about_heart_beats_works(tmp_path: Path):
    with Newcomer(tmp_path / "ann") as ann:
        assert ann.follow("docs/heart.md") == 1


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_fleet_is_tried_as_its_page_says(tmp_path: Path):
    with Newcomer(tmp_path / "ann") as ann:
        assert ann.follow("docs/fleet.md") == 1


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_a_new_users_first_hour(tmp_path: Path, claim: Claim):
    """One person on one machine: README from top to bottom, the tutorial, a restart where others can reach it, a second
    device from another address, every part killed once, deploy, rollback and its undo, and a last restart."""
    page = "docs/tutorial.md"
    change = line_of(page, "## 8. Change it while it runs")
    with Newcomer(tmp_path / "ann") as ann:
        typed, _ = follow_the_readme(ann)
        typed += ann.follow(page, last=change)
        up, _, node = ann.terminals
        home = ann.folder / "demo"
        assert f"compare {ann.await_digits()} with" in node.said()
        assert node.end() == 0, node.said()
        alone = stopped(up)
        ann.terminals.clear()

        ann.type("resurge up --home ~/demo --speed 60 --host 0.0.0.0")
        up = ann.terminals[-1]
        other = (machine_addresses() or ["127.0.0.2"])[0]
        ann.type(f"resurge device pair --home ~/demo/gateway --host {other}")
        assert ann.link.startswith(f"resurge://{other}:")
        walk = "--sensor gps=recording:resurge/examples/walk.gpx --speed 60"
        ann.type(f"resurge node run --home ~/second --link 'resurge://...' {walk}")
        node = ann.terminals[-1]
        assert f"enrolled with https://{other}:" in node.said()
        assert f"compare {ann.await_digits()} with" in node.said()
        ann.ask("resurge node results --home ~/second", "km=")

        killed = kill_every_part(home, up)
        ann.ask("resurge query rows my_trips --home ~/demo/gateway", ROW)
        ann.ask("resurge job status --store ~/demo/spark", r"\(running\)")

        first = positions(ann)
        typed += ann.follow(page, first=change)  # deploys the changed program, and tries a rollback dry
        ann.ask("resurge program show --home ~/demo/gateway", r"(?s)Spark +│ version 2.*[45] devices +│ version 2")
        wait_until(lambda: positions(ann) > first + 2, "epochs of the new program", patience_s=SPARK_PATIENCE_S)
        now = positions(ann)
        rolled = ann.ask(
            f"resurge job rollback my_trips --to {now - 1} --store ~/demo/spark", r"done: manifest entry (\d+)"
        )
        entry = re.search(r"manifest entry (\d+)", rolled)
        assert entry
        wait_until(lambda: positions(ann) > now, "the second run", patience_s=SPARK_PATIENCE_S)
        ann.ask(f"resurge job undo {entry[1]} --store ~/demo/spark", r"done|nothing to take back", status=0)

        known = devices(home)
        assert node.end() == 0, node.said()
        before = stopped(up)
        again = ann.ask("resurge up --home ~/demo --for 15 --json", r'"produced"')
        after = json.loads(re.findall(r"^\{.*\}$", again, re.M)[-1])
        assert alone["produced"] < before["produced"] < after["produced"]
        assert devices(home) == known
        assert set(known.values()) == {1}
    assert typed >= 20
    claim(
        f"{typed} commands of the pages, killed {', '.join(killed)}, {len(known)} devices; {alone['produced']}, then "
        f"{before['produced']}, then {after['produced']} elements, each time all accounted for"
    )


def kill_every_part(home: Path, up: Terminal) -> list[str]:
    """kill -9 from outside, one after the other, each after the one before it runs again."""
    parts = {
        "relay": "node relay --bind", "gateway": f"cloud_backend.gateway --home {home}",
        "tram-07": f"{home}/phones/tram-07", "spark": f"cloud_backend.spark.job --log {home}",
    }  # fmt: skip
    for name, words in parts.items():
        (pid,) = [pid for pid, command in children(up.process.pid).items() if words in command]
        os.kill(pid, signal.SIGKILL)
        wait_until(
            lambda name=name: f"{name} was killed by signal 9" in up.said() and f"{name} runs again" in up.said(),
            f"{name} again", patience_s=SPARK_PATIENCE_S,
        )  # fmt: skip
    return list(parts)


def children(pid: int) -> dict[int, str]:
    """The processes that this one started, with their command lines."""
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):  # ended meanwhile
            found[int(child)] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def positions(ann: Newcomer) -> int:
    """How far the program's vertex has come."""
    said = ann.ask("resurge job list --store ~/demo/spark --json", "my_trips")
    return int(json.loads(said.splitlines()[-1])["vertices"][0]["position"])
