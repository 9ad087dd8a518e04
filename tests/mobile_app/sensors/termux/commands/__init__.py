"""Fake `termux-*` commands on the PATH."""

from __future__ import annotations

import os
import sys
from pathlib import Path

COMMANDS = (
    "termux-sensor", "termux-location", "termux-battery-status", "termux-wifi-connectioninfo",
    "termux-telephony-cellinfo",
)  # fmt: skip


class FakeTermux:
    """A directory of commands, and what they are to do."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "state"
        self.commands = directory / "bin"
        for made in (self.state, self.commands):
            made.mkdir(parents=True)
        script = Path(__file__).with_name("fake.py").read_text()
        for name in COMMANDS:
            command = self.commands / name
            command.write_text(f"#!{sys.executable} -S\n{script}")
            command.chmod(0o755)

    def environment(self) -> dict[str, str]:
        path = f"{self.commands}{os.pathsep}{os.environ['PATH']}"
        return {"PATH": path, "FAKE_TERMUX": str(self.state), "TERMUX_VERSION": "0.118.1"}

    def set(self, name: str, value: str) -> None:
        """`mode-COMMAND`, `seconds`, `fix-age-ms`."""
        made = self.state / f".{name}.new"
        made.write_text(value)
        made.replace(self.state / name)

    def calls(self) -> list[str]:
        log = self.state / "calls.log"
        return log.read_text().splitlines() if log.exists() else []
