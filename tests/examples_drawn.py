"""How many examples Hypothesis draws: some in every run of the suite, many in `make soak`, by the same test."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings


def examples_drawn(few: int, many: int) -> Callable[[Callable[[], None]], Callable[[int], None]]:
    """Goes above `@given`; the test takes nothing but what is drawn."""

    def decorate(test: Callable[[], None]) -> Callable[[int], None]:
        @pytest.mark.parametrize("examples", [few, pytest.param(many, marks=pytest.mark.soak)])
        def run(examples: int) -> None:
            settings(max_examples=examples, deadline=None)(test)()

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        run.pytestmark = [*getattr(test, "pytestmark", []), *run.pytestmark]  # type: ignore[attr-defined]
        return run

    return decorate
