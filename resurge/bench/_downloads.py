"""What a bench or a test fetches once and keeps in the user's cache: jars, by the Ivy that PySpark brings."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "resurge"
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
FETCH_S = 300
_WANTED = """\
<ivy-module version="2.0"><info organisation="resurge" module="{name}"/><configurations><conf name="default"/>\
</configurations><dependencies>{dependencies}</dependencies></ivy-module>
"""
_ONE = '<dependency org="{}" name="{}" rev="{}" conf="default-&gt;default" transitive="{}"/>'
Module = tuple[str, str, str]  # organisation, module, version


class NotReachable(Exception):
    """This could not be fetched, or is not installed. What it is, in words."""


def jars(name: str, *modules: Module, transitive: bool = True) -> Path:
    """The directory with these modules' jars, and, if `transitive`, with all that they need. NotReachable where they
    are not there and cannot be fetched."""
    folder = CACHE / name / "jars"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:  # several runs want them at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _fetch(folder, modules, transitive=transitive)
    return folder


def _fetch(folder: Path, modules: Sequence[Module], *, transitive: bool) -> None:
    import pyspark

    cache, name = folder.parent, folder.parent.name
    fetched, wanted = cache / f"fetching-{os.getpid()}", cache / "wanted.xml"
    dependencies = "".join(_ONE.format(*module, str(transitive).lower()) for module in modules)
    wanted.write_text(_WANTED.format(name=name, dependencies=dependencies))
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-2*.jar")
    command = [
        *JAVA, "-jar", str(ivy), "-cache", str(cache / "ivy"), "-m2compatible", "-confs", "default",
        "-ivy", str(wanted), "-retrieve", f"{fetched}/[artifact]-[revision].[ext]",
    ]  # fmt: skip
    try:
        failed = subprocess.run(command, capture_output=True, timeout=FETCH_S, check=False).returncode != 0
    except subprocess.TimeoutExpired:
        failed = True
    wanted.unlink()
    if failed or not all(any(fetched.glob(f"{module}-*.jar")) for _, module, _ in modules):
        shutil.rmtree(fetched, ignore_errors=True)
        raise NotReachable(f"the jars of {name}")
    fetched.rename(folder)
    shutil.rmtree(cache / "ivy", ignore_errors=True)
