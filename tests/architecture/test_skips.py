"""A test is skipped for one of two reasons, each written in one place; any other skip fails its stage, whoever runs it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests import skips

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))  # the runner is a script: it finds what lies beside it
import stages  # noqa: E402

WAYS = {
    "skip",
    "skipif",
    "importorskip",
    "xfail",
    "SkipTest",
    "skipTest",
    "skipUnless",
    "collect_ignore",
    "collect_ignore_glob",
}
MAY = {"tests/skips.py", "tests/conftest.py"}


def test_tests_are_skipped_in_one_place():
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node, "attr", None) or getattr(node, "id", None)
            if name in WAYS and where not in MAY:
                found.append(f"{where}:{node.lineno} {name}")
    assert not found, f"take the fixture `outside_recordings`, or call skip_download of tests/skips.py: {found}"


ALLOWED = f"""
import pytest
from tests.skips import skip_download

def test_that_runs(): pass
def test_of_a_download(): skip_download("a server")
def test_of_recordings(): pytest.skip("{skips.RECORDINGS}: none here")
"""
FORBIDDEN = """
import pytest

def test_in_other_words(): pytest.skip("GeoLife is not here")
def test_that_only_mentions_it(): pytest.skip("not here: recordings absent")
@pytest.mark.skipif(True, reason="no javac")
def test_of_a_tool(): pass
"""
FORBIDDEN_MODULE = "import pytest\npytest.importorskip('no_such_module')\n"


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """Runs tests of these texts as a stage: whether pytest passed, and the reasons of the skips."""
    monkeypatch.setattr(stages, "REPORTS", tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # skips are pytest's own; plugins take longer to load

    def run(*texts: str) -> tuple[bool, list[str]]:
        for number, text in enumerate(texts):
            (tmp_path / f"test_{number}.py").write_text(text)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pytest_timeout"]
        command += ["-c", str(ROOT / "pyproject.toml")]
        return stages.run_stage("unit", [[*command, str(tmp_path)]])[:2]

    return run


@pytest.fixture(params=[0, 1000], ids=["root", "somebody"])
def user(request, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: request.param)


def test_a_stage_passes_with_skips_for_the_two_reasons(stage, user):
    passed, reasons = stage(ALLOWED)
    assert len(reasons) == 2
    assert stages.verdict("unit", passed, reasons) == ""


def test_any_other_skip_fails_the_stage(stage, user):
    passed, reasons = stage(ALLOWED, FORBIDDEN, FORBIDDEN_MODULE)
    assert passed, "pytest itself is content with them"
    assert len(reasons) == 6
    assert [stages.verdict("unit", passed, [reason]) for reason in sorted(reasons)].count(skips.OTHER_REASON) == 4
    assert stages.verdict("unit", passed, reasons) == skips.OTHER_REASON
    assert stages.verdict("unit", False, reasons) == "failed"


def test_where_recordings_are_asked_for_none_may_be_absent():
    absent = [f"Skipped: {skips.RECORDINGS}: none"]
    assert stages.verdict("unit", True, absent) == ""
    assert "no recordings" in stages.verdict("recordings", True, absent)
