"""A real stream against the ideal one, element by element: exact, and only possible when the ideal run is there.

The failure lab and the tests have it: the same plan, run without failures. A running product has no ideal run; there
`auditor.py` counts by sequence numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from shared.contracts.levels import Measured
from shared.errors import UsageError


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a stream: `at_us` is when it came out, in the clock both runs share."""

    stream: str
    number: int
    at_us: int
    value: Hashable


def measure(ideal: Iterable[Element], real: Iterable[Element]) -> Measured:
    """Hold the real elements, in the order in which they came, against the ideal ones.

    An element is correct when the ideal run has its number with the same value; a second one of a number is wrong,
    and so is one that the ideal run does not have. Wrong ones count for no delay and no order: they have no place.
    """
    expected: dict[tuple[str, int], tuple[int, Element]] = {}
    for place, element in enumerate(ideal):
        if (element.stream, element.number) in expected:
            raise UsageError(
                f"the ideal run has number {element.number} of {element.stream!r} twice", code="contract-ideal"
            )
        expected[element.stream, element.number] = place, element
    correct = wrong = delay_us_max = swapped = swapped_between = 0
    seen: set[tuple[str, int]] = set()
    newest: dict[str, int] = {}
    newest_place = -1
    for element in real:
        identity = (element.stream, element.number)
        place, wanted = expected.get(identity, (-1, None))
        if wanted is None or wanted.value != element.value or identity in seen:
            wrong += 1
            continue
        seen.add(identity)
        correct += 1
        delay_us_max = max(delay_us_max, element.at_us - wanted.at_us)
        swapped += element.number < newest.get(element.stream, -1)
        swapped_between += place < newest_place
        newest[element.stream] = max(newest.get(element.stream, -1), element.number)
        newest_place = max(newest_place, place)
    return Measured(len(expected), correct, wrong, delay_us_max, swapped, swapped_between)
