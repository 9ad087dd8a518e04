"""Other Pythons than this one: the phone's version, and its processor.

python-for-android builds Python 3.14, newer than most machines have. Debian's unstable distribution has it for both
processors; its packages are unpacked into a folder and run with their own C library, nothing is installed. Where
that cannot be reached, the newest Python found here is taken, and said.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

PHONE = "3.14"
MIRROR = "https://deb.debian.org/debian/"
SUITES = ("sid", "forky")
# Dependencies that only configure a system, or hold no library.
NOT_NEEDED = {"media-types", "netbase", "tzdata", "debconf", "readline-common", "libc-bin", "libc-gconv-modules-extra"}
RUNNING = ("numpy", "requests", "cryptography", "pyzmq", "plyer", "typer", "rich")
TESTING = ("pytest", "pytest-timeout", "hypothesis", "trustme")
TRIPLES = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
LOADERS = {"amd64": "ld-linux-x86-64.so.2", "arm64": "ld-linux-aarch64.so.1"}


@dataclass(frozen=True, slots=True)
class Interpreter:
    """How to start it, and what it is."""

    command: list[str]
    version: str
    environment: dict[str, str]


class NotToBeHad(Exception):
    """Why not, in words for the report."""


class NotReached(NotToBeHad):
    """The server that has it does not answer."""


def _fetch(path: str) -> bytes:
    try:
        with urllib.request.urlopen(MIRROR + path, timeout=60) as answer:
            return bytes(answer.read())
    except OSError as error:
        raise NotReached(f"{MIRROR}{path}: {error}") from error


def _packages(suite: str, architecture: str) -> dict[str, str]:
    index = lzma.decompress(_fetch(f"dists/{suite}/main/binary-{architecture}/Packages.xz")).decode()
    return {part.split("\n", 1)[0].removeprefix("Package: "): part for part in index.split("\n\n") if part}


def _needs(paragraph: str) -> list[str]:
    lines = re.findall(r"^(?:Pre-)?Depends: (.*)$", paragraph, re.M)
    return [re.split(r"[ (:|]", entry.strip())[0] for line in lines for entry in line.split(",")]


def _field(paragraph: str, name: str) -> str:
    found = re.search(rf"^{name}: (.*)$", paragraph, re.M)
    if found is None:
        raise NotToBeHad(f"Debian's index has no {name} for a package")
    return found.group(1)


def unpack_debian(folder: Path, architecture: str, version: str = PHONE) -> Path:
    """The root of an unpacked Python of this version; kept for the next time."""
    root = folder / f"debian-{architecture}-{version}"
    if (root / "done").is_file():
        return root
    if shutil.which("dpkg-deb") is None:
        raise NotToBeHad("dpkg-deb is not here to unpack Debian's packages")
    for suite in SUITES:
        packages = _packages(suite, architecture)
        if f"python{version}" in packages:
            break
    else:
        raise NotToBeHad(f"Debian has no python{version} in {' or '.join(SUITES)} any more")
    waiting, wanted = [f"python{version}", "libstdc++6"], list[str]()  # the second is what wheels need
    while waiting:
        name = waiting.pop()
        if name in packages and name not in wanted and name not in NOT_NEEDED and not name.startswith("gcc-"):
            wanted.append(name)
            waiting += _needs(packages[name])
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for name in wanted:
        body = _fetch(_field(packages[name], "Filename"))
        if hashlib.sha256(body).hexdigest() != _field(packages[name], "SHA256"):
            raise NotToBeHad(f"Debian's {name} arrived damaged")
        with tempfile.NamedTemporaryFile(suffix=".deb") as file:
            file.write(body)
            file.flush()
            subprocess.run(["dpkg-deb", "-x", file.name, str(root)], check=True)
    (root / "done").touch()
    return root


def _has(folder: Path, packages: tuple[str, ...]) -> bool:
    """Whether an earlier run put exactly these there."""
    kept = folder / "done"
    return kept.is_file() and kept.read_text() == " ".join(packages)


def _install(command: list[str], *packages: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", *command, "-q", "--disable-pip-version-check", *packages],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise NotToBeHad(f"pip: {done.stderr.strip()[-500:]}")


def phones_version(folder: Path) -> Interpreter:
    """This processor's Python of the phone's version, with what the device tests need."""
    if os.uname().machine != "x86_64":
        raise NotToBeHad(f"no Debian Python is unpacked for a {os.uname().machine} machine")
    root = unpack_debian(folder, "amd64")
    libraries = root / "usr" / "lib" / TRIPLES["amd64"]
    binary, started = root / "usr" / "bin" / f"python{PHONE}", root / "usr" / "bin" / "python"
    # Its own loader and C library: they are newer than this system's. --argv0 keeps sys.executable true.
    started.write_text(
        f'#!/bin/sh\nexec {libraries}/{LOADERS["amd64"]} --argv0 "$0" --library-path {libraries} {binary} "$@"\n'
    )
    started.chmod(0o755)
    made = folder / f"venv-{PHONE}"
    if not _has(made, RUNNING + TESTING):
        subprocess.run([str(started), "-m", "venv", "--clear", "--without-pip", str(made)], check=True)
        _install(["--python", str(made / "bin" / "python"), "install"], *RUNNING, *TESTING)
        (made / "done").write_text(" ".join(RUNNING + TESTING))
    return Interpreter([str(made / "bin" / "python")], _version([str(made / "bin" / "python")]), {})


def newest_here(folder: Path) -> Interpreter:
    """The newest Python on this machine that is at least 3.13, on the path or under pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python3.{minor}") for minor in (15, 14, 13)]
    candidates += [str(path) for path in sorted(pyenv.glob("3.1[3-9]*/bin/python"), reverse=True)]
    for candidate in candidates:
        if candidate is None:
            continue
        done = subprocess.run([candidate, "-c", "import sys; print(sys.version_info >= (3, 13))"],
                              capture_output=True, text=True, check=False)  # fmt: skip
        if done.stdout.strip() != "True":
            continue
        made = folder / f"venv-{_version([candidate])}"
        if not _has(made, RUNNING + TESTING):
            subprocess.run([candidate, "-m", "venv", "--clear", "--without-pip", str(made)], check=True)
            _install(["--python", str(made / "bin" / "python"), "install"], *RUNNING, *TESTING)
            (made / "done").write_text(" ".join(RUNNING + TESTING))
        return Interpreter([str(made / "bin" / "python")], _version([candidate]), {})
    raise NotToBeHad("no Python 3.13 or newer is on the path or under pyenv")


def on_arm(folder: Path) -> Interpreter:
    """The phone's version on the phone's processor, by user-mode emulation. It is glibc's, not Android's C library."""
    emulator = shutil.which("qemu-aarch64-static")
    if emulator is None:
        raise NotToBeHad("qemu-aarch64-static is not installed (Debian: qemu-user-static)")
    root = unpack_debian(folder, "arm64")
    site = folder / f"site-arm64-{PHONE}"
    if not _has(site, RUNNING):
        platforms = [
            f"--platform=manylinux{tag}_aarch64" for tag in ("2014", "_2_17", "_2_26", "_2_27", "_2_28", "_2_34")
        ]
        _install(
            ["install", "--target", str(site), "--only-binary=:all:", "--python-version", PHONE, *platforms], *RUNNING
        )
        (site / "done").write_text(" ".join(RUNNING))
    libraries = root / "usr" / "lib" / TRIPLES["arm64"]
    paths = ":".join(str(path) for path in (libraries, *site.glob("*.libs")))
    # Debian's root has usr/lib only; the loader is looked for under /lib.
    (root / "lib").exists() or (root / "lib").symlink_to("usr/lib")
    command = [
        emulator,
        "-L",
        str(root),
        "-E",
        f"LD_LIBRARY_PATH={paths}",
        str(root / "usr" / "bin" / f"python{PHONE}"),
    ]
    environment = {"PYTHONHOME": str(root / "usr"), "PYTHONPATH": str(site)}
    return Interpreter(command, _version(command, environment), environment)


def _version(command: list[str], environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [*command, "-c", "import platform; print(platform.python_version())"],
        capture_output=True, text=True, env=os.environ | (environment or {}), check=False,
    )  # fmt: skip
    if done.returncode:
        raise NotToBeHad(f"{command[0]} does not start: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


def device_run(interpreter: Interpreter, app: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """tests/packaging/device_run.py on this interpreter, under -OO, with nothing but the APK's files."""
    command = [*interpreter.command, "-OO"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [*command, str(Path(__file__).with_name("device_run.py")), str(app), *options],
        cwd=tempfile.gettempdir(),
        env=environment | interpreter.environment | {"DEVICE_PYTHON": json.dumps(command)},
        capture_output=True, text=True, timeout=3000, check=False,
    )  # fmt: skip
