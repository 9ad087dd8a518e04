"""How many examples Hypothesis draws: some in every run of the suite, many in `make soak`, by the same test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings


def examples_drawn(few: int, many: int, *drawn: Any, **named: Any) -> Callable[..., Callable[[int], None]]:
    """In the place of `@given`; the test takes nothing but what is drawn."""

    def decorate(test: Callable[..., None]) -> Callable[[int], None]:
        @pytest.mark.parametrize("examples", [few, pytest.param(many, marks=pytest.mark.soak)])
        def run(examples: int) -> None:
            settings(max_examples=examples, deadline=None)(given(*drawn, **named)(test))()

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate
