"""Where a gateway answers and what devices pin: a small file in its home that the command line reads."""

from __future__ import annotations

import json
from pathlib import Path

from shared.errors import UsageError
from shared.spool.disk import PosixDisk

ADDRESS_FILE = "gateway.json"


def write_address(home: Path, *, host: str, port: int, pin: bytes, key: bytes, pid: int) -> None:
    value = {"host": host, "port": port, "pin": pin.hex(), "key": key.hex(), "pid": pid}
    PosixDisk(home).replace(ADDRESS_FILE, json.dumps(value).encode())


def read_address(home: Path) -> dict[str, object]:
    """The address of the gateway that runs, or last ran, in this home."""
    try:
        value = json.loads((home / ADDRESS_FILE).read_bytes())
    except FileNotFoundError:
        raise UsageError(
            f"no gateway has run in {str(home)!r}; give its --home, or start one with resurge up", code="gateway-home"
        ) from None
    return dict(value)
