"""What a defect leaves: a report that its person finds, and not too many of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mobile_app.home import crashes as kept

CRASHING = """
import sys, threading
from pathlib import Path
from mobile_app.home.crashes import watch_for_crashes
watch_for_crashes(Path(sys.argv[1]), "app")
def fail():
    raise RuntimeError("in a thread")
if sys.argv[2] == "thread":
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
elif sys.argv[2] == "main":
    raise RuntimeError("at the end")
else:
    sys.exit(3)
"""


def crash(home: Path, how: str) -> str:
    done = subprocess.run([sys.executable, "-c", CRASHING, str(home), how], capture_output=True, text=True, check=False)
    return done.stderr


def test_an_error_of_any_thread_is_kept_and_still_told_on_the_terminal(tmp_path: Path):
    assert "RuntimeError: in a thread" in crash(tmp_path, "thread")
    (report,) = kept.crashes(tmp_path)
    assert "RuntimeError: in a thread" in report.read_text()
    assert "Traceback" in report.read_text()
    assert report.stat().st_mode & 0o077 == 0
    kept.forget_crashes(tmp_path)
    assert "RuntimeError: at the end" in crash(tmp_path, "main")
    assert "RuntimeError: at the end" in kept.crashes(tmp_path)[0].read_text()


def test_an_orderly_end_leaves_nothing(tmp_path: Path):
    crash(tmp_path, "exit")
    assert kept.crashes(tmp_path) == []


def test_only_the_newest_are_kept(tmp_path: Path, monkeypatch):
    for number in range(kept.KEPT + 3):
        monkeypatch.setattr(kept.time, "strftime", lambda *_, number=number: f"2026010{number}-000000")
        kept.note_crash(tmp_path, "service", ValueError(str(number)))
    newest = kept.crashes(tmp_path)
    assert len(newest) == kept.KEPT
    assert f"ValueError: {kept.KEPT + 2}" in newest[0].read_text()
