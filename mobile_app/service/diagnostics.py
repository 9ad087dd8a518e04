"""A zip that a person can send to whoever helps them: how the node is, not what it read, and no secret.

Only what is named here goes in, so a file that is added to the home later cannot slip into it: no keys, tokens, spool,
recordings, results or positions, and of the gateway only its address.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

from mobile_app.recordings.export import EXPORTS

PACKAGES = ("resurge", "numpy", "requests", "cryptography", "pyzmq", "kivy", "plyer", "pyjnius")
VIEW_LEFT_OUT = frozenset({"recording", "pairing"})  # names and markers that a person wrote


def write_diagnostics(home: Path, view: dict[str, Any], health: list[dict[str, Any]], plan: dict[str, Any]) -> Path:
    directory = home / EXPORTS
    directory.mkdir(mode=0o700, exist_ok=True)
    path = directory / time.strftime("diagnostics-%Y%m%d-%H%M%S.zip", time.gmtime())
    path.touch(mode=0o600)
    shown = {name: value for name, value in view.items() if name not in VIEW_LEFT_OUT}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in (("view", shown), ("health", health), ("plan", plan), ("machine", _machine(home))):
            archive.writestr(f"{name}.json", json.dumps(value, indent=2))
    return path


def _machine(home: Path) -> dict[str, Any]:
    disk = os.statvfs(home)
    return {
        "platform": platform.platform(),
        "python": sys.version,
        "optimised": sys.flags.optimize,
        "packages": {name: _version(name) for name in PACKAGES},
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "files": {
            str(file.relative_to(home)): file.stat().st_size
            for file in sorted(home.rglob("*"))
            if file.is_file() and file.relative_to(home).parts[0] not in (EXPORTS, "recordings")
        },
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
