"""`resurge fleet try` under bad luck: a directory in use, a strategy that there is not, and its own death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from resurge.up.fleet_trial import fleet_trial
from shared.errors import UsageError
from tests.patience import wait_until
from tests.processes.gateway_process import ROOT


def nodes(home: Path) -> list[int]:
    """Processes that run a node in this directory."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if b"node\0run\0" in command and f"{home}/".encode() in command:
            found.append(int(entry.name))
    return found


def test_a_directory_in_use_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(UsageError, match="is not empty") as refused:
        fleet_trial(tmp_path, seconds=20.0, strategy="", say=print)
    assert refused.value.code == "fleet-try"
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


@pytest.mark.soak
def test_nodes_that_end_are_named_at_once_with_their_words(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"laptop.* ended by itself") as refused:
        fleet_trial(tmp_path, seconds=20.0, strategy="nonsense", say=print)
    assert "deployment-strategy" in str(refused.value)
    assert nodes(tmp_path) == []


@pytest.mark.soak
def test_killed_it_leaves_no_node_behind(tmp_path: Path) -> None:
    trial = subprocess.Popen(
        [sys.executable, "-m", "resurge", "fleet", "try", "--home", str(tmp_path), "--for", "60"],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ},
    )  # fmt: skip
    wait_until(lambda: len(nodes(tmp_path)) == 5, "five nodes")
    trial.send_signal(signal.SIGKILL)
    trial.wait()
    wait_until(lambda: not nodes(tmp_path), "the end of its nodes")
