"""The zip that executors run is named by its content and holds everything a task imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cloud_backend.spark.cluster.shipping import code_hash, source_files, write_zip


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    files = source_files(["tests.spark.operators"])
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, digest = write_zip(tmp_path / "a", files)
    second, again = write_zip(tmp_path / "b", files)
    assert digest == again
    assert first.read_bytes() == second.read_bytes()


def test_any_change_changes_the_name(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text("x = 1\n")
    before = code_hash({"module.py": source})
    source.write_text("x = 2\n")
    assert code_hash({"module.py": source}) != before
    assert code_hash({"other.py": source}) != code_hash({"module.py": source})


def test_a_task_can_be_imported_from_the_zip_alone(tmp_path: Path) -> None:
    archive, _ = write_zip(tmp_path, source_files(["tests.spark.operators"]))
    code = "import cloud_backend.spark.task.task as t, tests.spark.operators; print(t.__file__)"
    answer = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(archive), "PATH": ""},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert archive.name in answer.stdout
