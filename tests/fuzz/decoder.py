"""A decoder as the fuzzer sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Decoder:
    """Takes bytes and understands them, or raises one of the errors that its module promises; anything else it raises
    is a finding. What it returns tells inputs apart: one with a new answer is worth keeping in the corpus."""

    decode: Callable[[bytes], str]
    seeds: Callable[[], list[bytes]]
    expected: tuple[type[Exception], ...]
