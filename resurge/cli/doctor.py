"""`resurge doctor`: what this machine has, what it lacks, and what to do about it."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

DISK_BYTES_MIN = 2 * 1024**3
JAVA_VERSION_MIN = 17
FILES_MIN = 4096
SPARK_TIMEOUT_S = 180

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, and what to do where it is not right."""

    name: str
    ok: bool
    found: str
    remedy: str = ""
    needed: bool = True  # False: advice; the command still succeeds


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


def findings(port: int, home: Path | None = None, *, start_spark: bool = False) -> list[Finding]:
    python = ".".join(map(str, sys.version_info[:3]))
    java = java_version()
    place = home if home is not None and home.exists() else Path.cwd()
    free = shutil.disk_usage(place).free
    found = [
        Finding("python", sys.version_info >= (3, 11), python, "install Python 3.11 or newer"),
        Finding(
            "java",
            java is not None and java >= JAVA_VERSION_MIN,
            str(java) if java else "not found",
            f"Spark needs Java {JAVA_VERSION_MIN} or newer: apt install openjdk-17-jre-headless",
        ),
        Finding("disk", free >= DISK_BYTES_MIN, f"{free / 1024**3:.1f} GiB free", "free at least 2 GiB"),
        _files_finding(),
        _clock_finding(),
    ]
    for package, remedy in (
        ("pyspark", "pip install 'resurge[cloud]'"),
        ("fastapi", "pip install 'resurge[cloud]'"),
        ("argon2-cffi", "pip install 'resurge[cloud]'"),
        ("zmq", "pip install pyzmq; HTTP alone is enough without a relay"),
        ("cryptography", "pip install cryptography"),
    ):
        found.append(_package_finding(package, remedy))
    found.append(_curve_finding())
    if home is not None and home.exists():
        found += _home_findings(home)
    else:
        found.append(_port_finding(port))
    if start_spark:
        found.append(_spark_finding())
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


def _curve_finding() -> Finding:
    """Peers and relays encrypt with CURVE; a libzmq built without it would silently talk in the clear, so we refuse."""
    command = [sys.executable, "-c", "import zmq; print(zmq.has('curve'), 'libzmq', zmq.zmq_version())"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    has, _, version = answer.partition(" ")
    remedy = "pip install pyzmq, its own wheel: without CURVE relays are refused"
    return Finding("curve", has == "True", version or "no pyzmq", remedy, needed=False)


def _files_finding() -> Finding:
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    remedy = f"raise it to {FILES_MIN} or more (ulimit -n, LimitNOFILE=): every phone that is connected is an open file"
    return Finding("open files", limit < 0 or limit >= FILES_MIN, f"up to {limit}", remedy, needed=False)


def _clock_finding() -> Finding:
    """Whether the kernel says that somebody keeps its clock right; event times and certificates rest on it."""
    if shutil.which("timedatectl") is None:
        return Finding("clock", True, "nothing here says whether it is kept in step", needed=False)
    command = ["timedatectl", "show", "--property=NTPSynchronized", "--value"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    if answer not in ("yes", "no"):
        return Finding("clock", True, "nothing here says whether it is kept in step", needed=False)
    remedy = "switch time synchronisation on: timedatectl set-ntp true"
    return Finding("clock", answer == "yes", "in step" if answer == "yes" else "not synchronised", remedy, needed=False)


def _home_findings(home: Path) -> Iterator[Finding]:
    """What can be wrong with a gateway's home and with the gateway that runs in it."""
    mode = home.stat().st_mode & 0o777
    yield Finding("home", not mode & 0o077, f"mode {mode:o}", f"others can look inside: chmod 700 {home}")
    yield from _certificate_findings(home)
    yield from _log_findings(home)
    yield _gateway_finding(home)


def _certificate_findings(home: Path) -> Iterator[Finding]:
    import datetime

    from cloud_backend.gateway.certificate import CERTIFICATE_FILE

    path = home / CERTIFICATE_FILE
    if not path.exists():
        remedy = "start the gateway with --tls before phones or people reach it over a network"
        yield Finding("certificate", False, "none: no TLS here", remedy, needed=False)
        return
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    days = (certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)).days
    remedy = "put a renewed certificate for the same key into gateway.pem; phones stay paired"
    yield Finding("certificate", days > 14, f"valid for {days} days", remedy)


def _log_findings(home: Path) -> Iterator[Finding]:
    """A clock that stands before the newest record has gone back since it was written."""
    import time

    from cloud_backend.log.reader import Reader
    from cloud_backend.log.segments import bases
    from shared.spool.disk import PosixDisk

    if not (home / "log").is_dir():
        return
    reader = Reader(home / "log")
    last = max(bases(PosixDisk(home / "log")), default=0)  # the last segment; one reads from a segment's start
    newest = max((record.received_us for _, record in reader.read(last, reader.valid_end())), default=0)
    ahead_s = newest / 1e6 - time.time()
    remedy = "the clock went back since the log was last written; set it right before you start the gateway"
    yield Finding("clock and log", ahead_s < 5, "in order" if ahead_s < 5 else f"{ahead_s:.0f} s apart", remedy)


def _gateway_finding(home: Path) -> Finding:
    from resurge.cli.gateway_api import Api
    from shared.errors import UsageError

    try:
        me = Api(home).get("/me")
    except UsageError as error:
        return Finding("gateway", False, error.message, "start it; nothing is lost while it is down", needed=False)
    return Finding("gateway", True, f"answers, version {me['version']}")


def _spark_finding() -> Finding:
    """Start a session and count to ten, in a process of its own: the one check that shows that Java and Spark fit."""
    program = (
        "from pyspark.sql import SparkSession as S;"
        "s = S.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate();"
        "print('counted', s.range(10).count(), s.version)"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=SPARK_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return Finding("spark", False, f"no answer in {SPARK_TIMEOUT_S} s", "look for what else uses this machine")
    line = next((line for line in done.stdout.splitlines() if line.startswith("counted 10")), "")
    last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
    return Finding("spark", bool(line), line or last[0], "check JAVA_HOME, and pip install 'resurge[cloud]' again")


def _say_capacity(devices: int, home: Path | None, *, as_json: bool) -> None:
    from resurge.cli import capacity

    machine = capacity.measure(home if home is not None and home.exists() else Path.cwd())
    answer = capacity.answer(devices, machine)
    if as_json:
        print(json.dumps(answer))
    else:
        capacity.lines(devices, machine, print)
    if not answer["enough"]:
        raise typer.Exit(1)


@app.command()
def doctor(
    port: Annotated[int, typer.Option(help="the gateway's port")] = 8787,
    home: Annotated[Path | None, typer.Option(help="also look at this gateway's home", envvar="RESURGE_HOME")] = None,
    spark: Annotated[bool, typer.Option("--spark", help="also start Spark and count to ten; takes a while")] = False,
    devices: Annotated[
        int | None,
        typer.Option("--capacity", min=1, help="instead: which part of this machine so many devices outgrow first"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="last line is one JSON object")] = False,
) -> None:
    """Check this machine; exits 1 if something needed is missing, or if it is too small for --capacity."""
    if devices is not None:
        _say_capacity(devices, home, as_json=as_json)
        return
    found = findings(port, home, start_spark=spark)
    sound = all(finding.ok or not finding.needed for finding in found)
    if as_json:
        print(json.dumps({"ok": sound, "findings": [asdict(finding) for finding in found]}))
    else:
        for finding in found:
            tail = "" if finding.ok else f"  -> {finding.remedy}"
            word = "ok " if finding.ok else "NO " if finding.needed else "hm "
            print(f"{word} {finding.name:<13} {finding.found}{tail}")
    if not sound:
        raise typer.Exit(1)
