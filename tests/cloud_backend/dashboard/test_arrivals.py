"""Contact as the log shows it."""

from __future__ import annotations

from cloud_backend.dashboard.arrivals import HISTORY_S, SECOND_US, Arrivals
from shared.identity import device_id, edge_id
from shared.wire.frame import Frame, FrameType, encode

DEVICE = device_id(b"phone")
EDGE = edge_id("gps")


def arrivals_of(*exchanges: tuple[float, int]) -> Arrivals:
    """Exchanges at these seconds with this many elements; 0 elements is an exchange with a frontier only."""
    arrivals = Arrivals(offline_after_us=5 * SECOND_US)
    for second, count in exchanges:
        kind = FrameType.DATA if count else FrameType.FRONTIER
        arrivals.take(int(second * SECOND_US), encode(Frame(kind, DEVICE, edge=EDGE, count=count)))
    return arrivals


def test_elements_are_counted_in_the_second_they_arrived():
    arrivals = arrivals_of((100.2, 3), (100.9, 2), (102.0, 7))
    assert arrivals.per_second(start=99, end=103) == {DEVICE.hex(): [0, 5, 0, 7]}


def test_a_gap_longer_than_allowed_is_an_outage_and_a_lone_frontier_is_contact():
    #  100   104   108               120
    #   x     f     x ------------->  x
    arrivals = arrivals_of((100, 1), (104, 0), (108, 1), (120, 40))
    assert list(arrivals.device(DEVICE.hex()).outages) == [(108 * SECOND_US, 120 * SECOND_US)]
    assert arrivals.device(DEVICE.hex()).outage_count == 1


def test_history_is_bounded_and_the_outage_count_is_not_forgotten():
    arrivals = arrivals_of((10, 1), (20, 1), (20 + HISTORY_S * 2, 1))
    device = arrivals.device(DEVICE.hex())
    assert (len(device.elements), device.outage_count) == (1, 2)
    assert len(device.outages) == 1


def test_a_device_never_heard_of_has_no_arrivals():
    assert arrivals_of().device("00").last_us is None
