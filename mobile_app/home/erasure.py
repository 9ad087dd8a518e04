"""Delete my data: everything this device keeps, its keys first.

Theory of operation. Flash storage does not overwrite in place, so overwriting readings promises little. Spool, state
and recordings are encrypted, and without their keys they are noise: so the keys go first, overwritten and removed, and
then every file. The mark `erasing` is durable before anything is touched; a start that finds it finishes the work.
What stays is what the person set about the app, and nothing that was read, computed or received.

What the gateway was sent is not here to be deleted. The answer says how much that is and under which name, so that the
person can ask its operator.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from mobile_app.home.files import LOCK_FILE, write_durably
from mobile_app.settings import POLICY_FILE, SETTINGS_FILE
from shared.spool.disk import PosixDisk

MARK = "erasing"
KEYS = ("device.key", "spool.key")  # and what a new incarnation set aside: spool.key-behind-N
KEPT = frozenset({SETTINGS_FILE, POLICY_FILE, LOCK_FILE, MARK, "app.json", "resurge.toml", "service.link"})


def erase(home: Path) -> list[str]:
    """Delete everything of this home; no node may be open. Returns the names of what was there."""
    write_durably(home / MARK, b"")
    found = sorted(path.name for path in home.iterdir() if path.name not in KEPT)
    keys = [name for name in found if name.startswith(KEYS)]
    for name in keys:
        _overwrite(home / name)
        (home / name).unlink()
    PosixDisk(home).sync()
    for name in found:
        path = home / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    (home / MARK).unlink()
    PosixDisk(home).sync()
    return found


def finish_erasure(home: Path) -> bool:
    """At a start: go on with what a kill interrupted. Whether there was something to finish."""
    if not (home / MARK).exists():
        return False
    erase(home)
    return True


def cloud_has(view: dict[str, Any]) -> dict[str, Any]:
    """What a gateway acknowledged, as this device knows it, before the device forgets."""
    edges = view.get("edges", {})
    return {
        "gateway": view.get("gateway"),
        "device": view.get("device"),
        "delivered": {name: edge["delivered"] for name, edge in edges.items() if edge["delivered"]},
    }


def _overwrite(path: Path) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, os.urandom(max(1, path.stat().st_size)))
        os.fsync(handle)
    finally:
        os.close(handle)
