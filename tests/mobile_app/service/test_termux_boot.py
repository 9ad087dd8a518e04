"""The boot script: what is written, where it is refused, and what it does when it runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mobile_app.service import termux_boot
from mobile_app.service.termux_boot import boot_script, install, remove
from resurge.cli.node import app
from shared.errors import UsageError
from tests.patience import PATIENCE_S


def termux(tmp_path: Path) -> dict[str, str]:
    return {"TERMUX_VERSION": "0.118.1", "HOME": str(tmp_path), "PREFIX": "/usr", "PATH": os.environ["PATH"]}


def test_the_script_lies_where_termux_boot_looks_and_only_its_owner_may_run_it(tmp_path):
    script = boot_script(tmp_path / "node home", ["--relay", "tcp://a b:1"], termux(tmp_path))
    steps = install(script, termux(tmp_path))
    assert script.path == tmp_path / ".termux" / "boot" / "resurge-node"
    assert script.path.stat().st_mode & 0o777 == 0o700
    assert "'tcp://a b:1'" in script.path.read_text()
    assert any("Termux:Boot" in step for step in steps)
    assert remove(script)
    assert not remove(script)


def test_where_there_is_no_termux_it_says_so_and_shows_what_it_would_write(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="service-termux"):
        install(boot_script(tmp_path, [], {"HOME": str(tmp_path)}), {"HOME": str(tmp_path)})
    assert not (tmp_path / ".termux").exists()
    monkeypatch.setenv("HOME", str(tmp_path))
    shown = CliRunner().invoke(app, ["install-service", "--dry-run"])
    assert shown.exit_code == 0
    assert "termux-wake-lock" in shown.output
    assert not (tmp_path / ".termux").exists()


def test_the_script_takes_the_wake_lock_shows_itself_and_starts_a_node_again(tmp_path):
    """Run by a real shell, with commands that write down their calls; the node fails once and then ends in order."""
    commands, calls = tmp_path / "bin", tmp_path / "calls"
    commands.mkdir()
    names = ("termux-wake-lock", "termux-wake-unlock", "termux-notification", "termux-notification-remove", "sleep")
    for name in names:
        (commands / name).write_text(f'#!/bin/sh\necho {name} "$1" "$2" >> {calls}\n')
    (commands / "resurge").write_text(
        f'#!/bin/sh\necho resurge "$@" >> {calls}\n[ "$(grep -c ^resurge {calls})" -gt 1 ]\n'
    )
    for command in commands.iterdir():
        command.chmod(0o755)
    environment = {**termux(tmp_path), "PATH": f"{commands}:{os.environ['PATH']}"}
    script = boot_script(tmp_path / "home", [], environment)
    install(script, environment)
    subprocess.run(["sh", str(script.path)], env=environment, check=True, timeout=PATIENCE_S)
    done = [line.split()[0] for line in calls.read_text().splitlines()]
    assert done == [
        "termux-wake-lock", "termux-notification", "resurge", "sleep", "resurge", "termux-notification-remove",
        "termux-wake-unlock",
    ]  # fmt: skip
    assert "ended by itself" in (tmp_path / "home" / "service.log").read_text()


def test_a_command_of_termux_that_hangs_does_not_keep_the_node_from_starting(tmp_path, monkeypatch):
    monkeypatch.setattr(termux_boot, "PATIENCE_S", 0.2)
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("termux-wake-lock", "termux-wake-unlock", "termux-notification", "termux-notification-remove"):
        (commands / name).write_text("#!/bin/sh\nsleep 600 & wait\n")
    (commands / "resurge").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    for command in commands.iterdir():
        command.chmod(0o755)
    environment = {**termux(tmp_path), "PATH": f"{commands}:{os.environ['PATH']}"}
    script = boot_script(tmp_path / "home", [], environment)
    install(script, environment)
    subprocess.run(["sh", str(script.path)], env=environment, check=False, timeout=PATIENCE_S)
    assert (tmp_path / "ran").exists()
