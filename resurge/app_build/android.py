"""What can be had for a phone: which of Python's own modules, which packages by recipe or as a wheel.

python-for-android takes names it does not know for pure Python and only warns when no wheel fits: the APK is built and
fails when it is opened. So each is asked for before, as its own code would ask.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

PYTHON = "3.14"  # what python-for-android builds
NDK_API = 24
# top-level module: the requirement that brings it
DISTRIBUTIONS = {"jnius": "pyjnius", "zmq": "pyzmq"}
# Modules of the standard library that python-for-android's build of Python leaves out or cannot run.
NOT_ON_THE_PHONE = frozenset(
    {"curses", "readline", "tkinter", "idlelib", "turtle", "dbm", "compression", "ensurepip", "venv"}
)
# And those that Python had in 3.11 and has no more.
GONE_BY_3_14 = frozenset(
    {"aifc", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk", "crypt", "distutils", "imghdr", "imp",
     "lib2to3", "mailcap", "msilib", "nis", "nntplib", "ossaudiodev", "pipes", "smtpd", "sndhdr", "spwd", "sunau",
     "telnetlib", "uu", "xdrlib"}
)  # fmt: skip


def plain_name(requirement: str) -> str:
    """The name in a requirement, as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[=<>!~\[; (]", requirement.strip())[0]).lower()


def recipes(own: Path) -> frozenset[str]:
    """Packages that python-for-android, or the folder of our own recipes, knows how to build."""
    folders = [own]
    found = find_spec("pythonforandroid")
    if found is not None and found.submodule_search_locations:
        folders.append(Path(found.submodule_search_locations[0]) / "recipes")
    return frozenset(plain_name(path.name) for folder in folders for path in folder.glob("*") if path.is_dir())


def is_pure(distribution: metadata.Distribution) -> bool:
    """Whether what is installed here is plain Python, which runs on any machine."""
    wheel = distribution.read_text("WHEEL") or ""
    return "-none-any" in wheel and "Root-Is-Purelib: true" in wheel


def has_wheel(requirement: str, python: str = PYTHON, *, ndk_api: int = NDK_API) -> bool:
    """Whether pip finds a wheel that runs on the phone, as python-for-android would ask for it."""
    command = [
        sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed", "--no-deps",
        "--disable-pip-version-check", "--only-binary=:all:", "--python-version", python,
        "--platform", f"android_{ndk_api}_arm64_v8a", "--target", tempfile.gettempdir(), requirement,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
