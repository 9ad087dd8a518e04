"""The service around the node: its mark for the next boot, and its last word."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mobile_app.service import foreground as service
from mobile_app.service.connection import ServiceClient, ServiceGone
from mobile_app.service.foreground import RESUME_FILE, serve
from shared.errors import ResurgeError
from tests.patience import PATIENCE_S, wait_until


def test_a_stop_by_the_person_is_remembered_over_a_restart_of_the_phone(tmp_path: Path):
    shown: list[tuple[str, str]] = []
    thread = threading.Thread(
        target=serve, args=(tmp_path, lambda *text: shown.append(text)), kwargs={"say": lambda _: None}
    )
    thread.start()
    client = wait_until(lambda: ServiceClient.open(tmp_path / "data"), "the service", again_after=ServiceGone)
    wait_until(lambda: shown, "the notification")
    assert (tmp_path / RESUME_FILE).exists()
    client.do("stop")
    thread.join(PATIENCE_S)
    client.close()
    assert not thread.is_alive()
    assert not (tmp_path / RESUME_FILE).exists()
    assert shown[0][0] == "Waiting for something to record"


def test_what_ends_the_service_otherwise_stands_in_the_notification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(_options: object) -> None:
        raise ResurgeError("the spool cannot be read", code="spool-damaged")

    monkeypatch.setattr(service, "run", broken)
    shown: list[tuple[str, str]] = []
    with pytest.raises(ResurgeError):
        serve(tmp_path, lambda *text: shown.append(text))
    assert shown[0][0] == "Recording stopped"
    assert "the spool cannot be read" in shown[0][1]
    assert (tmp_path / RESUME_FILE).exists(), "a kill or a failure is no stop by the person"
