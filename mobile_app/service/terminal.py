"""What a node without a screen says on its terminal: each trouble once, when it begins."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from shared.plan.graph import Plan

# Health codes that a person at the terminal can do something about. The network comes and goes by itself.
CODES = frozenset(
    {"sensor-missing", "sensor-permission", "consent-needed", "rows-unreadable", "recording-over", "rows-late",
     "all-filtered", "sensor-overrun", "results-malformed", "spool-full", "storage-low", "storage-full"}
)  # fmt: skip


class Terminal:
    """Given every plan that begins and every view that the node publishes; says what is new in it."""

    def __init__(self, say: Callable[[str], None], named: Iterable[str] = ()) -> None:
        """`named` are the sensors that `--sensor` gave a source for."""
        self._say = say
        self._named = tuple(named)
        self._now: set[str] = set()
        self._unknown: list[str] = []

    def begin(self, plan: Plan) -> None:
        """This plan runs from now on."""
        unknown = unknown_sensors(plan, self._named)
        for sentence in unknown:
            if sentence not in self._unknown:
                self._say(sentence)
        self._unknown = unknown

    def show(self, view: Mapping[str, Any]) -> None:
        lines = {entry["code"]: f"{entry['what']} [{entry['code']}]" for entry in view["health"] if not entry["over"]}
        lines = {code: line for code, line in lines.items() if code in CODES}
        for sensor, columns in view["empty_columns"].items():
            lines[f"{sensor} columns"] = f"{sensor}: its source has no {', '.join(columns)}; they are empty (NaN)"
        for key, line in lines.items():
            if key not in self._now:
                self._say(line)
        self._now = set(lines)


def unknown_sensors(plan: Plan, named: Iterable[str]) -> list[str]:
    """A sentence for every source that was given for a sensor which the program does not read."""
    wanted = sorted({sensor.name for sensor in plan.sensors})
    sentences = []
    for name in named:
        if name not in wanted:
            near = difflib.get_close_matches(name, wanted, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            sentences.append(
                f"--sensor {name}: the program reads no sensor of this name (it reads: {', '.join(wanted)}){hint}"
            )
    return sentences
