"""When to speak, and how much at once. Pure decisions; the sender asks, nothing here remembers.

A radio that wakes for every reading empties a battery, one that never wakes is no stream. So a batch closes by
count, bytes or age (`Batching`), and an exchange happens when an edge has waited as long as it may, when enough
has gathered, or when it is time to ask for results; on a dear lane or a low battery everything that may wait
waits longer. After a failure the pause doubles up to a limit and is spread at random, so that a thousand phones
that lost the same gateway do not all come back in the same second.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from shared.errors import UsageError

QUICK = 0.1  # of the time that an answer may take
BATTERY_LOW = 0.15
BATTERY_MODEST = 0.30


@dataclass(frozen=True, slots=True)
class Lane:
    """A kind of link: how many bytes one exchange may carry, and how much longer to wait before one."""

    name: str
    exchange_bytes: int
    stretch: float


LANES = {
    lane.name: lane
    for lane in (
        Lane("gateway", 1 << 20, 1.0),
        Lane("wifi", 1 << 20, 1.0),
        Lane("cellular", 256 << 10, 2.0),
        Lane("broadcast", 64 << 10, 1.0),
    )
}


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the device can afford just now."""

    lane: str = "gateway"
    battery: float = 1.0  # share of full
    charging: bool = True

    def __post_init__(self) -> None:
        if self.lane not in LANES:
            raise UsageError(f"lane {self.lane!r} is not one of {', '.join(LANES)}", code="pacing-lane")


@dataclass(frozen=True, slots=True)
class Batching:
    """When a growing batch is closed and written: whichever comes first."""

    rows: int = 60
    size_bytes: int = 64 << 10
    within_us: int = 60_000_000

    def full(self, *, rows: int, size_bytes: int, age_us: int) -> bool:
        return rows > 0 and (rows >= self.rows or size_bytes >= self.size_bytes or age_us >= self.within_us)


@dataclass(frozen=True, slots=True)
class Pacing:
    """The settings of one device's link. Seconds."""

    poll_s: float = 30.0  # ask for results and plans at least this often
    timeout_s: float = 20.0  # an exchange without an answer has failed; a link should give up a little sooner
    sync_within_s: float = 1.0  # the published loss window of a crash: what is younger may not be durable yet
    backoff_s_min: float = 0.5
    backoff_s_max: float = 15.0  # healed links drain within a minute, so nobody may sleep longer than a fraction of it
    gather_bytes: int = 256 << 10  # this much waiting is worth an exchange, whatever its age
    exchange_bytes_max: int = 1 << 20
    window: int = 1  # exchanges under way at once while there is a backlog; more than one between nodes only
    growth: int = 1  # that many times as much goes into an exchange while there is a backlog and answers are quick
    # Who does not answer is asked this often, without rows, while some wait: a link that is back is noticed at once,
    # and one that is slow is not filled with what it cannot carry in time. 0: never, and pauses grow as above.
    probe_s: float = 0.0
    probe_for_s: float = 300.0  # since it answered, or since this device's network changed; then radios may rest

    def budget(self, conditions: Conditions, grown: int = 1) -> int:
        """How many bytes of batches the next exchange may carry, where exchanges have grown so far."""
        return grown * min(self.exchange_bytes_max, LANES[conditions.lane].exchange_bytes)

    def grown(self, grown: int, answer_s: float) -> int:
        """How far exchanges have grown after one that took so long to be answered. Each costs both sides some
        milliseconds whatever its size; but one that is not answered in time is sent again, and blocks others."""
        if answer_s > self.timeout_s * QUICK:
            return max(1, grown // 2)
        return min(self.growth, 2 * grown)

    def backoff_s(self, failures: int, rng: Random) -> float:
        """The pause after this many failures in a row: exponential, bounded, at least half of it random."""
        ceiling = min(self.backoff_s_max, self.backoff_s_min * 2.0 ** min(failures - 1, 16))
        return ceiling * (0.5 + 0.5 * rng.random())


def stretch(conditions: Conditions) -> float:
    """How many times longer than asked a batch may wait, for the sake of lane and battery."""
    factor = LANES[conditions.lane].stretch
    if not conditions.charging:
        if conditions.battery < BATTERY_LOW:
            return factor * 4.0
        if conditions.battery < BATTERY_MODEST:
            return factor * 2.0
    return factor
