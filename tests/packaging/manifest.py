"""The manifest that python-for-android renders from our spec: rules it must keep, and aapt2's compiler where it is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.packaging import spec
from tests.packaging.java import ROOT

ANDROID = "{http://schemas.android.com/apk/res/android}"
FRAMEWORK = Path("/usr/share/android-framework-res/framework-res.apk")  # Debian's, of API 29
# What API 29's framework does not know yet.
NEWER_THAN_29 = {"location|health": "location", 'android:enableOnBackInvokedCallback="true"': ""}


@dataclass(frozen=True, slots=True)
class Built:
    """What the SDK-free steps of the build left."""

    app: Path
    manifest: Path
    resources: Path
    service: Path
    command: list[str]
    package: str


def build(
    folder: Path, mode: str = "debug", environment: Mapping[str, str] | None = None, project: Path = ROOT
) -> Built:
    """The steps of a build of the project in this folder: Resurge's own app, or one with own operators."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.packaging.build_steps", str(folder), mode, str(project)],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)} | dict(environment or {}), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:] or done.stdout[-3000:])
    answer = json.loads(done.stdout.splitlines()[-1])
    main = Path(answer["dist"]) / "src" / "main"
    package = spec.package(project / "buildozer.spec")
    service = main / "java" / Path(*package.split(".")) / "ServiceNode.java"
    return Built(Path(answer["app"]), main / "AndroidManifest.xml", main / "res", service, answer["command"], package)


def private_version(built: Built) -> str:
    """The key by which a phone decides whether the app's Python has to be unpacked again."""
    strings = ElementTree.parse(built.resources / "values" / "strings.xml").getroot()
    return next(entry.text or "" for entry in strings if entry.get("name") == "private_version")


def numeric_version(built: Built) -> int:
    root = ElementTree.fromstring(built.manifest.read_text())
    return int(root.get(ANDROID + "versionCode", "0"))


def check(manifest: str, package: str = "org.resurge.phone") -> list[str]:
    """What is wrong with the rendered manifest; empty when nothing is."""
    root = ElementTree.fromstring(manifest)
    sdk, application = root.find("uses-sdk"), root.find("application")
    if sdk is None or application is None:
        return ["the manifest has no <uses-sdk> or no <application>"]
    wrong = []

    def expect(element: ElementTree.Element, name: str, value: str) -> None:
        if element.get(ANDROID + name) != value:
            wrong.append(f"{element.tag} {name} is {element.get(ANDROID + name)!r}, expected {value!r}")

    expect(sdk, "minSdkVersion", "24")
    expect(sdk, "targetSdkVersion", "36")
    expect(application, "allowBackup", "false")
    expect(application, "enableOnBackInvokedCallback", "true")
    activities = [element.get(ANDROID + "name") for element in application.findall("activity")]
    if activities != ["org.resurge.phone.MainActivity"]:
        wrong.append(f"the activities are {activities}")
    services = {element.get(ANDROID + "name"): element for element in application.findall("service")}
    if set(services) != {f"{package}.ServiceNode"}:
        return [*wrong, f"the services are {sorted(map(str, services))}"]
    service = services[f"{package}.ServiceNode"]
    expect(service, "foregroundServiceType", "location|health")
    expect(service, "process", ":service_Node")
    for element in application:
        filtered = element.find("intent-filter") is not None
        if (
            element.tag in ("activity", "receiver", "provider")
            and element.get(ANDROID + "exported") is None
            and filtered
        ):
            wrong.append(f"{element.get(ANDROID + 'name')} has a filter but does not say whether it is exported")
    components = {(element.tag, element.get(ANDROID + "name")): element for element in application}
    for kind, name in (("receiver", "BootReceiver"), ("receiver", "Wakes"), ("provider", "ExportProvider")):
        component = components.get((kind, f"org.resurge.phone.{name}"))
        if component is None:
            wrong.append(f"the hook did not add the {kind} {name}")
        else:
            expect(component, "exported", "false")
        if component is not None and kind == "provider":
            expect(
                component, "authorities", f"{package}.exports"
            )  # two apps with one authority cannot both be installed
    wakes = components.get(("receiver", "org.resurge.phone.Wakes"))
    if wakes is not None:
        expect(wakes, "process", ":service_Node")  # it wakes the loop, which is there
    held = {element.get(ANDROID + "name") for element in root.findall("uses-permission")}
    for kind in ("LOCATION", "HEALTH"):
        if f"android.permission.FOREGROUND_SERVICE_{kind}" not in held:
            wrong.append(f"a service of type {kind.lower()} needs FOREGROUND_SERVICE_{kind}")
    schemes = {data.get(ANDROID + "scheme") for data in application.iter("data")}
    if "resurge" not in schemes:
        wrong.append("no intent filter for resurge:// links")
    return wrong


def drawn(built: Built) -> list[str]:
    """What of our own pictures did not get into the APK's resources; empty when nothing is missing."""
    wanted = {"drawable/notice.xml": None, "mipmap/icon.png": "icon", "mipmap/icon_foreground.png": "foreground",
              "mipmap/icon_background.png": "background", "drawable/presplash.jpg": "presplash"}  # fmt: skip
    wrong = []
    for name, art in wanted.items():
        path = built.resources / name
        ours = (
            ROOT / "packaging" / "android" / ("res" if art is None else "art") / (name if art is None else f"{art}.png")
        )
        if not path.is_file() or path.read_bytes() != ours.read_bytes():
            wrong.append(f"res/{name} is not {ours.name}")
    return wrong


def compiler() -> str | None:
    """Why the manifest cannot be compiled here; None when it can."""
    if shutil.which("aapt2") is None:
        return "aapt2 is not installed (Debian: aapt)"
    return None if FRAMEWORK.is_file() else f"no framework resources at {FRAMEWORK} (Debian: android-framework-res)"


def compile_manifest(built: Built, folder: Path) -> str:
    """Compile manifest and resources as a build would; aapt2's words when it refuses, else empty.

    The framework here is of API 29. What is newer was put in by hand above and is taken out for the compiler.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = built.manifest.read_text().replace("<manifest ", f'<manifest package="{built.package}" ', 1)
    for newer, known in NEWER_THAN_29.items():
        text = text.replace(newer, known)
    (folder / "AndroidManifest.xml").write_text(text)
    resources = str(folder / "resources.zip")
    for command in (
        ["aapt2", "compile", "--dir", str(built.resources), "-o", resources],
        ["aapt2", "link", "-I", str(FRAMEWORK), "--manifest", str(folder / "AndroidManifest.xml"),
         "-o", str(folder / "out.apk"), resources],
    ):  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr or done.stdout
    return ""
