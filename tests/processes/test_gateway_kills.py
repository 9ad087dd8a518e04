"""The gateway is killed again and again while phones upload; the log must hold every element exactly once."""

from __future__ import annotations

import http.client
import threading
import time
from pathlib import Path

import pytest

from cloud_backend.log.verify import verify
from shared.spool.disk import PosixDisk
from tests.cloud_backend.gateway.phone_client import PhoneClient
from tests.processes.digests import logged, sent
from tests.processes.gateway_process import GatewayProcess

pytestmark = pytest.mark.processes


@pytest.mark.covers("SO-22")
@pytest.mark.parametrize(
    ("kills", "elements"),
    [(3, 10_000), pytest.param(50, 1_000_000, marks=pytest.mark.soak)],
)
def test_every_element_is_in_the_log_exactly_once_after_the_gateway_was_killed(tmp_path: Path, kills, elements, claim):
    phones_count, batch = 4, 50
    share = elements // phones_count
    with GatewayProcess(tmp_path / "home", "--rate", "100000") as gateway:
        phones = [gateway.phone(f"phone {number}") for number in range(phones_count)]
        resent = [0] * phones_count
        threads = [
            threading.Thread(target=_upload, args=(phone, share, batch, resent, number))
            for number, phone in enumerate(phones)
        ]
        for thread in threads:
            thread.start()
        for kill in range(1, kills + 1):
            while min(phone.next for phone in phones) < share * kill // (kills + 1):
                time.sleep(0.002)
            gateway.kill()
            gateway.start()
        for thread in threads:
            thread.join()
        assert gateway.stop() == 0
    found = verify(PosixDisk(tmp_path / "home" / "log"))
    expected = sent([phone.device for phone in phones], share, batch, bytes(200))
    actual = logged(tmp_path / "home" / "log")
    claim(
        f"{kills} kills, {sum(resent)} exchanges failed and were repeated, {actual[0]} elements, "
        f"digests {expected[1]} {actual[1]}"
    )
    assert sum(resent) >= kills
    assert actual == expected
    assert (found.delivered, found.duplicates, found.gaps, found.ledgered) == (elements, 0, 0, 0)
    assert {edge.through for edge in found.edges.values()} == {share}


def _upload(phone: PhoneClient, elements: int, batch: int, resent: list[int], number: int) -> None:
    """Send until the receipt covers everything; whatever fails is simply sent again."""
    while phone.next < elements:
        try:
            status, frames = phone.exchange(phone.declare(), phone.batch(phone.next, phone.next + batch, bytes(200)))
            if status == 200:
                phone.next = max(frame.seq for frame in frames)
                continue
            phone.hello()
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)
        resent[number] += 1


def test_a_gateway_told_to_stop_seals_its_log_and_can_be_started_again(tmp_path: Path):
    home = tmp_path / "home"
    with GatewayProcess(home) as gateway:
        phone = gateway.phone()
        phone.send(10)
        assert gateway.stop() == 0
        assert verify(PosixDisk(home / "log")).torn_bytes == 0
        gateway.start()
        assert phone.hello()[0] == 200
        assert phone.send(10) == 20
        gateway.kill()
    assert verify(PosixDisk(home / "log")).delivered == 20


def test_two_gateways_never_share_a_home(tmp_path: Path):
    with GatewayProcess(tmp_path / "home"):
        second = GatewayProcess(tmp_path / "home")
        with pytest.raises(AssertionError, match="ended before it listened"):
            second.start()
        assert second.process.returncode == 1
