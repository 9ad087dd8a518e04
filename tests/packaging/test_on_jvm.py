"""Runs the checks of on_jvm in a process of their own: a Java machine can be started once and never ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.java import ROOT, compile_classes

HERE = Path(__file__).parent / "on_jvm"


@pytest.mark.covers("SO-3")
def test_the_phones_adapters_run_against_stub_classes():
    classes = compile_classes()
    environment = os.environ | {
        "CLASSPATH": str(classes),
        "PYTHON_SERVICE_ARGUMENT": "",
        "PYTHONPATH": os.pathsep.join((str(HERE / "stand_in"), str(ROOT))),
        "JDK_JAVA_OPTIONS": "-Xss2m",
    }
    # plyer chooses its platform by these two; here it is to take its Android code.
    environment |= {"ANDROID_ARGUMENT": "", "P4A_BOOTSTRAP": "sdl2"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "default", "-p", "no:faulthandler",
         str(HERE / "check_adapters.py")],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
