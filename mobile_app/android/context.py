"""The Android object everything is asked of: the service in the service's process, the activity in the app's."""

from __future__ import annotations

import os
from typing import Any

from jnius import autoclass, cast

GRANTED = 0  # PackageManager.PERMISSION_GRANTED


def context() -> Any:
    """This process's android.content.Context."""
    if "PYTHON_SERVICE_ARGUMENT" in os.environ:
        return autoclass("org.kivy.android.PythonService").mService
    return autoclass("org.kivy.android.PythonActivity").mActivity


def system_service(name: str, kind: str) -> Any:
    """A system service, as the class it really is: `system_service("sensor", "android.hardware.SensorManager")`."""
    return cast(kind, context().getSystemService(name))


def api_level() -> int:
    return int(autoclass("android.os.Build$VERSION").SDK_INT)


def granted(permission: str) -> bool:
    """Whether we hold this permission now. A person can take it away at any time."""
    return bool(context().checkSelfPermission(permission) == GRANTED)
