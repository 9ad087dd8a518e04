"""Runs the checks of on_jvm in processes of their own: a Java machine can be started once and never ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from mobile_app.home.crashes import crashes
from mobile_app.home.files import RESUME_FILE
from mobile_app.service.connection import ServiceClient, ServiceGone
from mobile_app.service.foreground import DATA
from tests.packaging.java import ROOT, compile_classes
from tests.patience import wait_until

HERE = Path(__file__).parent / "on_jvm"
STARTS_MAX = 3
RUNS_AGAIN_S = 10.0


def environment() -> dict[str, str]:
    given = os.environ | {
        "CLASSPATH": str(compile_classes()),
        "PYTHON_SERVICE_ARGUMENT": "",
        "PYTHONPATH": os.pathsep.join((str(HERE / "stand_in"), str(ROOT))),
        "JDK_JAVA_OPTIONS": "-Xss2m",
    }
    # plyer chooses its platform by these two; here it is to take its Android code.
    return given | {"ANDROID_ARGUMENT": "", "P4A_BOOTSTRAP": "sdl2"}


def test_the_phones_adapters_run_against_stub_classes():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "default", "-p", "no:faulthandler",
         str(HERE / "check_adapters.py")],
        cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]


class Android:
    """The system around the service: a sticky one whose process is gone is started again, unless it said it is over."""

    def __init__(self, files: Path, *options: str) -> None:
        self.files, self._options = files, options
        self.starts = 0

    def start(self) -> subprocess.Popen[str]:
        self.starts += 1
        return subprocess.Popen(
            [sys.executable, str(HERE / "bootstrap.py"), str(self.files), *self._options],
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def until_over(self, running: subprocess.Popen[str]) -> str:
        said, _ = running.communicate()
        while not (self.files / "system-says-stopped").exists() and self.starts < STARTS_MAX:
            again = self.start()
            try:
                said += again.communicate(timeout=RUNS_AGAIN_S)[0]
            except subprocess.TimeoutExpired:  # it goes on as if nobody had stopped it
                again.kill()
                said += again.communicate()[0]
        return said

    def notices(self) -> list[dict[str, str]]:
        return [one for one in json.loads((self.files / "notices.json").read_text()) if not one["ongoing"]]


def test_a_service_that_a_person_stops_is_over(tmp_path: Path):
    android = Android(tmp_path)
    running = android.start()

    def opened() -> ServiceClient:
        assert running.poll() is None, running.communicate()[0]
        return ServiceClient.open(tmp_path / DATA)

    client = wait_until(opened, "the service", again_after=ServiceGone)
    client.do("stop")
    client.close()
    said = android.until_over(running)
    assert android.starts == 1, said
    assert not (tmp_path / RESUME_FILE).exists()
    assert android.notices() == []


def test_a_service_that_a_defect_ends_is_over_and_says_so_where_it_stays(tmp_path: Path):
    android = Android(tmp_path, "defect")
    said = android.until_over(android.start())
    assert android.starts == 1, said
    (notice,) = android.notices()
    assert "a defect of ours" in notice["text"]
    assert "Open the app" in notice["text"]
    (report,) = crashes(tmp_path / DATA)
    assert "RuntimeError: a defect of ours" in report.read_text()
    assert "Traceback" in report.read_text()
    assert (tmp_path / RESUME_FILE).exists(), "nobody stopped it: after a restart of the phone it tries again"


def test_what_a_person_can_repair_is_named_in_the_notice(tmp_path: Path):
    (tmp_path / DATA).mkdir()
    (tmp_path / DATA / "settings.toml").write_text("spool_mb = 'much'\n")
    android = Android(tmp_path)
    said = android.until_over(android.start())
    assert android.starts == 1, said
    (notice,) = android.notices()
    assert "spool_mb" in notice["text"]
    assert crashes(tmp_path / DATA) == []
