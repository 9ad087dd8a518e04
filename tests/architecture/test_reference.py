"""The reference page is what the code gives: every public name, verb, function, aggregate and sensor, each with an example
that runs."""

from __future__ import annotations

import pytest

import resurge as rs
from shared.language.expressions import FUNCTIONS
from shared.stream.sources import SENSORS
from tests.docs import reference, reference_examples


def test_the_page_is_what_the_code_gives() -> None:
    made = reference.page()  # runs every example
    assert reference.PAGE.read_text(encoding="utf-8") == made, "run `python -m tests.docs.reference --write`"


def test_every_public_name_function_and_sensor_is_on_it() -> None:
    written = reference.PAGE.read_text(encoding="utf-8")
    named = [*(f"`rs.{name}" for name in rs.__all__), *(f"`{name}` |" for name in SENSORS)]
    named += [f"{name}(" for name in FUNCTIONS]
    assert [name for name in named if name not in written] == []


@pytest.mark.parametrize(
    ("table", "name"), [("RUNNING", "rs.evaluate"), ("STREAM", "where"), ("BY_NAME", "ceil"), ("OPERATORS", "%")]
)
def test_a_name_without_an_example_is_refused(table: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(getattr(reference_examples, table), name)
    with pytest.raises(reference.Incomplete, match=name.removeprefix("rs.")):
        reference.page()


def test_an_example_that_does_not_run_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(reference_examples.STREAM, "where", "x.where(col.nothing > 2)")
    with pytest.raises(rs.UsageError, match="nothing"):
        reference.page()
