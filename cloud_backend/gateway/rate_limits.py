"""Who may ask how often: token buckets.

A bucket holds `burst` tokens and gains `rate` per second. A device pays for each exchange and each byte. Devices behind
one address are many and honest, so nobody pays for a neighbour: an introduction that fails costs the key it claimed, at
the address it came from, and only while failed introductions keep the whole gateway busy. At the bound the answer is
429 with the second when there will be room, never a silent drop.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

KEYS_MAX = 100_000  # beyond it the fullest buckets, which restrict nobody, are forgotten


@dataclass(frozen=True, slots=True)
class Rate:
    per_s: float
    burst: float


@dataclass(slots=True)
class Buckets:
    """One bucket per key, all of the same rate. Times are seconds on a monotonic clock."""

    rate: Rate
    _levels: dict[Hashable, tuple[float, float]] = field(default_factory=dict)  # key -> (tokens, at)

    def wait_s(self, key: Hashable, now: float, cost: float = 1.0) -> float:
        """0 if this may go ahead now, else the seconds until it may. Takes nothing."""
        if key not in self._levels:
            return 0.0
        short = min(cost, self.rate.burst) - self._level(key, now)
        return max(0.0, short / self.rate.per_s)

    def take(self, key: Hashable, now: float, cost: float = 1.0) -> None:
        """Pay; the level may go below zero, which only makes the next wait longer."""
        self._levels[key] = (self._level(key, now) - cost, now)
        if len(self._levels) > KEYS_MAX:
            self._forget(now)

    def _level(self, key: Hashable, now: float) -> float:
        tokens, at = self._levels.get(key, (self.rate.burst, now))
        return min(self.rate.burst, tokens + (now - at) * self.rate.per_s)

    def _forget(self, now: float) -> None:
        full = [key for key in self._levels if self._level(key, now) >= self.rate.burst]
        for key in full or list(self._levels)[: KEYS_MAX // 10]:
            del self._levels[key]


GOOD_HELLOS = Rate(per_s=20, burst=400)  # of one device


class Introductions:
    """HELLOs. Checking a signature costs some hundred microseconds, so a few hundred wrong ones a second are answered
    like any other; beyond that, a claim that failed before at its address waits. Good ones cost the device that signed
    them: only its own can make it wait, since a recorded one is good once."""

    def __init__(self, in_all: Rate, of_one_claim: Rate) -> None:
        self._all = Buckets(in_all)
        self._claims = Buckets(of_one_claim)
        self._signed = Buckets(GOOD_HELLOS)

    def wait_s(self, address: str, claim: bytes, now: float) -> float:
        wait_s = self._claims.wait_s((address, claim), now) if self._all.wait_s("", now) else 0.0
        return wait_s or self._signed.wait_s(claim, now)

    def succeeded(self, claim: bytes, now: float) -> None:
        self._signed.take(claim, now)

    def failed(self, address: str, claim: bytes, now: float) -> None:
        self._all.take("", now)
        self._claims.take((address, claim), now)


class Allowance:
    """What one device may send: exchanges and bytes, each with its own bucket, paid together or not at all.

    The same sums as in `Buckets`, written out: they are done for every exchange.
    """

    __slots__ = ("_at", "_bytes", "_exchanges")

    def __init__(self, exchanges: Rate, volume: Rate, now: float) -> None:
        self._exchanges = exchanges.burst
        self._bytes = volume.burst
        self._at = now

    def take(self, size: int, exchanges: Rate, volume: Rate, now: float) -> float:
        """0 and the price is paid, or the seconds until it could be and nothing is."""
        passed = now - self._at
        self._at = now
        have_exchanges = self._exchanges + passed * exchanges.per_s
        if have_exchanges > exchanges.burst:  # noqa: PLR1730 - min() would cost as much as all the rest here
            have_exchanges = exchanges.burst
        have_bytes = self._bytes + passed * volume.per_s
        if have_bytes > volume.burst:  # noqa: PLR1730
            have_bytes = volume.burst
        price = size if size < volume.burst else volume.burst
        if have_exchanges >= 1.0 and have_bytes >= price:
            self._exchanges, self._bytes = have_exchanges - 1.0, have_bytes - price
            return 0.0
        self._exchanges, self._bytes = have_exchanges, have_bytes
        return max((1.0 - have_exchanges) / exchanges.per_s, (price - have_bytes) / volume.per_s)
