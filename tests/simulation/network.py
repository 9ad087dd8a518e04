"""A network that delays, loses, repeats and reorders, and can be cut in either direction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.simulation.clock import Clock


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the network is: seconds and probabilities."""

    delay_s_min: float = 0.01
    delay_s_max: float = 0.3
    loss: float = 0.0
    duplication: float = 0.0
    late: float = 0.0  # share of messages that take many times longer, and so overtake nothing but are overtaken


CLEAR = Weather()
LATE_S_MAX = 40.0
REMEMBERED_MAX = 64


class Network:
    """Between each phone and the cloud: `up` and `down`."""

    def __init__(self, clock: Clock, rng: Random, weather: Weather) -> None:
        self._clock = clock
        self._rng = rng
        self.weather = weather
        self._cut: dict[tuple[int, str], int] = {}
        self._recorded: list[tuple[int, bytes]] = []
        self.lost = self.duplicated = self.delayed = self.replayed = 0

    def cut(self, phone: int, direction: str) -> None:
        self._cut[phone, direction] = self._cut.get((phone, direction), 0) + 1

    def mend(self, phone: int, direction: str) -> None:
        self._cut[phone, direction] -= 1

    def heal(self) -> None:
        self._cut.clear()
        self.weather = CLEAR

    def send(self, phone: int, direction: str, body: bytes, deliver: Callable[[bytes], None]) -> str:
        """Carry a body, perhaps; returns what became of it, for the transcript."""
        weather, rng = self.weather, self._rng
        if direction == "up":
            self._remember(phone, body)
        if self._cut.get((phone, direction)) or rng.random() < weather.loss:
            self.lost += 1
            return "lost"
        fate = "sent"
        copies = 1
        if rng.random() < weather.duplication:
            copies, fate = 2, "twice"
            self.duplicated += 1
        for _ in range(copies):
            delay_s = rng.uniform(weather.delay_s_min, weather.delay_s_max)
            if rng.random() < weather.late:
                delay_s += rng.uniform(0.0, LATE_S_MAX)
                self.delayed += 1
            self._clock.after(delay_s, deliver, body)
        return fate

    def replay(self, rng: Random, deliver: Callable[[int, bytes], None]) -> bool:
        """Somebody who listened sends an old body again."""
        if not self._recorded:
            return False
        phone, body = rng.choice(self._recorded)
        self._clock.after(0.01, deliver, phone, body)
        self.replayed += 1
        return True

    def _remember(self, phone: int, body: bytes) -> None:
        if len(self._recorded) < REMEMBERED_MAX:
            self._recorded.append((phone, body))
        else:
            self._recorded[self._rng.randrange(REMEMBERED_MAX)] = (phone, body)
