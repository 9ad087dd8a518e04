"""What the doctor finds in a gateway's home."""

from __future__ import annotations

import time

import pytest

from cloud_backend.gateway.certificate import load_certificate
from cloud_backend.log.format import Record
from resurge.cli import doctor
from shared.identity import device_id, edge_id
from shared.wire.frame import Frame, FrameType, encode
from tests.cloud_backend.dashboard.house import House


@pytest.fixture
def house(tmp_path):
    made = House(tmp_path)
    yield made
    made.close()


def found(house) -> dict[str, doctor.Finding]:
    return {finding.name: finding for finding in doctor.findings(1, house.settings.home)}


def test_a_sound_home_is_found_sound_and_advice_is_told_apart(house):
    house.settings.home.chmod(0o700)
    checks = found(house)
    assert checks["home"].ok
    assert checks["clock and log"].ok
    assert checks["curve"].ok
    assert checks["argon2-cffi"].ok
    assert not checks["certificate"].ok
    assert not checks["certificate"].needed
    assert not checks["gateway"].ok  # nobody listens in this test
    assert "start it" in checks["gateway"].remedy


def test_a_home_others_can_read_is_a_problem(house):
    house.settings.home.chmod(0o755)
    assert not found(house)["home"].ok


def test_a_certificate_says_how_long_it_lasts(house):
    load_certificate(house.settings.home)
    assert "valid for 36" in found(house)["certificate"].found


def test_a_clock_that_went_back_is_noticed(house):
    frame = Frame(FrameType.FRONTIER, device_id(b"x"), edge=edge_id("gps"), frontier_us=1)
    house.gateway.log.append([Record(int((time.time() + 3600) * 1e6), encode(frame))])
    house.gateway.log.sync()
    assert "apart" in found(house)["clock and log"].found
