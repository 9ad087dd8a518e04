"""The steps of an APK build that need no SDK, done by buildozer's and python-for-android's own code.

    python -m tests.packaging.build_steps FOLDER [debug|release [PROJECT]]

In FOLDER: `app` (the files buildozer would put into the APK) and `dist` (python-for-android's distribution with the
rendered manifest, the generated service and our hook applied). The last line is JSON: what buildozer would have asked
python-for-android for. Everything that would be compiled or downloaded is left out, and nothing else.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.packaging.java import ROOT, p4a_folder

ARCHITECTURE = "arm64-v8a"


class Asked(BaseException):
    """Raised in place of running python-for-android; not an Exception, because buildozer passes over those."""


def buildozer_commands(folder: Path, mode: str, project: Path) -> tuple[Path, list[str]]:
    """The folder of application files, and the command line of `p4a apk`."""
    os.environ["BUILDOZER_LOG_LEVEL"] = "0"
    os.chdir(project)
    from buildozer import Buildozer
    from buildozer.targets.android import TargetAndroid

    asked: list[list[str]] = []

    class Target(TargetAndroid):
        def get_dist_dir(self, dist_name: str) -> str:
            return str(folder / "dist")

        def _update_libraries_references(self, dist_dir: str) -> None:
            pass

        def _p4a(self, command: list[str], **_: Any) -> None:
            asked.append(list(command))
            raise Asked

    tool = Buildozer(filename=str(project / "buildozer.spec"))
    tool.targetname = "android"
    tool.config.set("buildozer", "build_dir", str(folder / "buildozer"))
    for name in (tool.app_dir, folder / "dist"):
        Path(name).mkdir(parents=True, exist_ok=True)
    tool._copy_application_sources()
    target = Target(tool)
    target.build_mode, target.artifact_format = mode, "apk"
    with contextlib.suppress(Asked):
        target.build_package()
    return Path(tool.app_dir), asked[0]


def make_distribution(folder: Path, *, api: int) -> Path:
    """What `p4a create` leaves for the packaging step, without any compiled library."""
    dist = folder / "dist"
    bootstraps = p4a_folder() / "bootstraps"
    for part in ("common", "_sdl_common", "sdl2"):
        shutil.copytree(
            bootstraps / part / "build", dist, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    # SDL's Java, which the patches are for, comes with SDL itself.
    shutil.rmtree(dist / "src" / "patches", ignore_errors=True)
    (dist / "dist_info.json").write_text(
        json.dumps({"bootstrap": "sdl2", "archs": [ARCHITECTURE], "ndk_api": 24, "hostpython": sys.executable})
    )
    (dist / "project.properties").write_text(f"target=android-{api}\n")
    sdk = folder / "sdk"
    (sdk / "build-tools" / f"{api}.0.0").mkdir(parents=True, exist_ok=True)
    (dist / "local.properties").write_text(f"sdk.dir={sdk}\n")
    for name in (f"libs/{ARCHITECTURE}", f"_python_bundle__{ARCHITECTURE}/_python_bundle"):
        (dist / name).mkdir(parents=True, exist_ok=True)
    return dist


def load(name: str, path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def packaging_arguments(command: list[str]) -> list[str]:
    """The part of `p4a apk ...` that its packaging step reads; the toolchain takes the rest for itself."""
    alone = {"--copy-libs"}
    pairs = {"--bootstrap", "--dist_name", "--local-recipes", "--android_api", "--arch", "--storage-dir", "--ndk-api",
             "--requirements", "--hook", "--sdk"}  # fmt: skip
    kept: list[str] = []
    rest = iter(command[1:])  # the first is `apk`
    for part in rest:
        if part in alone or part.startswith(tuple(f"{name}=" for name in pairs)):
            continue
        if part in pairs:
            next(rest)
            continue
        kept.append("--resource" if part == "--add-resource" else part)  # the toolchain passes it on by this name
    return kept


def main(folder: Path, mode: str = "debug", project: str = str(ROOT)) -> None:
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            app, dist, command = build_steps(folder, mode, Path(project).resolve())
    except BaseException:  # argparse ends the process, and its reason is among what was said
        print(said.getvalue(), file=sys.stderr)
        raise
    print(json.dumps({"app": str(app), "dist": str(dist), "command": command}))


def build_steps(folder: Path, mode: str, project: Path) -> tuple[Path, Path, list[str]]:
    app, command = buildozer_commands(folder, mode, project)
    dist = make_distribution(folder, api=36)
    os.chdir(dist)
    os.environ["ANDROID_API"] = "36"
    build = load("build", dist / "build.py")
    # Compiling takes most of the time and shows nothing here: other stages run the code, under -OO too.
    build.parse_args_and_make_package([*packaging_arguments(command), "--no-byte-compile-python"])
    load("hook", project / "packaging" / "android" / "hook.py").after_apk_build(None)
    return app, dist, command


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), *sys.argv[2:])
