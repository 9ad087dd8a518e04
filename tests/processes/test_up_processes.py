"""Processes that `resurge up` starts end with it, however it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from resurge.up.processes import Fleet, Keeper, Process, python, wait_until
from shared.errors import UsageError
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parents[2]

SLEEPER = "import time; print('ready', flush=True); time.sleep(600)"
PARENT = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); print('ready', flush=True); import time; time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
)


def alive(pid: int) -> bool:
    """Whether this process runs; a zombie whose parent has not looked yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def group_members(group: int) -> list[int]:
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[2]) == group and fields[0] != "Z":
                    members.append(int(entry.name))
    return members


def started(tmp_path: Path, program: str) -> Process:
    process = Process("sleeper", python("-c", program), tmp_path / "sleeper.txt")
    process.start()
    wait_until(lambda: "ready" in process.tail(), what="start", timeout_s=PATIENCE_S, processes=[process])
    return process


def test_a_killed_process_can_be_started_again(tmp_path):
    process = started(tmp_path, SLEEPER)
    first = process.kill()
    assert not alive(first)
    process.start()
    assert process.pid != first
    assert process.exit_code() is None
    process.stop()


def test_stopping_takes_along_what_the_process_started(tmp_path):
    process = started(tmp_path, PARENT)
    assert len(group_members(process.pid)) == 2
    assert process.stop()
    wait_until(lambda: not group_members(process.pid), what="the end of the group", timeout_s=PATIENCE_S)


def test_a_process_that_will_not_stop_is_ended(tmp_path):
    process = started(tmp_path, STUBBORN)
    assert not process.stop(timeout_s=0.3)
    assert not alive(process.pid)


def test_a_fleet_is_gone_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), Fleet() as fleet:  # noqa: PT012
        process = fleet.start(Process("sleeper", python("-c", SLEEPER), tmp_path / "out.txt"))
        raise ZeroDivisionError
    assert not alive(process.pid)


def test_a_process_that_ended_by_itself_is_reported_with_its_last_words(tmp_path):
    process = Process("gateway", python("-c", "print('no such port'); raise SystemExit(3)"), tmp_path / "out.txt")
    process.start()
    with pytest.raises(UsageError, match=r"(?s)gateway ended with code 3; .*no such port.*\[up-process-ended\]"):
        wait_until(lambda: False, what="anything", timeout_s=PATIENCE_S, processes=[process])


def test_waiting_in_vain_says_for_what(tmp_path):
    with pytest.raises(UsageError, match=r"rain did not happen within 0 s"):
        wait_until(lambda: False, what="rain", timeout_s=0.01)


# A job started in the background inherits an ignored SIGINT; the player must be interruptible wherever the tests run.
PLAYER = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from resurge.up.processes import Fleet, Process, python
with Fleet() as fleet:
    child = fleet.start(Process("child", python("-c", "import time; time.sleep(600)"), Path(sys.argv[1])))
    print(child.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_children_end_with_us_even_when_we_are_killed(tmp_path, number):
    player = subprocess.Popen(
        [sys.executable, "-c", PLAYER, str(tmp_path / "out.txt")], cwd=ROOT, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    child = int(player.stdout.readline())
    player.stdout.close()
    player.send_signal(number)
    player.wait(timeout=PATIENCE_S)
    wait_until(lambda: not alive(child), what="the end of the child", timeout_s=PATIENCE_S)


def kept(keeper: Keeper, process: Process) -> None:
    """Look until it has to be started again, and start it."""
    wait_until(lambda: keeper.due([process]) == [process], what="its time", timeout_s=PATIENCE_S)
    process.start()


def test_what_somebody_killed_is_started_again_and_said(tmp_path):
    said: list[str] = []
    keeper = Keeper(said.append)
    with Fleet() as fleet:
        process = fleet.start(Process("part", python("-c", PARENT), tmp_path / "part.txt"))
        wait_until(lambda: "ready" in process.tail(), what="start", timeout_s=PATIENCE_S, processes=[process])
        first = process.pid
        os.kill(first, signal.SIGKILL)  # as the kernel does when memory is short: nobody told us
        kept(keeper, process)
        assert process.pid != first
        assert group_members(first) == []  # what it had started is gone before it is started again
        wait_until(lambda: "ready" in process.tail(), what="second start", timeout_s=PATIENCE_S, processes=[process])
    assert said == [f"part was killed by signal 9; it is started again in 1 s ({process.output})"]


def test_what_ends_again_and_again_is_started_later_each_time_and_then_given_up(tmp_path):
    said: list[str] = []
    keeper = Keeper(said.append, again_max=3, soon_s=PATIENCE_S)
    process = Process("part", python("-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"), tmp_path / "o")
    process.start()
    for _ in range(2):
        kept(keeper, process)
    with pytest.raises(UsageError, match="part ended with code -9") as given_up:
        kept(keeper, process)
    assert given_up.value.code == "up-process-ended"
    assert [line.split("again in ")[1].split(" ")[0] for line in said] == ["1", "2"]


@pytest.mark.parametrize(("program", "final"), [("raise SystemExit(2)", {}), (SLEEPER, {"part": -15})])
def test_what_cannot_start_or_must_not_start_again_is_said_at_once(tmp_path, program, final):
    process = Process("part", python("-c", program), tmp_path / "part.txt")
    process.start()
    if final:
        wait_until(lambda: "ready" in process.tail(), what="start", timeout_s=PATIENCE_S, processes=[process])
        os.kill(process.pid, signal.SIGTERM)
    wait_until(lambda: process.exit_code() is not None, what="end", timeout_s=PATIENCE_S)
    with pytest.raises(UsageError, match="part ended with code"):
        Keeper(lambda _: None, final=final).due([process])
