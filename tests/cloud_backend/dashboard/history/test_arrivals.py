"""Contact as the log shows it."""

from __future__ import annotations

from cloud_backend.dashboard.history.arrivals import HISTORY_S, SECOND_US, Arrivals
from shared.identity import device_id, edge_id
from shared.wire.frame import Frame, FrameType, encode

DEVICE = device_id(b"phone")
EDGE = edge_id("gps")


def arrivals_of(*exchanges: tuple[float, int]) -> Arrivals:
    """Exchanges at these seconds with this many elements; 0 elements is an exchange with a frontier only."""
    arrivals = Arrivals()
    for second, count in exchanges:
        kind = FrameType.DATA if count else FrameType.FRONTIER
        arrivals.take(int(second * SECOND_US), encode(Frame(kind, DEVICE, edge=EDGE, count=count)))
    return arrivals


def test_elements_are_counted_in_the_second_they_arrived():
    arrivals = arrivals_of((100.2, 3), (100.9, 2), (102.0, 7))
    assert arrivals.per_second(start=99, end=103, devices={DEVICE.hex()}) == {DEVICE.hex(): [0, 5, 0, 7]}


def test_a_gap_much_longer_than_usual_is_an_outage_and_a_lone_frontier_is_contact():
    #  100 101 102 103 104 --------> 112
    #   x   x   f   x   f             x
    arrivals = arrivals_of((100, 1), (101, 1), (102, 0), (103, 1), (104, 0), (112, 40))
    assert list(arrivals.device(DEVICE.hex()).outages) == [(104 * SECOND_US, 112 * SECOND_US)]
    assert arrivals.device(DEVICE.hex()).outage_count == 1


def test_a_phone_that_speaks_once_a_minute_is_not_offline_in_between():
    arrivals = arrivals_of(*((60 * minute, 1) for minute in range(1, 9)))
    assert arrivals.device(DEVICE.hex()).outage_count == 0
    assert arrivals.device(DEVICE.hex()).gap_us_max() == 180 * SECOND_US


def test_a_phone_whose_pace_is_not_known_yet_gets_the_benefit_of_the_doubt():
    assert arrivals_of((100, 1), (160, 1)).device(DEVICE.hex()).outage_count == 0
    assert arrivals_of((100, 1), (200, 1)).device(DEVICE.hex()).outage_count == 1


def test_records_of_one_exchange_do_not_make_the_pace():
    arrivals = arrivals_of((100, 1), (100, 1), (101, 1), (101, 0), (102, 1), (103, 1), (107, 1))
    assert arrivals.device(DEVICE.hex()).outage_count == 0
    assert arrivals.device(DEVICE.hex()).gaps == 4


def test_the_rate_is_that_of_the_last_minute_heard():
    arrivals = arrivals_of(*((1000 + second, 4) for second in range(120)))
    assert arrivals.device(DEVICE.hex()).rate() == 4.0


def test_history_is_bounded_and_the_outage_count_is_not_forgotten():
    arrivals = arrivals_of((10, 1), (110, 1), (110 + HISTORY_S * 2, 1))
    device = arrivals.device(DEVICE.hex())
    assert (len(device.elements), device.outage_count) == (1, 2)
    assert len(device.outages) == 1


def test_a_device_never_heard_of_has_no_arrivals():
    assert arrivals_of().device("00").last_us is None
