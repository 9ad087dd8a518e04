"""The definitions of docs/semantics.md hold on Spark too: missing values, empty inputs, out-of-order and duplicate times,
overflow, unicode keys, every window, every way to pair streams. What the page prints is printed again by `engine="spark"`.
"""

from __future__ import annotations

import contextlib
import functools
import io
from importlib import import_module

import pytest

from tests.docs.test_examples import examples

PAGE = "docs/semantics.md"
# Pipelines driven by hand are the numpy engine's own; operators defined in a page are no module an executor could import;
# on Spark a cycle takes an epoch per round, and `evaluate` runs a fixed number of epochs.
NOT_HERE = ("Pipeline", "meeting", "@rs.operator", ".feed(")


@pytest.mark.spark
@pytest.mark.covers("SO-14")
def test_spark_prints_what_the_semantics_say(spark, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("resurge.evaluate")
    monkeypatch.setattr(module, "evaluate", functools.partial(module.evaluate, engine="spark"))
    names: dict[str, object] = {"__name__": "program"}
    compared = 0
    for line, code, expected in examples(PAGE):
        if any(word in code for word in NOT_HERE):
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{PAGE}:{line}", "exec"), names)
        if expected is not None:
            assert printed.getvalue() == expected, f"{PAGE}:{line}"
            compared += 1
    assert compared >= 8
