"""`make apk-gate`: everything about the APK that can be shown without Android's SDK, stage by stage.

    python -m tests.packaging.gate [--soak] [--app PROJECT] [STAGE...]

Each stage prints what it saw and its seconds. A stage that cannot run here says why and counts as not run, which fails
the gate only with --all-must-run. Nothing is built for a phone: docs/android.md says what that leaves open.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mobile_app.own_operators import FILE
from resurge.app_build.staging import PLAN
from tests.packaging import java, manifest, pythons, requirements, spec
from tests.packaging.build_steps import load
from tests.packaging.java import ROOT

BUILT = java.BUILT
OWN_PART = "runs_its_own_operators"
OF_AN_APP = ("spec", "graph", "wheels", "manifest", "optimised")


class Failed(Exception):
    pass


class NotRun(Exception):
    pass


def _fail_with(wrong: list[str]) -> None:
    if wrong:
        raise Failed("\n".join(wrong))


def spec_tokens(project: Path = ROOT) -> str:
    path = project / "buildozer.spec"
    _fail_with(spec.check(path, project))
    return f"{len(dict(spec.load(path).items('app')))} keys, all known to buildozer, every rule kept"


def requirement_graph(project: Path = ROOT) -> str:
    required = requirements.required(project / "buildozer.spec")
    packages = requirements.OURS | _own(project)
    imported = requirements.modules_imported(project, packages)
    _fail_with(requirements.missing_from_spec(imported, required, packages))
    answer = requirements.graph(required)
    outside = sorted(set(imported) - set(sys.stdlib_module_names) - packages)
    if not {"pyzmq", "cryptography"} <= set(answer["local"]):
        raise Failed(f"recipes of our own in use: {answer['local']}")
    return (
        f"the phone imports {', '.join(outside)}; python-for-android builds {len(answer['order'])} recipes for "
        f"Python {answer['python']} ({', '.join(answer['local'])} ours) and takes {len(answer['modules'])} wheels"
    )


def wheels(project: Path = ROOT) -> str:
    required = requirements.required(project / "buildozer.spec")
    answer = requirements.graph(required)
    asked = [*requirements.pinned(answer["modules"], required), "pyzmq==27.3.0"]
    missing = requirements.without_wheel(asked, answer["python"])
    if len(missing) == len(asked):
        raise NotRun("no package index can be reached")
    _fail_with([f"{name} has no wheel for android_24_arm64_v8a" for name in missing])
    return f"{len(asked)} wheels for Python {answer['python']} on android_24_arm64_v8a"


def rendered_manifest(project: Path = ROOT) -> str:
    with tempfile.TemporaryDirectory() as folder:
        built = manifest.build(Path(folder) / "app", environment=_commit(0), project=project)
        _fail_with(manifest.check(built.manifest.read_text(), built.package) + manifest.drawn(built))
        later = manifest.build(Path(folder) / "later", environment=_commit(1), project=project)
        if manifest.private_version(later) == manifest.private_version(built):
            raise Failed("a later commit gives the same private_version: phones would go on running the old Python")
        files = sorted(path.relative_to(built.app).as_posix() for path in built.app.rglob("*") if path.is_file())
        expected = {"main.py", "service.py", "mobile_app", "shared", "LICENSE", "sitecustomize.py"}
        if own := _own(project):
            expected |= {FILE, *own, *(f"{name}.py" for name in own)}
            _fail_with([f"{FILE} is not in the APK"] if FILE not in files else [])
        _fail_with([f"{name} would be in the APK" for name in files if name.split("/")[0] not in expected])
        said = f"{built.package}: {len(files)} files and our own icons go into the APK; the manifest keeps every rule"
        if why := _compiler():
            return f"{said}; not compiled: {why}"
        if refused := manifest.compile_manifest(built, Path(folder) / "compiled"):
            raise Failed(f"aapt2 refuses the manifest: {refused}")
        newer = ", ".join(manifest.NEWER_THAN_29)
        return f"{said} and compiles with aapt2 against API 29 ({newer!r} is newer and was checked by rule)"


def _own(project: Path) -> set[str]:
    """The top-level modules of the app's own operators; none in Resurge's own app."""
    return requirements.own(project) if (project / FILE).is_file() else set()


def trips(folder: Path) -> Path:
    """My trips as an app of its own, made by the command a person types."""
    program = ROOT / "resurge" / "examples" / "trips" / "program.py"
    done = subprocess.run(
        [sys.executable, "-c", "from resurge.cli import main; main()", "app", "build", "--program", str(program), "--title", "My trips",
         "--id", "org.example.trips", "--output", str(folder), "--no-gate"],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Failed(done.stdout[-2000:] + done.stderr[-2000:])
    return folder


def own_app() -> str:
    with tempfile.TemporaryDirectory() as folder:
        project = trips(Path(folder) / "trips")
        said = [check(project) for check in (spec_tokens, requirement_graph, rendered_manifest, optimised)]
    return f"My trips, built by resurge app build: {'; '.join(said)}"


def _commit(seconds: int) -> dict[str, str]:
    """What a commit made so many seconds after another tells a build."""
    version = load("build_version", java.ROOT / "packaging" / "android" / "build_version.py")
    return dict(version.numbers(1_790_000_000 + seconds))


def _compiler() -> str | None:
    """Why the manifest cannot be compiled. As root on Debian the compiler is installed first."""
    why = manifest.compiler()
    if why is None or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return why
    subprocess.run(
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "aapt", "android-framework-res"],
        capture_output=True, check=False, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
    )  # fmt: skip
    return manifest.compiler()


def java_and_adapters() -> str:
    if shutil.which("javac") is None:
        raise NotRun("javac is not installed (Debian: openjdk-17-jdk-headless)")
    java.compile_classes()
    done = _pytest([sys.executable], ["tests/packaging/test_on_jvm.py"])
    return f"{len(java.sources())} classes compiled; the phone's adapters ran against the stubs: {done}"


def optimised(project: Path = ROOT) -> str:
    with tempfile.TemporaryDirectory() as folder:
        app = manifest.build(Path(folder), project=project).app
        return _device_run(pythons.Interpreter([sys.executable], "", {}), app, *_its_plan(project))


def _its_plan(project: Path) -> list[str]:
    """For an app with own operators: the plan to run them with."""
    return ["--plan", str(project / PLAN)] if _own(project) else []


def phones_python() -> str:
    try:
        interpreter, note = pythons.phones_version(BUILT), "the phone's version"
    except pythons.NotToBeHad as why:
        try:
            interpreter, note = pythons.newest_here(BUILT), f"the newest here: {why}"
        except pythons.NotToBeHad as neither:
            raise NotRun(f"{why}; {neither}") from neither
    with tempfile.TemporaryDirectory() as folder:
        said = _device_run(interpreter, manifest.build(Path(folder) / "app").app)
        project = trips(Path(folder) / "trips")
        own = manifest.build(Path(folder) / "own", project=project).app
        said += f"; My trips: {_device_run(interpreter, own, *_its_plan(project))}"
    # pytest turns the asserts of tests into plain code before -OO could take them away.
    done = _pytest([*interpreter.command, "-OO"], ["tests/mobile_app", "-W", "ignore::pytest.PytestConfigWarning"])
    return f"Python {interpreter.version} ({note}), under -OO: {said}; device tests: {done}"


def arm() -> str:
    try:
        interpreter = pythons.on_arm(BUILT)
    except pythons.NotToBeHad as why:
        raise NotRun(str(why)) from why
    with tempfile.TemporaryDirectory() as folder:
        return f"Python {interpreter.version}: " + _device_run(interpreter, manifest.build(Path(folder)).app, "--small")


def _device_run(interpreter: pythons.Interpreter, app: Path, *options: str) -> str:
    done = pythons.device_run(interpreter, app, *options)
    if done.returncode or "all parts passed" not in done.stdout:
        raise Failed(done.stdout[-2000:] + done.stderr[-2000:])
    lines = done.stdout.splitlines()
    own = "".join(f"; {line.partition(' (')[0]}" for line in lines if line.startswith(OWN_PART))
    return f"{lines[0]}; {len(lines) - 2} parts of the device run passed{own}"


def _pytest(python: list[str], arguments: list[str]) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONSAFEPATH")}
    done = subprocess.run(
        [*python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not (ui or soak or processes)", *arguments],
        cwd=java.ROOT, env=environment | {"PYTHONPATH": str(java.ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Failed(done.stdout[-4000:] + done.stderr[-1000:])
    return done.stdout.strip().splitlines()[-1]


STAGES: dict[str, Callable[..., str]] = {
    "spec": spec_tokens,
    "graph": requirement_graph,
    "wheels": wheels,
    "manifest": rendered_manifest,
    "java": java_and_adapters,
    "optimised": optimised,
    "own": own_app,
    "python": phones_python,
}
SOAK: dict[str, Callable[..., str]] = {"arm": arm}


def main() -> int:
    parser = argparse.ArgumentParser(description="Check everything about the APK that needs no SDK.")
    parser.add_argument("stages", nargs="*", help=f"some of: {', '.join([*STAGES, *SOAK])}")
    parser.add_argument("--soak", action="store_true", help="also under aarch64 emulation")
    parser.add_argument("--all-must-run", action="store_true", help="a stage that cannot run here is a failure")
    parser.add_argument("--app", type=Path, help=f"an app's project, made by resurge app build; {', '.join(OF_AN_APP)}")
    options = parser.parse_args()
    everything = STAGES | SOAK
    of_all = OF_AN_APP if options.app is not None else [*STAGES, *(SOAK if options.soak else ())]
    chosen = options.stages or of_all
    if options.app is not None and not set(chosen) <= set(OF_AN_APP):
        parser.error(f"of an app there are the stages {', '.join(OF_AN_APP)}")
    subject = () if options.app is None else (options.app.resolve(),)
    BUILT.mkdir(parents=True, exist_ok=True)
    failed, not_run = [], []
    for name in chosen:
        began = time.monotonic()
        try:
            said, verdict = everything[name](*subject), "passed"
        except NotRun as why:
            said, verdict = str(why), "not run"
            not_run.append(name)
        except Failed as why:
            said, verdict = str(why), "FAILED"
            failed.append(name)
        print(f"{name:<10} {verdict:<8} {time.monotonic() - began:6.1f} s  {said}", flush=True)
    print(f"apk-gate: {len(chosen) - len(failed) - len(not_run)} passed, {len(failed)} failed, {len(not_run)} not run")
    return 1 if failed or (not_run and options.all_must_run) else 0


if __name__ == "__main__":
    sys.exit(main())
