"""What this process runs on. It decides which sensors are there and who keeps the node alive."""

from __future__ import annotations

import os
from collections.abc import Mapping

ANDROID_SERVICE = "android-service"
ANDROID_APP = "android-app"
TERMUX = "termux"
DESKTOP = "desktop"


def host(environment: Mapping[str, str] | None = None) -> str:
    """One of the four names above. python-for-android sets its variables before any of our code runs."""
    given = os.environ if environment is None else environment
    if "PYTHON_SERVICE_ARGUMENT" in given:
        return ANDROID_SERVICE
    if "ANDROID_ARGUMENT" in given:
        return ANDROID_APP
    if "TERMUX_VERSION" in given or "com.termux" in given.get("PREFIX", ""):
        return TERMUX
    return DESKTOP
