"""The foreground service: the node in a process of its own, so that closing or crashing the app costs no reading.

RecordingService (Java) has put the process into the foreground before this runs. Here the node runs until a person
stops it, the processor sleeps when it may (mobile_app/node/rest.py), and the notification tells what it does. A file
says "go on after a restart" from the start until a person's stop: BootReceiver looks for it. A kill leaves it there,
and is safe (section 6 of the design: the spool is crash-safe).

Whatever ends the node ends the service: a sticky service that came back by itself would meet the same defect again, and
again, and its notification would vanish each time. What ended it is said in a notification that stays, and in Health.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mobile_app.android.notice import SHOW_EVERY_S, notice
from mobile_app.headless import RunOptions, run
from mobile_app.home.crashes import note_crash, watch_for_crashes
from mobile_app.home.files import RESUME_FILE
from mobile_app.node.rest import OnBattery, Rest
from mobile_app.node.results import Ring
from mobile_app.service.connection import ServiceClient
from shared.errors import ResurgeError

DATA = "data"
POSITIONS_FILE = "reads-positions"  # also named in RecordingService.java

Show = Callable[[str, str], None]  # title and text of the notification


class LiveNotice:
    """Shows what the node's view says, when it says something new, a few seconds apart.

    Beside the service's files lies a mark while positions may be read: Java then takes the foreground type `location`,
    and otherwise does not claim to need it.
    """

    def __init__(self, show: Show, mark: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._show = show
        self._mark = mark
        self._clock = clock
        self._text: tuple[str, str] | None = None
        self._next = 0.0

    def __call__(self, view: Mapping[str, Any]) -> None:
        now, text = self._clock(), notice(view)
        positions = bool(view.get("consents", {}).get("gps"))  # for plans or for recordings alone
        changed = positions != self._mark.exists()
        if changed:
            self._mark.touch() if positions else self._mark.unlink()
        if changed or (text != self._text and now >= self._next):
            self._text, self._next = text, now + SHOW_EVERY_S
            self._show(*text)


def serve(
    files: Path, show: Show, *, stop: threading.Event | None = None, say: Callable[[str], None] = print,
    rest: Rest | None = None, ring: Callable[[Ring], None] | None = None,
) -> None:  # fmt: skip
    """Run the node of this app's files until it is told to end, or has nothing to do."""
    resume = files / RESUME_FILE
    resume.touch()
    live = LiveNotice(show, files / POSITIONS_FILE)
    options = RunOptions(home=files / DATA, stop=stop, signals=False, say=say, on_view=live, end_unused=True)
    options = replace(options, on_alert=ring)
    run(options if rest is None else replace(options, rest=rest))
    resume.unlink(missing_ok=True)


def ask_to_stop(home: Path, stop: threading.Event) -> None:
    """End the node as the app's own button does: over the socket, which also wakes a loop that sleeps."""
    stop.set()
    try:
        client = ServiceClient.open(home)
        client.do("stop")
        client.close()
    except ResurgeError:
        pass  # it has not begun to listen, and sees `stop` when it does


def main() -> None:
    from mobile_app.android import recording_service
    from mobile_app.android.rest import PhoneSleep

    files = Path(os.environ["ANDROID_PRIVATE"])
    home, stop = files / DATA, threading.Event()
    watch_for_crashes(home, "service")
    asking = threading.Thread(target=ask_to_stop, args=(home, stop), name="stop")
    recording_service.on_stop_asked(asking.start)
    phone = PhoneSleep()
    try:
        serve(files, recording_service.show_status, stop=stop, rest=OnBattery(phone), ring=recording_service.ring)
    except ResurgeError as error:
        recording_service.end_with("Recording stopped", f"{error}. Open the app to start it again.")
    except Exception as error:
        note_crash(home, "service", error)
        recording_service.end_with(
            "Recording stopped by a defect", f"{type(error).__name__}: {error}. Open the app: Health has the report."
        )
    else:
        recording_service.end()
    finally:
        phone.close()
