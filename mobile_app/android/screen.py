"""What the app asks of the phone around it. All of it is quick and may be called from the screen's thread."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from jnius import JavaException, autoclass, cast

from mobile_app.android import permissions
from mobile_app.android.context import api_level, context, granted
from mobile_app.android.power import ask_for_exemption, exempt_from_saving

DATA = "data"
SHARED = "shared"
INSETS_API = 30
LAUNCHED_FROM_HISTORY = 0x00100000  # Intent.FLAG_ACTIVITY_LAUNCHED_FROM_HISTORY


def home() -> Path:
    """Where the node keeps everything. Not under `app`, which an update replaces."""
    return Path(os.environ["ANDROID_PRIVATE"]) / DATA


def dark_mode() -> bool:
    configuration = autoclass("android.content.res.Configuration")
    mode = context().getResources().getConfiguration().uiMode
    return bool((mode & configuration.UI_MODE_NIGHT_MASK) == configuration.UI_MODE_NIGHT_YES)


def insets() -> tuple[int, int, int, int]:
    """(left, top, right, bottom) in pixels that bars and the camera's cutout take of what we draw on."""
    if api_level() < INSETS_API:
        return (0, 0, 0, 0)
    here = context().getWindow().getDecorView().getRootWindowInsets()
    if here is None:
        return (0, 0, 0, 0)
    kinds = autoclass("android.view.WindowInsets$Type")
    space = here.getInsets(kinds.systemBars() | kinds.displayCutout())
    window = context().getWindow().getDecorView()
    left, top, right, bottom = _activity().surfaceBounds()
    # Before Android 15 the system keeps what we draw on clear of the bars itself; only what reaches under them counts.
    return (
        max(0, int(space.left) - left),
        max(0, int(space.top) - top),
        max(0, int(space.right) - (window.getWidth() - right)),
        max(0, int(space.bottom) - (window.getHeight() - bottom)),
    )


def show_bars(*, light_page: bool) -> None:
    """Icons in the system's bars that can be seen on what the app draws under them."""
    _activity().showBars(light_page)


def _activity() -> Any:
    return cast("org.resurge.phone.MainActivity", context())


def start_service(_home: Path | None = None) -> None:
    """Start the service, from the visible app; one that runs takes no notice."""
    here = context()
    autoclass(f"{here.getPackageName()}.ServiceNode").start(here, "", "", "Starting", "app")


def pairing_link() -> str:
    """The resurge:// link that opened the app, once; empty when it was opened otherwise.

    The intent that started the app stays its intent, so what was taken is taken out of it. An app opened from the list
    of recent ones gets it again as it was: that link has been used, or the person left it.
    """
    intent = context().getIntent()
    data = None if intent is None or intent.getFlags() & LAUNCHED_FROM_HISTORY else intent.getData()
    link = "" if data is None else str(data.toString())
    if not link.startswith("resurge://"):
        return ""
    intent.setData(None)
    return link


def on_pairing_link(then: Callable[[str], None]) -> None:
    """Call back when a link opens the app while it is open already: Android then brings a new intent."""
    from android import activity

    def came(intent: Any) -> None:
        data = intent.getData()
        if data is not None and str(data.toString()).startswith("resurge://"):
            then(str(data.toString()))

    activity.bind(on_new_intent=came)


def share(path: str, mime: str) -> None:
    """Offer a file to other apps. A copy is shared, so that the export may be deleted while it is read."""
    folder = Path(os.environ["ANDROID_PRIVATE"]) / SHARED
    folder.mkdir(exist_ok=True)
    copy = folder / Path(path).name
    shutil.copyfile(path, copy)
    intent_class, uri_class = autoclass("android.content.Intent"), autoclass("android.net.Uri")
    intent = intent_class(intent_class.ACTION_SEND)
    intent.setType(mime)
    uri = uri_class.parse(f"content://{context().getPackageName()}.exports/{copy.name}")
    intent.putExtra(intent_class.EXTRA_STREAM, cast("android.os.Parcelable", uri))
    intent.addFlags(intent_class.FLAG_GRANT_READ_URI_PERMISSION)
    title = cast("java.lang.CharSequence", autoclass("java.lang.String")("Share"))
    context().startActivity(intent_class.createChooser(intent, title))


def open_settings(what: str) -> None:
    """`battery`: Android's question about saving; `permissions`: this app's page in the settings."""
    if what == "battery":
        ask_for_exemption()
        return
    settings, intent_class, uri_class = (
        autoclass(name) for name in ("android.provider.Settings", "android.content.Intent", "android.net.Uri")
    )
    intent = intent_class(settings.ACTION_APPLICATION_DETAILS_SETTINGS)
    intent.setData(uri_class.parse(f"package:{context().getPackageName()}"))
    context().startActivity(intent)


# --- permissions -----------------------------------------------------------------------------------------------


def asking(sensors: Collection[str], names: Collection[str] = permissions.NAMES) -> permissions.Asking:
    """Where this phone stands now."""
    held = {name for step in permissions.STEPS for name in step.permissions if _holds(name)}
    return permissions.Asking(api_level(), sensors, held, names)


def _holds(permission: str) -> bool:
    return exempt_from_saving() if permission == permissions.BATTERY_EXEMPTION else granted(permission)


def missing_permissions(sensors: Collection[str]) -> list[dict[str, str]]:
    """What is not allowed now: name, why, and how to allow it (`ask` or `settings`)."""
    return asking(sensors).closed()


def ask_permissions(then: Callable[[], None], sensors: Collection[str], names: Collection[str]) -> None:
    """Ask for those of these steps that the sensors need, in Android's order. `then` may run on any thread."""
    from android.permissions import request_permissions

    state = asking(sensors, names)

    def go_on() -> None:
        step = state.next()
        if step is None:
            then()
            return
        if step.permissions == (permissions.BATTERY_EXEMPTION,):
            ask_for_exemption()  # its answer is not told; the health page sees it
            state.answer(step, {})
            go_on()
            return

        def answered(names: list[str], answers: list[bool]) -> None:
            state.answer(step, dict(zip(names, answers, strict=True)), dialog_shown=_may_ask_again(names))
            go_on()

        request_permissions(list(step.permissions), answered)

    go_on()


def _may_ask_again(names: Collection[str]) -> bool:
    """After a no Android would explain itself before asking again, unless the no was for good."""
    try:
        return any(context().shouldShowRequestPermissionRationale(name) for name in names)
    except (JavaException, AttributeError):  # the service's context has no screen to show it on
        return True


def vibrate(seconds: float = 0.05) -> None:
    """A short touch, for a marker set without looking."""
    from mobile_app.android.plyer_device import vibrate as shake

    shake(seconds)
