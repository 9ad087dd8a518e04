"""A loop on a battery: how long it sleeps, what wakes it, and that nothing it has read is lost by sleeping."""

from __future__ import annotations

from pathlib import Path

import pytest

import resurge as rs
from mobile_app.home.keys import load_keys
from mobile_app.node.rest import LOOK_S, OnBattery
from mobile_app.settings import Gateway
from resurge.bench._wakes import Spent, an_hour
from shared.plan.graph import Plan
from tests.mobile_app.small_gateway import SmallGateway

ORIGIN_US = 1_790_000_000_000_000
SECOND = 1_000_000


class NeverUp:
    def __init__(self) -> None:
        self.listened: list[bool] = []

    def sleep(self, seconds: float, waiting: object) -> None: ...

    def radio_up(self) -> bool:
        return False

    def listen(self, *, on: bool) -> None:
        self.listened.append(on)


@pytest.mark.parametrize(
    ("periods_us", "turn_s", "sleeps"),
    [
        ({}, LOOK_S, True),
        ({"accelerometer": 10_000}, 1.0, False),  # 100 Hz
        ({"accelerometer": 40_000}, 5.0, True),  # 25 Hz: the sensor hub collects
        ({"gps": SECOND}, 5.0, True),
        ({"gps": 60 * SECOND}, LOOK_S, True),  # a fix wakes the loop by itself
        ({"gps": 60 * SECOND, "light": 20 * SECOND}, 20.0, True),
        ({"light": 60 * SECOND}, 60.0, True),
    ],
)
def test_the_length_of_a_turn_follows_what_is_read(periods_us, turn_s, sleeps):
    rest = OnBattery(NeverUp())
    assert rest.turn_s(1.0, periods_us, 5.0) == turn_s
    assert rest.may_sleep(periods_us) is sleeps


def test_it_speaks_before_it_is_due_when_somebody_looks_or_the_radio_is_up():
    class Up(NeverUp):
        def radio_up(self) -> bool:
            return True

    assert OnBattery(NeverUp()).asks(since_s=31.0, watched=True)
    assert not OnBattery(NeverUp()).asks(since_s=3000.0, watched=False)
    assert OnBattery(Up()).asks(since_s=LOOK_S, watched=False)
    assert not OnBattery(Up()).asks(since_s=60.0, watched=False), "others use the network all the time"


def test_a_phone_is_told_to_hear_broadcasts_when_that_changes():
    phone = NeverUp()
    rest = OnBattery(phone)
    for on in (False, True, True, False, False):
        rest.listen(on=on)
    assert phone.listened == [True, False]


def plan(tmp_path: Path, sensor: str, every: str) -> Plan:
    path = tmp_path / "program.py"
    path.write_text(f"import resurge as rs\nrs.sensor({sensor!r}, every={every!r}).sync('out', within='15m')\n")
    return rs.load_program(path)


def hour(
    tmp_path: Path, wanted: Plan | None, periods_us: dict[str, int], *, sparing: bool, lying_still: bool = False
) -> tuple[Spent, SmallGateway]:
    home = tmp_path / ("sparing" if sparing else "awake")
    home.mkdir()
    gateway = SmallGateway()
    gateway.enrol_key(load_keys(home).public_key)
    paired = Gateway("http://here", gateway.keys.public_key, b"", 1)
    spent = an_hour(
        home, paired, gateway, origin_us=ORIGIN_US, plan=wanted, periods_us=periods_us, sparing=sparing,
        lying_still=lying_still,
    )  # fmt: skip
    return spent, gateway


def test_a_paired_phone_with_nothing_to_do_hardly_wakes(tmp_path):
    figures = hour(tmp_path, None, {}, sparing=True)[0].figures()
    assert figures["wakes"] <= 6
    assert figures["radio_wakes"] <= 2
    before = hour(tmp_path, None, {}, sparing=False)[0].figures()
    assert before["awake_s"] == 3600.0
    assert before["radio_wakes"] >= 100
    assert figures["modelled_mw"] < before["modelled_mw"] / 5


def test_a_position_a_minute_costs_a_wake_a_minute(tmp_path):
    spent, gateway = hour(tmp_path, plan(tmp_path, "gps", "60s"), {"gps": 60 * SECOND}, sparing=True)
    figures = spent.figures()
    assert spent.fixes == 60
    assert figures["wakes"] <= 70
    assert figures["radio_wakes"] <= 6
    delivered = sum(frame.count for frame in gateway.records)
    assert delivered >= 45, "within a quarter of an hour, as the program asks"


def test_a_phone_that_lies_still_hardly_uses_its_receiver(tmp_path):
    wanted, periods_us = plan(tmp_path, "gps", "1s"), {"gps": SECOND}
    spent, gateway = hour(tmp_path, wanted, periods_us, sparing=True, lying_still=True)
    figures = spent.figures()
    assert 100 < figures["gps_s"] < 600, "five minutes at first, then a minute in each quarter of an hour"
    assert spent.fixes == pytest.approx(figures["gps_s"], abs=10)
    assert figures["wakes"] < 150
    (tmp_path / "sparing").rename(tmp_path / "before")
    moving = hour(tmp_path, wanted, periods_us, sparing=True)[0].figures()
    assert (moving["gps_s"], moving["wakes"] > 600) == (3600.0, True)
    assert figures["modelled_mw"] < moving["modelled_mw"] / 3
    assert sum(frame.count for frame in gateway.records) >= spent.fixes - 60, "nothing is lost in a pause"
