"""The readings of the paper's nine nodes: what a comparison takes for stored is what a node reads, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mobile_app.sensors.file_formats import load
from resurge.lab._paper_fleet import SIGNALS, Columns, as_stored, counter_rows, player_rows, write_record


@pytest.mark.parametrize("make", [player_rows, counter_rows])
def test_a_node_reads_a_record_as_the_run_without_failures_has_it(
    make: Callable[[np.ndarray], Columns], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESURGE_RECORDINGS", str(tmp_path / "none"))  # stand-ins: they have values that round to -0.0
    rows: Columns = make(np.arange(5_000))
    write_record(tmp_path / "r.hea", rows, 100)
    read = load(tmp_path / "r.hea").columns
    for signal, item in zip(SIGNALS, rows.items(), strict=False):
        assert read[signal].tobytes() == as_stored(item).tobytes(), item[0]


def test_a_value_that_16_bits_do_not_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="16 bits"):
        write_record(tmp_path / "r.hea", {"y": np.array([40_000.0])}, 100)
