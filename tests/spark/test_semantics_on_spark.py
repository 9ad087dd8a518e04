"""The definitions of docs/semantics.md hold on Spark too: missing values, empty inputs, out-of-order and duplicate times,
overflow, unicode keys, every window, every way to pair streams, cycles, users' operators. What the page prints is printed
again by `engine="spark"`.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import sys
from importlib import import_module
from pathlib import Path

import pytest

from cloud_backend.spark import evaluate as on_spark
from cloud_backend.spark.cluster.session import SparkRunner
from shared.errors import UsageError
from shared.plan.graph import Plan
from tests.docs.test_examples import examples

PAGE = "docs/semantics.md"
NOT_HERE = ("Pipeline", "meeting")  # pipelines driven by hand are the numpy engine's own
MODULE = "operators_of_the_page"


@pytest.mark.spark
def test_spark_prints_what_the_semantics_say(
    spark, runner: SparkRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shipped(directory: Path, plan: Plan) -> SparkRunner:
        modules = on_spark._operator_modules(plan)
        return SparkRunner(spark, directory / "code", modules, check=False) if modules else runner

    evaluating = import_module("resurge.evaluate")
    monkeypatch.setattr(evaluating, "evaluate", functools.partial(evaluating.evaluate, engine="spark"))
    monkeypatch.setattr(on_spark, "_runner", shipped)
    monkeypatch.setattr("shared.language.registry._types", {})  # the page's operators may be known from elsewhere
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, object] = {"__name__": "program"}
    compared = 0
    for line, code, expected in examples(PAGE):
        if any(word in code for word in NOT_HERE):
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(_without_operators(code, f"{MODULE}_{line}", tmp_path), f"{PAGE}:{line}", "exec"), names)
        if expected is not None:
            assert printed.getvalue() == expected, f"{PAGE}:{line}"
            compared += 1
    for module in [name for name in sys.modules if name.startswith(MODULE)]:
        sys.modules.pop(module)
    assert compared >= 10


def _without_operators(code: str, module: str, directory: Path) -> str:
    """The code as it is; operators and functions go to a module of their own, where executors can import them."""
    if "@rs.operator" not in code and "@rs.function" not in code:
        return code
    parts = ast.parse(code).body
    own = [part for part in parts if isinstance(part, ast.FunctionDef | ast.ClassDef)]
    (directory / f"{module}.py").write_text("\n".join(["import resurge as rs", *map(ast.unparse, own)]))
    importing = [f"from {module} import {part.name}" for part in own]
    return "\n".join([*importing, *(ast.unparse(part) for part in parts if part not in own)])


def test_an_operator_of_the_program_itself_is_refused_before_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    import resurge as rs

    monkeypatch.setattr("shared.language.registry._types", {})
    program = {"__name__": "program", "rs": rs}
    exec('@rs.operator("same", takes={"v": "float64"}, gives={"v": "float64"})\ndef same(columns): ...', program)
    stream = rs.stream("x", {"v": "float64"}).apply("same")
    with pytest.raises(UsageError, match="is defined in the program itself") as caught:
        rs.evaluate(stream, {}, engine="spark")
    assert caught.value.code == "evaluate-operator"
