"""One person's phone, as a process: `python -m resurge.examples.trips.phone HOME`.

It is the headless node that everybody runs; this file only sets its clock, so that all phones of a run live in the
same event time from a common moment on, and turns the outages of the story into seconds of this process.
`HOME/story.json` holds both.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mobile_app.headless import RunOptions, run
from mobile_app.home.clock import Anchor, boot_id, boot_time_us, wall_time_us
from mobile_app.home.files import write_durably
from mobile_app.sensors.choose import parse_choices

STORY, READY = "story.json", "ready"
SECOND = 1_000_000


def main() -> None:
    home = Path(sys.argv[1])
    story: dict[str, Any] = json.loads((home / STORY).read_bytes())
    (home / READY).touch()
    begin = Path(story["begin"])
    while not begin.exists():  # until every phone is this far: starting takes long on a busy machine
        time.sleep(0.05)
    speed, begin_us = story["speed"], int(begin.read_text())
    if not (home / "clock.json").exists():
        anchor = Anchor(
            boot_id=boot_id(), at_boot_us=begin_us, at_wall_us=wall_time_us() + begin_us - boot_time_us(),
            at_event_us=story["base_us"], uncertainty_us=0, speed=speed, origin_us=story["origin_us"],
        )  # fmt: skip
        write_durably(home / "clock.json", json.dumps(asdict(anchor)).encode())
    began_s = (begin_us - boot_time_us()) / SECOND
    account = run(
        RunOptions(
            home=home, link=story["link"], sensors=parse_choices(story["sensors"]),
            outages=spans_of(story, began_s, speed), speed=speed, say=_say,
        )
    )  # fmt: skip
    _say(json.dumps(account | {"ended_at": time.time()}))


def spans_of(story: Mapping[str, Any], began_s: float, speed: float) -> str:
    """The outages as `resurge node` takes them, in seconds from now on; event time begins in `began_s` seconds. Each
    lasts until it was felt: played a thousand times as fast a phone could sleep through twenty minutes."""
    spans: list[str] = []
    reached_s = 0.0
    for start_us, end_us in story["outages"]:
        start_s, end_s = (
            round(began_s + (at_us - story["base_us"]) / SECOND / speed, 3) for at_us in (start_us, end_us)
        )
        start_s = max(reached_s, start_s)
        if end_s > start_s:
            spans.append(f"{start_s:.3f}+{end_s - start_s:.3f}~")
            reached_s = end_s + 0.001  # so that rounding never makes two overlap
    return ",".join(spans)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
