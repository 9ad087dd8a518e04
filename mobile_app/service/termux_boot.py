"""Keeping a node alive in Termux: what Termux:Boot runs when the phone has started, and how it is put there.

Android stops what it does not know. So the script takes the wake lock (or the processor sleeps with the screen), shows
a lasting notification (a visible app is killed last), runs the node in one process and starts it again when it ends by
itself. A node that was told to stop (SIGTERM, `stop` on the screen) stays stopped until the next boot.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mobile_app.host import TERMUX, host
from shared.errors import UsageError

SCRIPT = "resurge-node"
LOG_BYTES_MAX = 1_000_000
START_AGAIN_S = 10
PATIENCE_S = 40  # a call of Termux:API that hangs must not keep the node from starting

TEMPLATE = """#!{sh}
# Written by `resurge node install-service`; run by Termux:Boot when the phone has started. Remove it with
# `resurge node install-service --remove`, or start it by hand with `sh {path} &`.
timeout {patience} termux-wake-lock
log={log}
mkdir -p "$(dirname "$log")"
if [ -f "$log" ] && [ "$(wc -c < "$log")" -gt {log_bytes} ]; then
  tail -c 100000 "$log" > "$log.new" && mv "$log.new" "$log"
fi
if command -v termux-notification > /dev/null; then
  timeout {patience} termux-notification --id resurge --ongoing --alert-once --priority low -t Resurge \\
    -c 'A node records here. In Termux: resurge node watch' < /dev/null
fi
while ! {command} >> "$log" 2>&1; do
  echo "ended by itself; again in {again} s" >> "$log"
  sleep {again}
done
if command -v termux-notification-remove > /dev/null; then
  timeout {patience} termux-notification-remove resurge < /dev/null
fi
timeout {patience} termux-wake-unlock
"""


@dataclass(frozen=True, slots=True)
class BootScript:
    path: Path
    text: str


def boot_script(home: Path, options: Sequence[str], environment: Mapping[str, str] | None = None) -> BootScript:
    """The script for this home; `options` are handed to `resurge node run`."""
    given = os.environ if environment is None else environment
    prefix = given.get("PREFIX", "/data/data/com.termux/files/usr")
    path = Path(given.get("HOME", "~")).expanduser() / ".termux" / "boot" / SCRIPT
    command = shlex.join(["resurge", "node", "run", "--home", str(home), *options])
    text = TEMPLATE.format(
        sh=f"{prefix}/bin/sh", path=path, log=shlex.quote(str(home / "service.log")), log_bytes=LOG_BYTES_MAX,
        command=command, again=START_AGAIN_S, patience=PATIENCE_S,
    )  # fmt: skip
    return BootScript(path, text)


def install(script: BootScript, environment: Mapping[str, str] | None = None) -> list[str]:
    """Put the script in place; returns what a person should still do. Refused where there is no Termux."""
    if host(environment) != TERMUX:
        raise UsageError(
            "this is not Termux, so there is no Termux:Boot to start anything; see what would be written with "
            "--dry-run, or use systemd (packaging/systemd) on a computer",
            code="service-termux",
        )
    script.path.parent.mkdir(parents=True, exist_ok=True)
    made = script.path.with_name(f".{SCRIPT}.new")
    made.write_text(script.text)
    made.chmod(0o700)
    made.replace(script.path)
    return [
        "install Termux:Boot and Termux:API from where Termux came from, and open Termux:Boot once",
        "let Termux run in the background: Android settings, Apps, Termux, Battery, Unrestricted",
        f"start it now without a reboot: sh {script.path} &",
    ]


def remove(script: BootScript) -> bool:
    """Whether there was one."""
    there = script.path.exists()
    script.path.unlink(missing_ok=True)
    return there
