"""The public names: pinned, all importable, and typed the way they are loaded."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import resurge as rs

NAMES = [
    "Live",
    "PeerError",
    "ResurgeError",
    "Stream",
    "UsageError",
    "aggregate",
    "call",
    "col",
    "concat",
    "count",
    "dft",
    "distinct",
    "evaluate",
    "explain",
    "feedback",
    "first",
    "floor",
    "frame_operator",
    "function",
    "haversine",
    "hypot",
    "if_else",
    "is_missing",
    "last",
    "like",
    "limited_loss",
    "load_program",
    "lossless",
    "max",
    "mean",
    "median",
    "min",
    "operator",
    "parse",
    "path_km",
    "plan_of",
    "quantile",
    "register_codec",
    "sensor",
    "split",
    "sql",
    "sqrt",
    "state",
    "std",
    "stream",
    "sum",
    "timer",
    "top_k",
    "user_aggregate",
    "variance",
]


def test_the_public_names_are_these() -> None:
    assert sorted(rs.__all__) == sorted(NAMES)
    assert all(getattr(rs, name) is not None for name in NAMES)


def test_what_type_checkers_see_is_what_is_loaded() -> None:
    tree = ast.parse(Path(rs.__file__).read_text(encoding="utf-8"))
    typed = {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname is not None
    }
    assert typed == set(NAMES)


def test_evaluate_stays_a_function_when_its_module_is_imported() -> None:
    for name in ("evaluate", "sql"):
        import_module(f"resurge.{name}")
    assert callable(rs.evaluate)
    assert callable(rs.sql)


def test_another_package_called_shared_is_named(tmp_path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "__init__.py").write_text("")
    root = Path(rs.__file__).parents[1]
    script = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(root)!r}]; import resurge"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert str(tmp_path / "shared") in done.stderr
    assert "[shared-hidden]" in done.stderr
