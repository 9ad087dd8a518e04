"""Who may be the gateway of a home: a standby waits for one that works, and ends one that is paused for good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cloud_backend.gateway import tenure
from cloud_backend.gateway.address_file import write_address
from cloud_backend.gateway.tenure import Tenure, end_paused, take_lock
from tests.patience import PATIENCE_S, wait_until

HOLDS = """
import os, sys, time
from pathlib import Path
from cloud_backend.gateway.tenure import Tenure, require_lock
home = Path(sys.argv[1])
handle = require_lock(home)
Tenure(home).begin()
print("holds", flush=True)
time.sleep(600)
"""


@pytest.fixture
def paused(tmp_path: Path):
    """A process that has lease and lock, as a gateway has, and is stopped."""
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "holds\n"
    process.send_signal(signal.SIGSTOP)
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def said(home: Path, pid: int) -> None:
    write_address(home, host="127.0.0.1", port=1, pin=b"", key=b"k" * 32, pid=pid)


def test_a_gateway_that_is_paused_for_good_is_ended_after_its_lease_and_the_standby_begins(
    tmp_path: Path, paused: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said(tmp_path, paused.pid)
    standby = Tenure(tmp_path)
    assert not standby.may_begin(), "its lease has not run out"
    assert paused.poll() is None
    later = tenure.time.time() + tenure.LEASE_S + 1
    monkeypatch.setattr(standby._lease, "_now", lambda: later)
    assert not standby.may_begin(), "the lease is taken, and the other one has time to end by itself"
    assert paused.poll() is None
    monkeypatch.setattr(tenure, "ENDS_S", 0.0)
    wait_until(standby.may_begin, "the standby begins")
    assert paused.wait(PATIENCE_S) == -signal.SIGKILL
    handle = take_lock(tmp_path)
    assert handle is not None
    os.close(handle)
    standby.close()


def test_nobody_is_killed_who_does_not_hold_the_lock(tmp_path: Path, paused: subprocess.Popen[str]) -> None:
    assert not end_paused(tmp_path), "it is not known who runs here"
    with subprocess.Popen(["sleep", "600"]) as other:
        said(tmp_path, other.pid)  # the number of a process that is another one by now
        assert not end_paused(tmp_path)
        assert other.poll() is None
        other.kill()
    said(tmp_path, os.getpid())
    assert not end_paused(tmp_path)
    assert paused.poll() is None
