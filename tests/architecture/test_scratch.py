"""Where a stage's files lie: in memory if there is plenty, where its user says, or where temporary files always lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import scratch


@pytest.fixture(autouse=True)
def roomy(tmp_path, monkeypatch):
    """A machine with plenty of memory, whose files in memory lie here."""
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(scratch, "MEMORY", tmp_path)
    monkeypatch.setattr(scratch, "FREE_MIN", 0)
    monkeypatch.setattr(scratch, "AVAILABLE_MIN", 0)


def test_a_stage_has_a_directory_that_goes_away_with_it(tmp_path):
    with scratch.scratch() as more:
        directory = Path(more["TMPDIR"])
        assert directory.parent == tmp_path
        assert directory.stat().st_mode & 0o777 == 0o711
        (directory / "left.txt").write_text("by a test that failed")
    assert list(tmp_path.iterdir()) == []


def test_whoever_says_where_temporary_files_lie_is_obeyed(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "mine"))
    with scratch.scratch() as more:
        assert more == {}


@pytest.mark.parametrize("bound", ["FREE_MIN", "AVAILABLE_MIN"])
def test_with_little_memory_files_lie_on_the_disk(monkeypatch, bound):
    monkeypatch.setattr(scratch, bound, 1 << 60)
    with scratch.scratch() as more:
        assert more == {}


def test_where_nothing_could_be_started_or_nobody_counts_memory_there_is_none(tmp_path, monkeypatch):
    found = os.statvfs(tmp_path)
    assert scratch.has_room(tmp_path) is not bool(found.f_flag & os.ST_NOEXEC)
    monkeypatch.setattr(os, "statvfs", lambda _: type("Mounted", (), {"f_flag": os.ST_NOEXEC}))
    assert not scratch.has_room(tmp_path)
    assert not scratch.has_room(tmp_path / "nowhere")
    assert scratch.available(tmp_path / "nowhere") == 0
