"""The foreground service: the node in a process of its own, so that closing or crashing the app costs no reading.

RecordingService (Java) has put the process into the foreground before this runs. Here the processor is kept awake,
the node runs until a person stops it, and the notification tells what it does. A file says "go on after a restart"
from the start until a person's stop: BootReceiver looks for it. A kill leaves it there, and is safe (section 6 of the
design: the spool is crash-safe).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mobile_app.android.notice import SHOW_EVERY_S, notice
from mobile_app.headless import RunOptions, run
from shared.errors import ResurgeError

DATA = "data"
RESUME_FILE = "resume-after-boot"  # also named in BootReceiver.java

Show = Callable[[str, str], None]  # title and text of the notification


class LiveNotice:
    """Shows what the node's view says, when it says something new, a few seconds apart."""

    def __init__(self, show: Show, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._show = show
        self._clock = clock
        self._text: tuple[str, str] | None = None
        self._next = 0.0

    def __call__(self, view: Mapping[str, Any]) -> None:
        now, text = self._clock(), notice(view)
        if text != self._text and now >= self._next:
            self._text, self._next = text, now + SHOW_EVERY_S
            self._show(*text)


def serve(files: Path, show: Show, *, stop: threading.Event | None = None, say: Callable[[str], None] = print) -> None:
    """Run the node of this app's files until it is told to end. What ends it otherwise stands in the notification."""
    resume = files / RESUME_FILE
    resume.touch()
    try:
        run(RunOptions(home=files / DATA, stop=stop, signals=False, say=say, on_view=LiveNotice(show)))
    except ResurgeError as error:
        show("Recording stopped", str(error))
        raise
    resume.unlink(missing_ok=True)


def main() -> None:
    from mobile_app.android.power import WakeLock
    from mobile_app.android.screen import show_status

    awake = WakeLock()
    try:
        serve(Path(os.environ["ANDROID_PRIVATE"]), show_status)
    finally:
        awake.release()
