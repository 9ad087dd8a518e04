"""Checks that could not fail are none: of benches and labs every verdict is computed."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.parsed import nodes
from tests.architecture.test_imports import ROOT, sources

VERDICTS = {"ok", "holds"}


def certain(tree: tuple[ast.AST, ...]) -> list[int]:
    """The lines of verdicts that are True whatever was measured, and of comparisons of something with itself."""
    found = []
    for node in tree:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "shape" and len(node.args) == 4:
            found += [node.lineno] if isinstance(node.args[3], ast.Constant) else []
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            found += [
                value.lineno
                for key, value in pairs
                if isinstance(key, ast.Constant) and key.value in VERDICTS
                and isinstance(value, ast.Constant) and value.value is True
            ]  # fmt: skip
        if isinstance(node, ast.Compare):
            found += [node.lineno for each in node.comparators if ast.dump(each) == ast.dump(node.left)]
    return found


def test_no_check_of_a_bench_or_a_lab_is_true_whatever_was_measured() -> None:
    for package in ("resurge/bench", "resurge/lab"):
        for path in sources(package):
            assert not certain(nodes(path)), path.relative_to(ROOT)


@pytest.mark.parametrize(
    "text", ['shape("one", 1, 2, True)', '{"name": "one", "ok": True}', 'shape("one", 1, 2, a >= a)']
)
def test_such_a_check_is_found(text: str) -> None:
    assert certain(tuple(ast.walk(ast.parse(text)))) == [1]
