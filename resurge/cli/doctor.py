"""`resurge doctor`: what this machine has, what it lacks, and what to do about it."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

DISK_BYTES_MIN = 2 * 1024**3
JAVA_VERSION_MIN = 17


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    ok: bool
    found: str
    remedy: str = ""


def java_version() -> int | None:
    """The major version of the `java` on the path, or None."""
    if shutil.which("java") is None:
        return None
    printed = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    digits = printed.partition('version "')[2].partition('"')[0].split(".")
    try:
        return int(digits[1]) if digits[0] == "1" else int(digits[0])
    except (ValueError, IndexError):
        return None


def findings(port: int) -> list[Finding]:
    python = ".".join(map(str, sys.version_info[:3]))
    java = java_version()
    free = shutil.disk_usage(Path.cwd()).free
    found = [
        Finding("python", sys.version_info >= (3, 11), python, "install Python 3.11 or newer"),
        Finding(
            "java",
            java is not None and java >= JAVA_VERSION_MIN,
            str(java) if java else "not found",
            f"Spark needs Java {JAVA_VERSION_MIN} or newer: apt install openjdk-17-jre-headless",
        ),
        Finding("disk", free >= DISK_BYTES_MIN, f"{free / 1024**3:.1f} GiB free", "free at least 2 GiB"),
        _port_finding(port),
    ]
    for package, remedy in (
        ("pyspark", "pip install 'resurge[cloud]'"),
        ("fastapi", "pip install 'resurge[cloud]'"),
        ("zmq", "pip install pyzmq; HTTP alone is enough without a relay"),
        ("cryptography", "pip install cryptography"),
    ):
        found.append(_package_finding(package, remedy))
    return found


def _port_finding(port: int) -> Finding:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return Finding(
                "port", False, f"{port}: {error.strerror}", "stop what uses it, or choose another with --port"
            )
    return Finding("port", True, f"{port} is free")


def _package_finding(package: str, remedy: str) -> Finding:
    import importlib.metadata

    distribution = {"zmq": "pyzmq"}.get(package, package)
    try:
        return Finding(package, True, importlib.metadata.version(distribution))
    except importlib.metadata.PackageNotFoundError:
        return Finding(package, False, "not installed", remedy)


@app.command()
def doctor(
    port: Annotated[int, typer.Option(help="the gateway's port")] = 8787,
    as_json: Annotated[bool, typer.Option("--json", help="last line is one JSON object")] = False,
) -> None:
    """Check this machine; exits 1 if something needed is missing."""
    found = findings(port)
    if as_json:
        print(json.dumps({"ok": all(f.ok for f in found), "findings": [asdict(f) for f in found]}))
    else:
        for finding in found:
            tail = "" if finding.ok else f"  -> {finding.remedy}"
            print(f"{'ok ' if finding.ok else 'NO '} {finding.name:<13} {finding.found}{tail}")
    if not all(finding.ok for finding in found):
        raise typer.Exit(1)
