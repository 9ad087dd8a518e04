"""What a gateway gets of a device that was used before it was paired, and what a recording gets of the pairing."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import numpy as np
import pytest

from mobile_app.home.keys import load_keys
from mobile_app.node.loop import Node
from mobile_app.node.surroundings import Surroundings
from mobile_app.sensors.choose import parse_choices
from mobile_app.settings import Gateway
from tests.log_batches import log_batches
from tests.mobile_app.node.test_loop import RAW, SETTINGS, plan
from tests.mobile_app.small_gateway import SmallGateway
from tests.patience import wait_until

SECONDS = 3000


@pytest.fixture
def track(tmp_path: Path) -> Path:
    path = tmp_path / "walk.csv"
    rows = [f"{second},{50 + second / 1e5:.6f},14.4" for second in range(SECONDS)]
    path.write_text("\n".join(["time,lat,lon", *rows]))
    return path


class Device:
    """A home whose node is opened again when it is paired, as the service does."""

    def __init__(self, home: Path, track: Path) -> None:
        home.mkdir()
        self.home = home
        self.gateway = SmallGateway()
        self.gateway.enrol_key(load_keys(home).public_key)
        self._sensors = parse_choices([f"gps=recording:{track}"])

    def open(self, *, paired: bool) -> Node:
        gateway = Gateway("http://here", self.gateway.keys.public_key, b"", 1) if paired else None
        lane = "gateway" if paired else "none"
        around = Surroundings(
            settings=SETTINGS, gateway=gateway, link=self.gateway, sensors=self._sensors, lane=lane, speed=60.0
        )
        return Node(self.home, around)

    def run(self, node: Node, condition) -> None:
        def done() -> bool:
            node.turn(time.monotonic())
            return bool(condition())

        wait_until(done, "the node")

    def delivered(self) -> list[int]:
        return [at for batch in log_batches(self.gateway.records, "raw") for at in batch.time_us.tolist()]


def test_pairing_neither_repeats_a_recording_nor_sends_what_was_read_before_it(tmp_path, track):
    device = Device(tmp_path / "home", track)
    node = device.open(paired=False)
    recordings = node.stores.recordings
    recording = recordings.start("walk", {"gps": 1_000_000}, node.stores.clock.now_us()).id
    device.run(node, lambda: recordings.state()["readings"].get("gps", 0) >= 100)
    node.close()
    device.gateway.plan_to_send = plan(tmp_path, RAW)
    node = device.open(paired=True)
    paired_us = node.stores.clock.now_us()
    device.run(node, lambda: len(device.delivered()) >= 40)
    recordings = node.stores.recordings
    recordings.stop(node.stores.clock.now_us())
    assert min(device.delivered()) >= paired_us
    times = np.concatenate([samples.time_us for _, samples in recordings.rows(recording)])
    assert len(times) >= 140
    assert all(before < after for before, after in itertools.pairwise(times.tolist()))
    node.close()


def test_a_device_that_is_paired_from_the_beginning_sends_a_file_from_its_beginning(tmp_path, track):
    device = Device(tmp_path / "home", track)
    device.gateway.plan_to_send = plan(tmp_path, RAW)
    node = device.open(paired=True)
    device.run(node, lambda: len(device.delivered()) >= 40)
    assert min(device.delivered()) == node.stores.clock.anchor.origin_us
    node.close()
