"""A phone is awake for its region while it is in it, and sleeps as it did before once it has left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mobile_app.headless import NoLink
from mobile_app.node.loop import Node
from mobile_app.node.rest import OnBattery, Waiting
from mobile_app.node.surroundings import Surroundings
from mobile_app.screens.words.fleet_text import region_facts
from mobile_app.sensors.choose import parse_choices
from mobile_app.settings import Settings
from shared.hosting.fleet_file import read_fleet
from tests.mobile_app.node.test_hosting import fleet_file, hosting_of, started
from tests.patience import wait_until

HERE, AWAY = (1.3521, 103.8198), (1.5, 103.8198)
TURNS, LONG_S = 12, 10.0
REGION = """
[[region]]
query = "q"
center = [1.3521, 103.8198]
radius = 20
dwell = "1s"
threshold = 1
"""


class Phone:
    """Notes how long its processor sleeps, by a clock that jumps meanwhile."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self._jumped = 0.0

    def now(self) -> float:
        return time.monotonic() + self._jumped

    def sleep(self, seconds: float, waiting: Waiting) -> None:
        self.slept.append(seconds)
        self._jumped += seconds

    def radio_up(self) -> bool:
        return False

    def listen(self, *, on: bool) -> None: ...


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Node]]:
    file = fleet_file(tmp_path, "desk", "phone")
    text = file.read_text().replace('strategy = "ecoc"\nevery = 20\n', "").replace("keepers = 0\n", "")
    file.write_text(text + REGION)
    phone = Phone()
    around = Surroundings(
        settings=Settings(spool_mb=2, fleet_spool_mb=1), gateway=None, link=NoLink(), lane="none",
        sensors=parse_choices(["gps=synthetic:3"]), fleet=read_fleet(file), rest=OnBattery(phone, now=phone.now),
    )  # fmt: skip
    found = [started(tmp_path / "desk", file), Node(tmp_path / "phone", around)]
    yield found
    for node in found:
        node.close()


def step(nodes: list[Node]) -> None:
    for node in nodes:
        hosting_of(node).step(node.rest.now())


def nights(node: Node, phone: Phone) -> list[float]:
    """What its processor slept in some turns of its loop."""
    turns = iter(range(TURNS))
    phone.slept.clear()
    node.run(lambda: next(turns, None) is None)
    return list(phone.slept)


def test_a_phone_is_awake_in_its_region_and_sleeps_before_and_after(nodes: list[Node]) -> None:
    desk, two = nodes
    hosting, phone = hosting_of(two), two.rest._platform  # type: ignore[union-attr]
    assert not nights(two, phone), "it does not know yet what its fleet wants of it"
    wait_until(lambda: step(nodes) or bool(hosting.areas), "the phone follows its fleet")
    assert hosting.may_sleep({}), "it is in no region"
    assert not hosting.may_sleep({"q": "dwelling"}), "who stays here is asked for soon"
    assert not hosting_of(desk).may_sleep({}), "who coordinates is always awake"
    assert max(nights(two, phone), default=0.0) > LONG_S, "it does not wake for its fleet"

    def walked(to: tuple[float, float], *, member: bool) -> bool:
        hosting.host.here.position, hosting.host.here.leaving = to, ""
        step(nodes)
        return hosting.is_member is member

    wait_until(lambda: walked(HERE, member=True), "the phone is a member")
    assert not hosting.may_sleep({})
    assert not nights(two, phone), "others count on it"
    (region,) = hosting.regions({"q": "hosting"}, two.rest)
    assert region["hour"]["exchanges"] == 1440
    assert region["hour"]["wakes_alone"] == 4
    assert 1.2 < region["hour"]["watt_hours"] < 1.35, "by the model: awake with its radio up, less asleep"
    said = dict(region_facts(region))["What being here costs"]
    assert "stays awake" in said
    assert "modelled" in said
    (unseen,) = hosting.regions({"q": "hosting"}, desk.rest)
    assert "What being here costs" not in dict(region_facts(unseen)), "on the mains it costs nothing worth a line"

    wait_until(lambda: walked(AWAY, member=False), "the phone has left")
    assert max(nights(two, phone), default=0.0) > LONG_S, "it goes back to its own pace"
