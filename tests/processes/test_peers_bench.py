"""`resurge bench peers` on few batches: two real nodes meet, every element is taken, and the report has its form."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from resurge.up.process_fleet import ROOT

pytestmark = pytest.mark.processes


@pytest.mark.soak
def test_elements_over_an_edge_are_counted_at_every_size() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "resurge", "bench", "peers", "--quick", "--json"], cwd=ROOT, capture_output=True,
        text=True, check=False, timeout=240,
    )  # fmt: skip
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["bench"] == "peers"
    for size, rows in (("1 KB", 62), ("64 KB", 4095), ("1 MB", 62499)):
        figures = report["figures"][size]
        assert figures["elements in a batch"] == rows
        assert min(figures["ours"], figures["ours, from its disk"], figures["pyzmq"]) > rows
    goals = {check["name"]: check["goal"] for check in report["checks"]}
    assert goals["64 KB: elements/s, ours / bare pyzmq exchange"] == ">= 0.5"
    assert goals["1 MB: elements/s, ours / bare pyzmq exchange"] == ">= 0.5"
    assert "nats" in report["absent"] or goals["1 MB: elements/s, ours / NATS JetStream"] == ">= 1.0"
    assert report["figures"]["checkpoints"]["us_per_element_without"] > 0
