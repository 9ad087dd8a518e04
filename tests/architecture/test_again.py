"""A test that ran out of patience is run once more, alone, and said; whatever else fails, fails its stage."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))  # the runner is a script: it finds what lies beside it
import stages  # noqa: E402

LATE = """
from pathlib import Path
from tests.patience import wait_until

HERE = Path(__file__).with_suffix(".seen")

def test_late():
    seen = HERE.exists()
    HERE.touch()
    wait_until(lambda: seen, "an answer", patience_s=0.01)
"""
NEVER = LATE.replace("lambda: seen", "lambda: False")
IN_SETUP = (
    LATE.replace("def test_late():", "import pytest\n@pytest.fixture\ndef answer():")
    + "\ndef test_of_it(answer): pass\n"
)
# Each would pass if it were run again, so that nothing but the rule fails the stage.
WRONG_ONCE = LATE.replace('wait_until(lambda: seen, "an answer", patience_s=0.01)', 'assert seen, "two digests differ"')
BROKEN = "no python at all\n"


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """Runs these texts, a command each, as a stage of processes."""
    monkeypatch.setattr(stages, "REPORTS", tmp_path / "reports")
    monkeypatch.setattr(stages, "ROOT", tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "reports").mkdir()
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    pytest_here = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    monkeypatch.setattr(stages, "PYTEST", pytest_here)

    def run(*texts: str) -> tuple[bool, list[str]]:
        commands = []
        for number, text in enumerate(texts):
            (tmp_path / f"test_{number}.py").write_text(text)
            commands.append([*pytest_here, f"test_{number}.py"])
        passed, _, alone = stages.run_stage("processes", commands)
        return passed, alone

    return run


def test_what_was_late_beside_others_may_pass_alone_and_is_named(stage):
    assert stage(LATE, "def test_right(): pass\n") == (True, ["test_0.py::test_late"])


def test_so_may_a_fixture_that_was_late(stage):
    assert stage(IN_SETUP) == (True, ["test_0.py::test_of_it"])


def test_what_is_late_alone_too_fails_its_stage(stage):
    assert stage(NEVER) == (False, [])


@pytest.mark.parametrize("wrong", [WRONG_ONCE, BROKEN], ids=["wrong", "broken"])
def test_anything_else_that_fails_is_not_run_again(stage, wrong):
    assert stage(LATE, wrong) == (False, [])
