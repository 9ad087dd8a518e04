"""Whatever the directories around it look like, nobody but its owner reads what the gateway writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cloud_backend.gateway.certificate import load_certificate


@pytest.fixture
def open_directories(tmp_path: Path):
    """As somebody makes them by hand, on a machine with a careless mask."""
    before = os.umask(0)
    for name in ("home", "elsewhere"):
        (tmp_path / name).mkdir(mode=0o777)
    yield tmp_path
    os.umask(before)


def test_every_file_of_a_gateway_laid_out_by_hand_is_its_owners_alone(open_directories: Path, start):
    place = open_directories
    service = start(
        place / "home", results=place / "elsewhere" / "results.sqlite", copies=(place / "elsewhere" / "copy",)
    )
    load_certificate(place / "home")
    service.phone().send(10)
    service.client.portal.call(service.gateway.tick)
    service.gateway.log.commit(service.gateway.log.take(roll=True))
    service.gateway.log.trim(service.gateway.log.durable_end)
    made = [path for path in place.rglob("*") if path.name not in ("home", "elsewhere")]
    names = {path.name for path in made}
    assert {
        "gateway.key",
        "gateway.pem",
        "operator.token",
        "roster.sqlite",
        "results.sqlite",
        "log.head",
        "log",
    } <= names
    readable = {
        str(path.relative_to(place)): oct(path.stat().st_mode & 0o777) for path in made if path.stat().st_mode & 0o077
    }
    assert readable == {}
