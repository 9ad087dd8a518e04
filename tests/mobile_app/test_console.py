"""What the app's Python prints is the phone's log: a traceback has no other way out."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Kivy is kept away: what it reads must be set before it is imported, and on a phone it would look for Android.
CODE = """
import os, sys
sys.modules["kivy"] = sys.modules["kivy.app"] = None
try:
    import mobile_app.app
except ImportError:
    print("silent" if "KIVY_NO_CONSOLELOG" in os.environ else "told")
"""


@pytest.mark.parametrize(("phone", "said"), [({"ANDROID_ARGUMENT": "/data"}, "told"), ({}, "silent")])
def test_only_a_desktops_console_is_silenced(phone, said):
    hidden = ("KIVY_NO_CONSOLELOG", "ANDROID_ARGUMENT")
    given = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=given | phone, capture_output=True, text=True, check=True
    )  # fmt: skip
    assert done.stdout.split() == [said]
