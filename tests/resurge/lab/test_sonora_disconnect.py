from __future__ import annotations

import pytest

from resurge.lab.sonora_disconnect import run


@pytest.mark.covers("SO-10", "SO-44")
def test_a_minute_without_a_network_is_masked_and_followed_by_a_burst() -> None:
    report = run()
    assert report["ok"], [shape for shape in report["shapes"] if not shape["ok"]]
