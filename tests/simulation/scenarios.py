"""Scripted stories: a small world written down, and the whole transcript it must give.

    # what the story is about
    seed 7
    duration 20
    phone edges=1 every_s=2 capacity_bytes=8192 evict=query-aware payload_bytes_max=40 within_s=1
    weather loss=0.1
    lifetime 3600
    fault 5 cut-down 0 4
    ---
    (transcript)

`python -m tests.simulation.scenarios` writes the transcripts anew; read the difference before you commit it.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from shared.spool.evict import Evict
from tests.simulation.faults import Fault
from tests.simulation.network import Weather
from tests.simulation.phone import PhoneSettings
from tests.simulation.world import Outcome, Settings, World

DIRECTORY = Path(__file__).parent / "scenarios"
DIVIDER = "---"


def parse(text: str) -> tuple[Settings, str]:
    """(the world, the transcript it should give)."""
    script, _, transcript = text.partition(f"{DIVIDER}\n")
    seed, duration_s, lifetime_s = 0, 30.0, 3600
    phones: list[PhoneSettings] = []
    faults: list[Fault] = []
    weather = Weather()
    for line in script.splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        match words[0]:
            case "seed":
                seed = int(words[1])
            case "duration":
                duration_s = float(words[1])
            case "lifetime":
                lifetime_s = int(words[1])
            case "phone":
                phones.append(PhoneSettings(**_options(PhoneSettings, words[1:])))  # type: ignore[arg-type]
            case "weather":
                weather = Weather(**_options(Weather, words[1:]))  # type: ignore[arg-type]
            case "fault":
                faults.append(Fault(float(words[1]), words[2], int(words[3]), float(words[4])))
            case other:
                raise ValueError(f"a scenario has no line {other!r}")
    return Settings(seed, tuple(phones), duration_s, weather, tuple(faults), lifetime_s), transcript


def _options(kind: type, words: list[str]) -> dict[str, object]:
    types = {field.name: field.type for field in fields(kind)}
    options: dict[str, object] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name == "evict":
            options[name] = Evict[value.replace("-", "_").upper()]
        else:
            options[name] = int(value) if types[name] == "int" else float(value)
    return options


def play(text: str) -> Outcome:
    settings, _ = parse(text)
    return World(settings, keep=True).run()


def main() -> None:
    for path in sorted(DIRECTORY.glob("*.txt")):
        text = path.read_text()
        outcome = play(text)
        script, _, _ = text.partition(f"{DIVIDER}\n")
        path.write_text(f"{script}{DIVIDER}\n" + "\n".join(outcome.lines) + "\n")
        print(path.name, len(outcome.lines), "lines;", outcome.violation or "no violation")


if __name__ == "__main__":
    main()
