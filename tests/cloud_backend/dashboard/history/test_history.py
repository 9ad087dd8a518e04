"""What the log said by hour: taken in once, kept over a restart, right for backlogs."""

from __future__ import annotations

import pytest

from cloud_backend.dashboard.drawing.heat_map import heat_map, level, strip, summary
from cloud_backend.dashboard.history.completeness import by_device, cells_of, hours_until
from cloud_backend.dashboard.history.edges import HOUR_US
from cloud_backend.dashboard.history.history import History
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from shared.batch import Batch
from shared.identity import device_id, edge_id
from shared.language.schema import Schema
from shared.spool.disk import PosixDisk
from shared.wire import columns
from shared.wire.frame import encode
from shared.wire.messages import Data, Declare, Frontier, LostRange

DEVICE = device_id(b"tram-07")
NAME = "gps"
EDGE = edge_id(NAME)
SCHEMA = Schema.of({"lat": "float64", "lon": "float64"})
HOUR = 500_000  # since 1970
NOW_US = (HOUR + 1) * HOUR_US


class World:
    def __init__(self, directory) -> None:
        self.path = directory / "history.sqlite"
        self.log = Log.open(PosixDisk(directory / "log"), segment_bytes=4000)
        self.next_seq = 0
        self.append(Declare(DEVICE, 1, EDGE, NAME, SCHEMA), at_us=HOUR * HOUR_US)

    def append(self, message, *, at_us: int) -> None:
        self.log.append([Record(at_us, encode(message.frame()))])
        self.log.sync()

    def batch(self, end_us: int, *, count: int = 10, at_us: int | None = None, lat: float = 51.0) -> None:
        times = [end_us - 1_000_000 * (count - number) for number in range(count)]
        content = {"lat": [lat] * count, "lon": [12.0 + number / 1000 for number in range(count)]}
        batch = Batch.of(SCHEMA, content, times, lo=self.next_seq, frontier_us=end_us)
        codec, payload = columns.encode(batch)
        data = Data(DEVICE, 1, EDGE, batch.lo, batch.hi, count, SCHEMA.id, 0, codec, payload, end_us)
        self.next_seq += count
        self.append(data, at_us=end_us if at_us is None else at_us)

    def lose(self, count: int, *, at_us: int) -> None:
        self.append(LostRange(DEVICE, 1, EDGE, self.next_seq, self.next_seq + count, "evicted"), at_us=at_us)
        self.next_seq += count

    def history(self) -> History:
        history = History(self.log, self.path)
        assert history.follow() == 0
        return history


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_elements_count_for_the_hour_they_were_measured_in_not_the_hour_they_arrived(world):
    world.batch(HOUR * HOUR_US + 60_000_000, at_us=(HOUR + 3) * HOUR_US)
    (edge,) = world.history().edges.values()
    assert list(edge.hours) == [HOUR]
    assert edge.hours[HOUR].elements == 10


def test_a_restart_goes_on_where_it_stopped_and_counts_nothing_twice(world):
    world.batch(HOUR * HOUR_US + 60_000_000)
    world.lose(5, at_us=HOUR * HOUR_US + 61_000_000)
    first = world.history()
    first.close()
    world.batch(HOUR * HOUR_US + 120_000_000)
    again = world.history()
    (edge,) = again.edges.values()
    assert (edge.hours[HOUR].elements, edge.hours[HOUR].ledgered, edge.high_water) == (20, 5, 25)
    assert [entry.reason for entry in again.ledger()] == ["evicted"]
    assert len(again.trails.of(DEVICE.hex())) == 2
    assert again.names == {EDGE: NAME}


def test_opening_reads_nothing_until_somebody_asks_and_closing_at_once_keeps_what_was_there(world):
    world.batch(NOW_US - 1)
    world.history().close()
    closed_at_once = History(world.log, world.path)
    assert (closed_at_once.edges, closed_at_once.names) == ({}, {})  # a gateway's start does not wait for them
    closed_at_once.close()
    again = History(world.log, world.path)
    assert again.behind_bytes == 0
    assert again.names == {EDGE: NAME}
    assert [known.high_water for known in again.edges.values()] == [10]


def test_a_restart_shows_the_last_minutes_again(world):
    for second in range(30):
        world.batch(HOUR * HOUR_US + second * 1_000_000 + 20_000_000, count=2)
    first = world.history()
    first.close()
    again = world.history()
    assert again.arrivals.total(start=HOUR * 3600, end=HOUR * 3600 + 60) == first.arrivals.total(
        start=HOUR * 3600, end=HOUR * 3600 + 60
    )
    assert [place.lo for place in again.recent[EDGE]] == [place.lo for place in first.recent[EDGE]]


def test_another_log_in_the_same_place_starts_a_history_of_its_own(world, tmp_path):
    for second in range(40):
        world.batch(HOUR * HOUR_US + second * 1_000_000 + 20_000_000)
    world.history().close()
    other = World(tmp_path / "other")
    other.path = world.path
    assert other.history().edges == {}


def test_reading_within_a_time_limit_leaves_the_rest_for_later(world):
    for second in range(3000):
        world.log.append(
            [Record(HOUR * HOUR_US + second, encode(Frontier(DEVICE, 1, EDGE, 0, HOUR * HOUR_US + second).frame()))]
        )
    world.log.sync()
    history = History(world.log, world.path)
    left = history.follow(seconds_max=0.0)
    assert left > 0
    assert left == history.behind_bytes
    assert history.follow() == 0


@pytest.mark.parametrize(
    ("frontier_s", "share"),
    [(0, 0.0), (900, 0.25), (3600, 1.0), (9000, 1.0)],
)
def test_an_hour_is_complete_as_far_as_the_frontier_covers_it(world, frontier_s, share):
    world.append(Frontier(DEVICE, 1, EDGE, 0, HOUR * HOUR_US), at_us=HOUR * HOUR_US)
    world.append(Frontier(DEVICE, 1, EDGE, 0, HOUR * HOUR_US + frontier_s * 1_000_000), at_us=NOW_US + 9 * HOUR_US)
    (edge,) = world.history().edges.values()
    assert edge.coverage(HOUR, NOW_US) == pytest.approx(share)


def test_what_was_given_up_makes_an_hour_incomplete_for_good(world):
    world.batch(HOUR * HOUR_US + 1_800_000_000, count=30)
    world.lose(10, at_us=NOW_US)
    world.append(Frontier(DEVICE, 1, EDGE, 0, NOW_US), at_us=NOW_US)
    history = world.history()
    (cell,) = cells_of([(True, edge) for edge in history.edges.values()], [HOUR], NOW_US)
    assert cell.share == pytest.approx(0.75)
    assert (cell.delivered, cell.ledgered) == (30, 10)


def test_nothing_is_awaited_from_a_revoked_device(world):
    world.batch(HOUR * HOUR_US + 60_000_000)
    history = world.history()
    (cell,) = cells_of([(False, edge) for edge in history.edges.values()], [HOUR], NOW_US)
    assert cell.share is None
    assert cell.delivered == 10


def test_a_frontier_from_the_future_is_capped_at_its_arrival(world):
    world.batch(HOUR * HOUR_US + 60_000_000)
    world.append(Frontier(DEVICE, 1, EDGE, 0, NOW_US + 99 * HOUR_US), at_us=HOUR * HOUR_US + 70_000_000)
    (edge,) = world.history().edges.values()
    assert edge.frontier_us == HOUR * HOUR_US + 70_000_000


def test_a_position_that_is_nowhere_is_no_part_of_a_trail(world):
    world.batch(HOUR * HOUR_US + 60_000_000, lat=float("nan"))
    world.batch(HOUR * HOUR_US + 120_000_000, lat=91.0)
    world.batch(HOUR * HOUR_US + 180_000_000, lat=51.5)
    assert [point.lat for point in world.history().trails.of(DEVICE.hex())] == [51.5]


def test_a_heat_map_says_in_words_what_it_shows_and_escapes_names(world):
    world.batch(HOUR * HOUR_US + 1_800_000_000)
    world.lose(10, at_us=HOUR * HOUR_US + 1_800_000_000)
    history = world.history()
    rows = by_device({DEVICE.hex(): each for each in history.edges.values()}, {DEVICE.hex(): "<b>"}, NOW_US, count=9)
    drawn = heat_map(rows)
    assert "&lt;b&gt;" in drawn
    assert "<b>" not in drawn
    assert "10 given up" in drawn
    assert len(rows[0].cells) == len(hours_until(NOW_US))
    assert "worst" in summary("gps", rows[0].cells)
    assert 'role="img"' in strip(rows[0].cells, "gps")
    assert [level(share) for share in (None, 0.0, 0.6, 0.95, 0.995, 1.0)] == ["none", "l0", "l1", "l2", "l3", "l4"]
