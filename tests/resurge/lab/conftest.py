"""Experiments draw their figures into a directory of the test, not into the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from resurge.lab import _figure


@pytest.fixture(autouse=True)
def figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "figures"
    monkeypatch.setattr(_figure, "FIGURES", directory)
    return directory
