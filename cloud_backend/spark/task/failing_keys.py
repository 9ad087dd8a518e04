"""Which keys' state makes an operator raise: a search by halves.

A window that closes is computed from rows that came epochs ago, so when its operator raises there is no batch to blame.
What can be told apart is keys: an operator treats each by itself. So the search forgets half of the keys and lets time
pass again, down to the single key. It costs about log2(keys) runs of the epoch for each key found, and only when
something raised twice. Should two keys raise only together, both go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from shared.language.schema import dtype

Key = tuple[object, ...]
Keeps = Callable[[Mapping[str, np.ndarray], int], np.ndarray]

SEARCH_STEPS_MAX = 300


def keys_that_raise(keys: Sequence[Key], raises: Callable[[Sequence[Key]], bool]) -> list[Key]:
    """The keys without which nothing raises. `raises` is known to hold for all of them together."""
    steps = 0
    found: list[Key] = []
    waiting = [list(keys)]
    while waiting:
        several = waiting.pop()
        if len(several) == 1 or steps >= SEARCH_STEPS_MAX:
            found += several
            continue
        middle = len(several) // 2
        guilty = [half for half in (several[:middle], several[middle:]) if raises(half)]
        steps += 2
        if guilty:
            waiting += reversed(guilty)
        else:
            found += several
    return found


def keeping(columns: tuple[str, ...], *, only: Collection[Key] | None, without: Collection[Key]) -> Keeps:
    """Which rows' keys stay: those in `only` (None: all) that are not in `without`."""
    wanted, unwanted = None if only is None else set(only), set(without)

    def keep(given: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
        keys = list(zip(*(given[name].tolist() for name in columns), strict=True)) if columns else [()] * rows
        return np.fromiter(
            (key not in unwanted and (wanted is None or key in wanted) for key in keys), dtype("bool"), rows
        )

    return keep
