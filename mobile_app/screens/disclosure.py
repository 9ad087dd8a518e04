"""What is said before Android is asked for positions in the background: what for, where they go, and how to end it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mobile_app.screens.widgets.controls import PushButton
from mobile_app.screens.widgets.sheets import Sheet, buttons
from mobile_app.screens.widgets.text import Text

if TYPE_CHECKING:
    from mobile_app.app import ResurgeApp

BACKGROUND = "background location"  # as `missing_permissions` calls it
WORDS = (
    "Resurge collects location data to record your way and to compute what the plans you allowed ask for, even when "
    "the app is closed or not in use.",
    "Positions stay on this phone. If you pair it with a gateway, what a plan reads goes there, and nowhere else. They "
    "are not used for advertising.",
    "Android asks next: choose “Allow all the time”. Without it positions are recorded only while the app is "
    "open. You can take it back in Setup or in Android’s settings at any time.",
)


class BackgroundLocation(Sheet):
    def __init__(self, app: ResurgeApp) -> None:
        def go_on() -> None:
            self.dismiss()
            app.around.ask_permission(BACKGROUND)

        super().__init__(
            "Positions while the app is closed", "", *(Text(words, colour="soft") for words in WORDS),
            buttons(PushButton("Not now", self.dismiss, kind="outlined"), PushButton("Continue", go_on)),
        )  # fmt: skip


def offer_background(app: ResurgeApp) -> None:
    """After positions were allowed: say it, if Android has not been asked yet."""
    if any(one["name"] == BACKGROUND for one in app.around.missing_permissions(["gps"])):
        app.open_sheet(BackgroundLocation(app))
