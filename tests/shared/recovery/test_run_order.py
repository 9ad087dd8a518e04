from __future__ import annotations

import pytest

from shared.recovery.run_order import topological


def test_inputs_come_first_and_equals_stay_in_the_order_given() -> None:
    assert topological({"d": ("b", "c"), "b": ("a",), "c": ("a",), "a": ()}) == ["a", "b", "c", "d"]


def test_a_cycle_is_named() -> None:
    with pytest.raises(ValueError, match="cycle through b, c"):
        topological({"a": (), "b": ("c",), "c": ("b",)})
