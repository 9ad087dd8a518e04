"""Alerts on the phone: each rings once, over restarts, and one that is over by then says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from mobile_app.node.results import Results
from shared.wire.alerts import ALERT_SINK, BEGAN, OVER, AlertNews


def news(number: int, *, over: bool = False, began_us: int = 5) -> dict[str, object]:
    said = AlertNews(number, "noisy", "noisy: level > 80", began_us, over)
    return {
        "sink": ALERT_SINK, "key": [number], "window_start_us": began_us, "window_end_us": began_us, "row": 0,
        "revision": OVER if over else BEGAN, "retract": False, "complete": True, "values": said.values(),
    }  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def ring_all(home: Path) -> list[tuple[int, str]]:
    """What a node shows that starts on this home."""
    results = Results(home)
    rings = results.rings()
    for ring in rings:
        results.rung(ring)
    results.close()
    return [(ring.number, ring.text) for ring in rings]


def test_an_alert_rings_once_whatever_comes_again(home: Path):
    results = Results(home)
    results.apply([(1, news(7))])
    results.close()  # killed before it rang
    assert ring_all(home) == [(7, "noisy: level > 80")]
    results = Results(home)
    results.apply([(2, news(7))])  # the gateway was killed while it handed it over
    results.apply([(3, news(7, over=True)), (4, news(8))])
    results.close()
    assert ring_all(home) == [(8, "noisy: level > 80")]
    assert ring_all(home) == []


def test_one_that_is_over_before_it_came_rings_once_and_says_so(home: Path):
    results = Results(home)
    results.apply([(1, news(7)), (2, news(7, over=True))])
    results.close()
    assert ring_all(home) == [(7, "noisy: level > 80; it is over")]


def test_a_malformed_alert_rings_nowhere_and_is_counted(home: Path):
    results = Results(home)
    results.apply([(1, news(7) | {"values": {"rule": 3}}), (2, news(9) | {"key": ["x"]})])
    assert (results.rings(), results.malformed, results.through) == ([], 2, 2)
    results.close()


def test_another_gateways_alert_of_the_same_number_rings_too(home: Path):
    results = Results(home)
    results.apply([(1, news(7))])
    results.close()
    assert len(ring_all(home)) == 1
    results = Results(home)
    results.apply([(2, news(7, began_us=99))])
    results.close()
    assert len(ring_all(home)) == 1
