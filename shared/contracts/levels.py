"""Reliability levels: what a real stream may lack against the ideal one, and which level implies which (EC-9..EC-12).

The ideal stream is what a run without failures would give at once. The real one has correct elements of it, some of
them late, and may have wrong ones beside them.

* loss: LILO(LF, EF) keeps at least the share LF of the ideal stream, and wrong elements are at most the share EF of it.
  LOLE is LILO(1, 0).
* delay: LIDE(d) bounds how late an element comes. DEFR is LIDE(0).
* order: IASO within each stream, IESO between streams too. What comes without any delay comes in order, so
  DEFR implies IESO, and IESO implies IASO.

Levels form a lattice: `implies` is its order, `both` the weakest level that implies two others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from shared.language.durations import duration_text
from shared.plan.contracts import Contract


class Order(IntEnum):
    """A greater one implies a lesser one."""

    ANY = 0
    EACH = 1  # IASO: within a stream
    ALL = 2  # IESO: between streams too


@dataclass(frozen=True, slots=True)
class Level:
    """`delay_us_max` None promises nothing, 0 is DEFR."""

    kept_min: float = 0.0
    wrong_max: float = 1.0
    delay_us_max: int | None = None
    order: Order = Order.ANY

    @property
    def ordered(self) -> Order:
        """The order it has: one without delay has every order, said or not."""
        return Order.ALL if self.delay_us_max == 0 else self.order

    def implies(self, other: Level) -> bool:
        """Whether every stream that is of this level is of the other one too."""
        return (
            self.kept_min >= other.kept_min
            and self.wrong_max <= other.wrong_max
            and _delay(self) <= _delay(other)
            and self.ordered >= other.ordered
        )

    def both(self, other: Level) -> Level:
        """The weakest level that implies this one and the other."""
        delay = min(_delay(self), _delay(other))
        return Level(
            max(self.kept_min, other.kept_min),
            min(self.wrong_max, other.wrong_max),
            None if delay == float("inf") else round(delay),
            max(self.ordered, other.ordered),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """As the paper writes them, such as ("LOLE", "LIDE(10m)", "IASO")."""
        lossless = self.kept_min == 1.0 and self.wrong_max == 0.0
        found = ["LOLE" if lossless else f"LILO({self.kept_min:g}, {self.wrong_max:g})"]
        if self.delay_us_max is not None:
            found.append("DEFR" if self.delay_us_max == 0 else f"LIDE({duration_text(self.delay_us_max)})")
        if self.ordered is not Order.ANY:
            found.append("IASO" if self.ordered is Order.EACH else "IESO")
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Measured:
    """A real stream held against the ideal one, in elements of the ideal one."""

    ideal: int
    correct: int
    wrong: int
    delay_us_max: int
    swapped: int  # elements that came after a later one of their own stream
    swapped_between: int  # and of any stream

    @property
    def kept(self) -> float:
        return self.correct / self.ideal if self.ideal else 1.0

    @property
    def wrong_share(self) -> float:
        return self.wrong / self.ideal if self.ideal else float(self.wrong > 0)

    def broken(self, level: Level) -> tuple[str, ...]:
        """What of the level does not hold, in a word each; empty when all does."""
        late = level.delay_us_max is not None and self.delay_us_max > level.delay_us_max
        within = level.ordered >= Order.EACH and self.swapped > 0
        between = level.ordered is Order.ALL and self.swapped_between > 0
        checks = (
            ("loss", self.kept < level.kept_min), ("wrong", self.wrong_share > level.wrong_max), ("delay", late),
            ("order", within or between),
        )  # fmt: skip
        return tuple(word for word, failed in checks if failed)


def level_of(contract: Contract) -> Level:
    """The level a contract promises."""
    order = Order.ALL if contract.order == "all" else Order.EACH
    return Level(contract.kept_min, contract.wrong_max, contract.delay_us_max, order)


def _delay(level: Level) -> float:
    return float("inf") if level.delay_us_max is None else float(level.delay_us_max)
