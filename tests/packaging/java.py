"""Our Java, python-for-android's own service class and the service it generates, compiled against stubs of Android."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
from pathlib import Path
from types import SimpleNamespace

import jinja2

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "packaging" / "android" / "java"
STUBS = Path(__file__).with_name("android_stubs.txt")
BUILT = ROOT / ".resurge" / "apk-gate"
P4A_CLASSES = ("PythonService", "PythonUtil")
SERVICE_CLASS = "org.resurge.phone.RecordingService"


def p4a_folder() -> Path:
    found = importlib.util.find_spec("pythonforandroid")
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError("python-for-android is not installed; `make setup` does it")
    return Path(found.submodule_search_locations[0])


def stub_files() -> dict[str, str]:
    """{path: source} of the stubs."""
    parts = STUBS.read_text(encoding="utf-8").split("\n=== ")[1:]
    return {part.partition("\n")[0].strip(): part.partition("\n")[2] for part in parts}


def generated_service(package: str = "org.resurge.phone") -> str:
    """What python-for-android's template makes of the spec's service line, in the app's own package."""
    template = p4a_folder() / "bootstraps" / "common" / "build" / "templates" / "Service.tmpl.java"
    args = SimpleNamespace(package=package, name="Resurge", service_class_name=SERVICE_CLASS)
    return jinja2.Template(template.read_text()).render(
        args=args, name="Node", entrypoint="service.py", foreground=True, sticky=True, service_id=1,
        base_service_class=SERVICE_CLASS.rpartition(".")[2],
    )  # fmt: skip


def sources() -> dict[str, str]:
    service = p4a_folder() / "bootstraps" / "common" / "build" / "src" / "main" / "java" / "org" / "kivy" / "android"
    ours = {path.relative_to(OURS).as_posix(): path.read_text() for path in sorted(OURS.rglob("*.java"))}
    return {
        **stub_files(),
        **ours,
        **{f"org/kivy/android/{name}.java": (service / f"{name}.java").read_text() for name in P4A_CLASSES},
        "org/resurge/phone/ServiceNode.java": generated_service(),
        # An app with another id: its service is in a package of its own and must reach ours.
        "org/example/walks/ServiceNode.java": generated_service("org.example.walks"),
    }


def compile_classes() -> Path:
    """The folder of compiled classes; compiled again only when a source changed."""
    files = sources()
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    classes = BUILT / f"classes-{digest}"
    if classes.is_dir():
        return classes
    written = BUILT / f"java-{digest}"
    for name, text in files.items():
        (written / name).parent.mkdir(parents=True, exist_ok=True)
        (written / name).write_text(text)
    making = BUILT / f"making-{digest}"
    # Release 11 is more than Android needs and less than this JDK: nothing newer than the phone slips in.
    command = ["javac", "-nowarn", "-source", "11", "-target", "11", "-d", str(making)]
    done = subprocess.run(
        [*command, *(str(written / name) for name in files)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"javac: {done.stderr}")
    making.rename(classes)
    return classes
