"""buildozer.spec, read by buildozer's own parser, and the rules it must keep. A rule broken is a sentence."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from tests.packaging.java import ROOT

SPEC = ROOT / "buildozer.spec"
P4A_TAG = "v2026.05.09"

# What must be so, and why it would hurt otherwise: docs/android.md.
FIXED = {
    "android.api": "36",
    "android.minapi": "24",
    "android.ndk_api": "24",
    "android.ndk": "28c",
    "android.archs": "arm64-v8a",
    "android.allow_backup": "False",
    "android.wakelock": "False",
    "p4a.branch": P4A_TAG,
    "p4a.hook": "packaging/android/hook.py",
    "p4a.local_recipes": "packaging/android/recipes",
    "android.entrypoint": "org.resurge.phone.MainActivity",
    "android.service_class_name": "org.resurge.phone.RecordingService",
}
NEEDED_PERMISSIONS = {
    "INTERNET", "ACCESS_NETWORK_STATE", "CHANGE_WIFI_MULTICAST_STATE", "ACCESS_COARSE_LOCATION",
    "ACCESS_FINE_LOCATION", "ACCESS_BACKGROUND_LOCATION",
    "FOREGROUND_SERVICE", "FOREGROUND_SERVICE_LOCATION", "FOREGROUND_SERVICE_HEALTH", "POST_NOTIFICATIONS",
    "HIGH_SAMPLING_RATE_SENSORS", "ACTIVITY_RECOGNITION", "RECORD_AUDIO", "VIBRATE", "WAKE_LOCK",
    "RECEIVE_BOOT_COMPLETED", "REQUEST_IGNORE_BATTERY_OPTIMIZATIONS",
}  # fmt: skip
FOREGROUND_TYPES = {"location", "health"}
ART = {"icon.filename": (512, 512), "icon.adaptive_foreground.filename": (432, 432),
       "icon.adaptive_background.filename": (432, 432), "presplash.filename": (720, 1280)}  # fmt: skip
PATHS = ("p4a.hook", "p4a.local_recipes", "android.add_src", "android.add_resources", "android.manifest.intent_filters")


def load(path: Path = SPEC) -> Any:
    """The spec as buildozer sees it, without the environment variables that can override it."""
    from buildozer.specparser import SpecParser

    hidden = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(("APP_", "BUILDOZER_"))}
    try:
        parser = SpecParser()
        parser.read(str(path))
    finally:
        os.environ.update(hidden)
    return parser


def _art(app: dict[str, str], root: Path) -> list[str]:
    """Without these the APK has Kivy's icon; an adaptive part of another size is cut in the wrong places."""
    from PIL import Image

    wrong = []
    for key, size in ART.items():
        path = root / app.get(key, "?")
        if not path.is_file():
            wrong.append(f"{key} names {app.get(key)!r}, which is not there")
            continue
        with Image.open(path) as picture:
            if picture.size != size:
                wrong.append(f"{path.name} is {picture.size}, it must be {size}")
    return wrong


def known_keys() -> set[str]:
    """Every key that buildozer's code or its template spec names."""
    import buildozer

    folder = Path(buildozer.__file__).parent
    template = (folder / "default.spec").read_text()
    keys = set(re.findall(r"^#?\s?([a-z0-9_.]+[a-z0-9_-]*) ?=", template, re.M))
    for source in folder.rglob("*.py"):
        keys |= set(re.findall(r"""['"](?:app|buildozer)['"],\s*['"]([a-z0-9_.-]+)['"]""", source.read_text()))
    return keys


def check(path: Path = SPEC, root: Path = ROOT) -> list[str]:
    """What is wrong with the spec of the project in `root`; empty when nothing is."""
    parser, known = load(path), known_keys()
    app = dict(parser.items("app"))
    wrong = [f"{key!r} is no key of buildozer's: a typing error would be ignored silently"
             for section in parser.sections() for key in dict(parser.items(section)) if key not in known]  # fmt: skip
    for key, value in FIXED.items():
        if app.get(key) != value:
            wrong.append(f"{key} is {app.get(key)!r}, it must be {value!r}")
    if not re.fullmatch(r"[0-9a-f]{40}", app.get("p4a.commit", "")):
        wrong.append("p4a.commit must be a full commit, or the build changes by itself")
    for key in PATHS:
        if not (root / app.get(key, "?")).exists():
            wrong.append(f"{key} names {app.get(key)!r}, which is not there")
    wrong += _art(app, root)
    permissions = set(parser.getlist("app", "android.permissions", []))
    wrong += [f"permission {name} is missing" for name in sorted(NEEDED_PERMISSIONS - permissions)]
    wrong += [f"permission {name} is asked for in vain" for name in sorted(permissions - NEEDED_PERMISSIONS)]
    return wrong + _check_services(parser, root)


def package(path: Path = SPEC) -> str:
    """What Android calls the app."""
    parser = load(path)
    return f"{parser.get('app', 'package.domain')}.{parser.get('app', 'package.name')}"


def _check_services(parser: Any, root: Path) -> list[str]:
    services = parser.getlist("app", "services", [])
    if len(services) != 1:
        return [f"{len(services)} services, there must be one"]
    name, entry, *options = services[0].split(":")
    wrong = [] if name == "Node" else ["the service must be Node: BootReceiver.java starts ServiceNode"]
    if not (root / entry).is_file():
        wrong.append(f"the service's entry {entry!r} is not there")
    if f"{name}:" not in parser.get("app", "android.logcat_filters"):
        wrong.append(f"android.logcat_filters hides {name}: what the service's Python says is logged under its name")
    kinds = next((option.partition("=")[2] for option in options if option.startswith("foregroundServiceType=")), "")
    if not {"foreground", "sticky"} <= set(options):
        wrong.append("the service must be foreground and sticky")
    if set(kinds.split("|")) != FOREGROUND_TYPES:
        wrong.append(f"the service's types are {kinds!r}; RecordingService chooses between location and health")
    return wrong
