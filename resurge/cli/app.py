"""`resurge app build`: the Android app with a program's own operators in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from resurge.cli.gateway_api import AsJson
from resurge.cli.own_modules import Modules

if TYPE_CHECKING:
    from resurge.app_build.staging import Staged

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)

SDKS = ("ANDROIDSDK", "ANDROID_HOME", "ANDROID_SDK_ROOT")
BUILDOZERS_SDK = Path.home() / ".buildozer" / "android" / "platform" / "android-sdk"


@app.callback()
def about() -> None:
    """Build the Android app with operators of your own in it."""


@app.command()
def build(
    *,
    program: Annotated[Path, typer.Option("--program", help="a program: a Python file that uses resurge")],
    title: Annotated[str, typer.Option(help="what people see under its icon; from the program's name otherwise")] = "",
    id: Annotated[str, typer.Option("--id", help="what Android calls it, like org.example.walks")] = "",
    version: Annotated[str, typer.Option("--version", help="of the app, like 1.0")] = "0.1.0",
    output: Annotated[Path | None, typer.Option(help="folder of the app's project; .resurge/apps/ID otherwise")] = None,
    module: Modules = (),
    gate: Annotated[bool, typer.Option(help="check all that can be checked without Android's SDK")] = True,
    as_json: AsJson = False,
) -> None:
    """Stage the app with the program's own operator modules, check it, and build it where Android's SDK is."""
    from resurge.app_build.staging import AppName, stage
    from shared.stream.program import read_program

    words = program.stem.replace("_", " ").strip()
    name = AppName(title or words.capitalize(), id or f"org.resurge.{'_'.join(words.lower().split())}", version)
    folder = output or Path(".resurge") / "apps" / name.id
    read = read_program(program, module)
    beside = str(program.resolve().parent)
    sys.path.insert(0, beside)  # its modules are files beside it
    try:
        staged = stage(folder, read, name)
    finally:
        sys.path.remove(beside)
    if not as_json:
        _show(staged)
    checked = _gate(staged, quiet=as_json) if gate else "not asked for"
    built = _buildozer(staged.folder) if checked != "failed" else []
    if as_json:
        print(json.dumps(staged.bundle.to_json() | {"folder": str(folder), "gate": checked, "apk": built}))
    elif built:
        print(f"built {', '.join(built)}")
    elif checked != "failed":
        print(
            f"No Android SDK is here, so no APK was built. Make {folder} a GitHub repository: its workflow 'apk' "
            "builds it. Or copy it to a machine with an SDK and run `buildozer -v android debug` in it."
        )
    if checked == "failed":
        raise typer.Exit(1)


def _show(staged: Staged) -> None:
    found, built = staged.found, staged.bundle
    print(f"{built.build} in {staged.folder}")
    for each in built.operators:
        print(f"  operator {each.reference}  {each.digest[:16]}")
    print(f"  own files: {', '.join(sorted(found.files))}")
    if found.requirements:
        print(f"  packages: {', '.join(found.requirements.values())}")
    for text in found.left_out:
        print(f"  left out, since it is imported only where it is: {text}")
    for text in staged.warnings:
        print(f"  warning: {text}", file=sys.stderr)


def _gate(staged: Staged, *, quiet: bool) -> str:
    """passed, failed, or why it was not run: it is a part of the clone's tests and needs what `make setup` installs."""
    from resurge.app_build.staging import ROOT

    if not (ROOT / "tests" / "packaging" / "gate.py").is_file() or find_spec("buildozer") is None:
        why = "not run: it needs a clone of Resurge with what `make setup` installs"
        print(f"the gate was {why}", file=sys.stderr)
        return why
    command = [sys.executable, "-m", "tests.packaging.gate", "--app", str(staged.folder.resolve())]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False,
        stdout=subprocess.DEVNULL if quiet else None,
    )  # fmt: skip
    return "failed" if done.returncode else "passed"


def _buildozer(folder: Path) -> list[str]:
    """The APKs, where an SDK is; empty where none is."""
    if shutil.which("buildozer") is None or not (BUILDOZERS_SDK.is_dir() or any(map(os.environ.get, SDKS))):
        return []
    subprocess.run(["buildozer", "-v", "android", "debug"], cwd=folder, check=True, stdout=sys.stderr)
    return [str(path) for path in sorted((folder / "bin").glob("*.apk"))]
