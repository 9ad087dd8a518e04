"""Which permission to ask for next, and what stays closed when a person says no. Pure: screen.py does the asking.

The order is Android's, not ours:

    notifications       13 and later; without them the recording is invisible, not impossible
    location            precise and coarse in one dialog; a person may choose the coarse one
    background          10 and later, only when location is there; from 11 on in a dialog of its own (it leads to the
                        settings), or Android refuses both
    activity            10 and later: steps
    microphone          only for its own sensor, and only while the app is on the screen
    battery exemption   no permission but a question, last: it makes sense only once there is something to run

Each is asked where it is needed, not all at the start: notifications when a person starts the recorder, a sensor's own
with its consent, positions in the background after a screen that says what for, the battery question from Health.

Every step is asked once a visit. A no is respected: what it closes is named, the rest goes on. A permission that
was refused for good cannot be asked for again; then the way leads through the settings.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

PREFIX = "android.permission."
NOTIFICATIONS = PREFIX + "POST_NOTIFICATIONS"
FINE = PREFIX + "ACCESS_FINE_LOCATION"
COARSE = PREFIX + "ACCESS_COARSE_LOCATION"
BACKGROUND = PREFIX + "ACCESS_BACKGROUND_LOCATION"
ACTIVITY = PREFIX + "ACTIVITY_RECOGNITION"
MICROPHONE = PREFIX + "RECORD_AUDIO"
BATTERY_EXEMPTION = "battery exemption"


@dataclass(frozen=True, slots=True)
class PermissionStep:
    """One question to the person."""

    name: str  # what the screens call it
    permissions: tuple[str, ...]
    why: str
    from_api: int = 1
    sensors: tuple[str, ...] = ()  # asked only when one of these is wanted; none: always
    after: str = ""  # the step that must have been granted before
    any_of: bool = False  # one of the permissions is enough


STEPS = (
    PermissionStep("notifications", (NOTIFICATIONS,), "shows that the recorder runs, and when it stops", from_api=33),
    PermissionStep("location", (FINE, COARSE), "positions on your recordings",
                   sensors=("gps", "cell", "wifi"), any_of=True),
    PermissionStep(
        "background location", (BACKGROUND,), "positions while the screen is off, and after a restart of the phone",
        from_api=29, sensors=("gps",), after="location",
    ),
    PermissionStep("activity", (ACTIVITY,), "counting steps", from_api=29, sensors=("steps",)),
    PermissionStep("microphone", (MICROPHONE,), "how loud it is; sound itself is never kept", sensors=("microphone",)),
    PermissionStep("battery exemption", (BATTERY_EXEMPTION,),
                   "keeps Android from stopping a recording to save battery"),
)  # fmt: skip


NAMES = tuple(step.name for step in STEPS)
WITH_CONSENT = ("location", "activity", "microphone")  # what a sensor needs to be read at all


@dataclass(slots=True)
class Asking:
    """One visit through the steps. `granted` is what the phone says now; answers are added as they come."""

    api_level: int
    sensors: Collection[str]
    granted: set[str]
    names: Collection[str] = NAMES  # the steps that are asked in this visit
    asked: set[str] = field(default_factory=set)
    for_good: set[str] = field(default_factory=set)  # refused so that Android shows no dialog any more

    def holds(self, step: PermissionStep) -> bool:
        if self.api_level < step.from_api:
            return True
        held = [permission in self.granted for permission in step.permissions]
        return any(held) if step.any_of else all(held)

    def applies(self, step: PermissionStep) -> bool:
        """Whether this phone and these sensors need the step at all."""
        wanted = not step.sensors or any(sensor in self.sensors for sensor in step.sensors)
        return wanted and self.api_level >= step.from_api

    def next(self) -> PermissionStep | None:
        """The next question, or None when there is none left to ask."""
        for step in STEPS:
            if step.name not in self.names or not self.applies(step) or self.holds(step) or step.name in self.asked:
                continue
            before = next((other for other in STEPS if other.name == step.after), None)
            if before is not None and not self.holds(before):
                continue
            return step
        return None

    def answer(self, step: PermissionStep, answers: Mapping[str, bool], *, dialog_shown: bool = True) -> None:
        """Take a person's answer. Without a dialog Android answered by itself: refused for good, earlier."""
        self.asked.add(step.name)
        for permission, yes in answers.items():
            (self.granted.add if yes else self.granted.discard)(permission)
        if not dialog_shown and not self.holds(step):
            self.for_good.add(step.name)

    def closed(self) -> list[dict[str, str]]:
        """What is not allowed now: the step's name, what it would be good for, and how to allow it."""
        return [
            {"name": step.name, "why": step.why, "how": "settings" if step.name in self.for_good else "ask"}
            for step in STEPS
            if self.applies(step) and not self.holds(step)
        ]
