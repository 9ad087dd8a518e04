"""One person's phone, as a process: `python -m resurge.examples.trips.phone HOME`.

It is the headless node that everybody runs; this file only sets its clock, so that all phones of a run live in the
same event time from a common moment on, and turns the outages of the story into seconds of this process.
`HOME/story.json` holds both.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mobile_app.clock import Anchor, boot_id, boot_time_us, wall_time_us
from mobile_app.headless import RunOptions, run
from mobile_app.sensors.choose import parse_choices
from mobile_app.storage import write_durably

STORY = "story.json"
SECOND = 1_000_000


def main() -> None:
    home = Path(sys.argv[1])
    story: dict[str, Any] = json.loads((home / STORY).read_bytes())
    speed, begin_us = story["speed"], story["begin_boot_us"]
    if not (home / "clock.json").exists():
        anchor = Anchor(
            boot_id=boot_id(), at_boot_us=begin_us, at_wall_us=wall_time_us() + begin_us - boot_time_us(),
            at_event_us=story["base_us"], uncertainty_us=0, speed=speed, origin_us=story["origin_us"],
        )  # fmt: skip
        write_durably(home / "clock.json", json.dumps(asdict(anchor)).encode())
    began_s = (begin_us - boot_time_us()) / SECOND
    spans = []
    for start_us, end_us in story["outages"]:
        start_s = began_s + (start_us - story["base_us"]) / SECOND / speed
        spans.append(f"{max(0.0, start_s):.3f}+{(end_us - start_us) / SECOND / speed:.3f}")
    account = run(
        RunOptions(
            home=home, link=story["link"], sensors=parse_choices(story["sensors"]), outages=",".join(spans),
            speed=speed, say=_say,
        )
    )  # fmt: skip
    _say(json.dumps(account | {"ended_at": time.time()}))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
