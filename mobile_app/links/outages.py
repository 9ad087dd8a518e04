"""When the link is down, as data: a schedule that a test, a demonstration or a person wrote.

`10+8,30+12` means: at 10 s after the start down for 8 s, at 30 s for 12 s. `random:SEED` draws outages with the
given seed for ever. A file holds the same text, spans separated by commas or lines, `#` begins a comment.
Seconds are real seconds of the node's run, whatever `--speed` is.

`10+0.5~` lasts until an exchange was refused, if that takes longer, and begins only when one has got through since the
outage before, or since the start: in a run that is played a thousand times as fast, twenty minutes are a second, in
which a phone may have had nothing to say; and a phone on a busy machine may be slow to arrive at all.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shared.errors import UsageError

SPAN = re.compile(r"(\d+(?:\.\d+)?)\+(\d+(?:\.\d+)?)(~?)")
RANDOM = re.compile(r"random:(\d+)")


@dataclass(frozen=True, slots=True)
class Outage:
    start_s: float
    end_s: float
    until_felt: bool = False


class Outages:
    """The schedule; seconds asked for must not go back, so only the current and next outage are kept."""

    def __init__(self, spans: Iterator[Outage]) -> None:
        self._spans = spans
        self._next = next(spans, None)
        self._ended = 0
        self._felt = 0
        self._refused = False  # an exchange, by the current one
        self._answered = False  # an exchange, since the last one

    def down(self, second: float) -> bool:
        """Whether the link is down at this second of the run."""
        return self.overlap(second, second)

    def overlap(self, start_s: float, end_s: float) -> bool:
        """Whether the link was down at any moment from start_s to end_s (both included)."""
        while self._next is not None and self._next.end_s <= start_s and (self._refused or not self._next.until_felt):
            self._ended += 1
            self._felt += int(self._refused)
            self._refused = self._answered = False
            self._next = next(self._spans, None)
        if self._next is None or self._next.start_s > end_s:
            return False
        return self._answered or not self._next.until_felt

    def refused(self) -> None:
        """The link was down when an exchange wanted it."""
        self._refused = True

    def answered(self) -> None:
        """An exchange got through."""
        self._answered = True

    @property
    def felt(self) -> int:
        """How many outages refused an exchange."""
        return self._felt + int(self._refused)

    def begun(self, second: float) -> int:
        """How many outages have begun by this second."""
        down = self.down(second)
        return self._ended + int(down)


def parse_outages(text: str) -> Outages:
    """A schedule from the command line's text, or from the file it names."""
    drawn = RANDOM.fullmatch(text.strip())
    if drawn:
        return Outages(_random_spans(int(drawn.group(1))))
    if text and not SPAN.match(text.strip()) and Path(text).is_file():
        text = Path(text).read_text(encoding="utf-8")
    words = [word.strip() for line in text.splitlines() for word in line.partition("#")[0].split(",") if word.strip()]
    spans: list[Outage] = []
    for word in words:
        match = SPAN.fullmatch(word)
        if not match:
            raise UsageError(
                f"outage {word!r} is not START+LENGTH in seconds; write for instance 10+8,30+12, or random:7, "
                f"or name a file that holds such spans",
                code="outages-format",
            )
        start, length = float(match.group(1)), float(match.group(2))
        if spans and start < spans[-1].end_s:
            raise UsageError(f"outage {word!r} begins before the one before it ends; write them in order",
                             code="outages-format")  # fmt: skip
        spans.append(Outage(start, start + length, until_felt=bool(match.group(3))))
    return Outages(iter(spans))


def _random_spans(seed: int) -> Iterator[Outage]:
    """Up for 5 to 20 seconds, down for 2 to 12, again and again."""
    draw = random.Random(seed)
    second = 0.0
    for _ in itertools.count():
        second += draw.uniform(5, 20)
        outage = Outage(second, second + draw.uniform(2, 12))
        yield outage
        second = outage.end_s
