"""The modelled medium: one Wi-Fi is shared, a broadcast takes its time once, 3G is each phone's own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from heapq import heappop, heappush

import pytest

from resurge.lab._medium import CELLULAR_S, WIFI_S, Medium, Rates
from resurge.lab._phones import Model

MEGABIT = 125_000  # bytes
RATES = Rates(wifi=1e6, up=0.1e6, down=0.5e6)


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self.came: dict[str, float] = {}
        self._order = itertools.count()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        regions = {"a": 0, "b": 0, "c": 0, "d": 1}
        self.medium = Medium(self.at, lambda: self.now, RATES, regions.get, "server")

    def at(self, time: float, act: Callable[[], None]) -> None:
        heappush(self._heap, (time, next(self._order), act))

    def arrives(self, name: str) -> Callable[[], None]:
        return lambda: self.came.update({name: self.now})

    def run(self) -> dict[str, float]:
        while self._heap:
            self.now, _, act = heappop(self._heap)
            act()
        return self.came


@pytest.mark.covers("MS-36")
def test_who_sends_in_a_region_shares_its_wifi_and_other_regions_have_their_own() -> None:
    world = World()
    world.medium.send("a", "b", MEGABIT, world.arrives("large"))
    world.medium.send("b", "c", MEGABIT, world.arrives("as large"))
    world.medium.send("c", "a", 1000, world.arrives("small"))
    came = world.run()
    assert came["small"] < 0.1  # it takes turns with the others, and does not wait behind them
    assert came["large"] == pytest.approx(2.0, rel=0.05)
    assert came["as large"] == pytest.approx(2.008 + WIFI_S, rel=0.01)


def test_a_broadcast_takes_its_time_once_and_needs_a_region() -> None:
    world = World()
    assert world.medium.broadcast("a", MEGABIT, world.arrives("all"))
    assert not world.medium.broadcast("server", MEGABIT, world.arrives("nobody"))
    assert world.run() == {"all": pytest.approx(1.0 + WIFI_S)}
    assert world.medium.sent("wifi") == MEGABIT


@pytest.mark.covers("MS-36")
def test_between_regions_it_goes_up_and_down_each_phone_s_own_3g() -> None:
    world = World()
    world.medium.send("a", "d", MEGABIT, world.arrives("to another region"))
    world.medium.send("b", "server", MEGABIT, world.arrives("to a server"))
    assert world.run() == {
        "to a server": pytest.approx(10.0 + CELLULAR_S),
        "to another region": pytest.approx(10.0 + CELLULAR_S + 2.0),
    }
    assert (world.medium.sent("wifi"), world.medium.sent("up")) == (0, 2 * MEGABIT)


def test_what_a_stopped_phone_had_to_send_is_not_sent() -> None:
    world = World()
    world.medium.send("a", "b", MEGABIT, world.arrives("of a"))
    world.medium.send("b", "c", MEGABIT, world.arrives("of b"))
    world.medium.stop("a")
    assert world.run() == {"of b": pytest.approx(1.033 + WIFI_S, rel=0.01)}


@pytest.mark.covers("MS-37")
@pytest.mark.parametrize(("program", "kilobytes", "slowest_s", "under_way"), [
    ("bus_capacity", 181.818, 2 / 0.54, 17), ("traffic_signal", 111.111, 1 / 0.8, 20),
])  # fmt: skip
def test_the_phones_are_those_of_the_paper_s_table(
    program: str, kilobytes: float, slowest_s: float, under_way: int
) -> None:
    assert Model.characters(program) / 1000 == pytest.approx(kilobytes, abs=0.001)
    assert max(Model.seconds(program).values()) == pytest.approx(slowest_s)
    assert Model.under_way(program) == under_way
