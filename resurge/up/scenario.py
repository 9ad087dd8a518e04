"""What happens while `resurge up` runs: who the phones are, when they lose the network, what chaos kills when.

All of it follows from the number of phones and the length of the run; the same numbers give the same story.
"""

from __future__ import annotations

from dataclasses import dataclass

NAMES = ("tram-07", "bus-12", "bicycle-3", "ferry-2", "walker-5", "van-31", "train-9", "scooter-8")
BEHIND_RELAY = 1  # the index of the phone that has no way to the gateway of its own

# Shares of the run at which a phone's network goes and comes back. All are over well before the end, so that
# what was spooled can arrive; with three phones there are five outages.
OUTAGES = (
    ((0.20, 0.32), (0.58, 0.68)),
    ((0.38, 0.54),),
    ((0.26, 0.40), (0.66, 0.76)),
)
RESTART_AFTER_S = 1.0
# Shares of the run: not before, and at the latest. Spark is killed once it has published something to lose.
KILLS = (("relay", 0.30, 0.30), ("phone", 0.44, 0.44), ("spark", 0.50, 0.74), ("gateway", 0.60, 0.60))


@dataclass(frozen=True, slots=True)
class PhoneStory:
    """What one simulated phone goes through."""

    name: str
    seed: int
    behind_relay: bool
    outages: str  # as `resurge node run --outages` takes it
    outage_count: int


@dataclass(frozen=True, slots=True)
class Kill:
    target: str  # relay | phone | gateway | spark
    at_s: float
    latest_s: float

    def due(self, elapsed_s: float, results: int) -> bool:
        """Whether it is time; between the two times only when there are results already."""
        return elapsed_s >= self.latest_s or (elapsed_s >= self.at_s and results > 0)


def phone_stories(count: int, length_s: float | None) -> list[PhoneStory]:
    """The phones of a run; without a length their outages are drawn from a seed and never end."""
    stories: list[PhoneStory] = []
    for index in range(count):
        name = NAMES[index] if index < len(NAMES) else f"phone-{index + 1}"
        spans = OUTAGES[index % len(OUTAGES)]
        if length_s is None:
            outages, outage_count = f"random:{index + 1}", 0
        else:
            outages = ",".join(f"{start * length_s:.1f}+{(end - start) * length_s:.1f}~" for start, end in spans)
            outage_count = len(spans)
        stories.append(PhoneStory(name, 11 + index, index == BEHIND_RELAY, outages, outage_count))
    return stories


def kills(length_s: float | None) -> list[Kill]:
    """When chaos strikes; a run without end gets each kill once, spread over two minutes."""
    whole_s = length_s or 120.0
    return [Kill(target, earliest * whole_s, latest * whole_s) for target, earliest, latest in KILLS]


def shift_outages(outages: str, by_s: float) -> str:
    """What is left of a schedule for a phone that starts again this long after its first start."""
    if outages.startswith("random:") or not outages:
        return outages
    left: list[str] = []
    for span in outages.split(","):
        start, length = (float(part) for part in span.rstrip("~").split("+"))
        if start + length > by_s:
            begin = max(start - by_s, 0.0)
            left.append(f"{begin:.1f}+{start + length - by_s - begin:.1f}{'~' * span.endswith('~')}")
    return ",".join(left)
