"""The service around the node: its mark for the next boot, and its last word."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mobile_app.home.files import RESUME_FILE
from mobile_app.service import foreground as service
from mobile_app.service.connection import ServiceClient, ServiceGone
from mobile_app.service.foreground import ask_to_stop, serve
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


def test_a_failure_leaves_the_mark_for_the_next_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(_options: object) -> None:
        raise ResurgeError("the spool cannot be read", code="spool-damaged")

    monkeypatch.setattr(service, "run", broken)
    with pytest.raises(ResurgeError):
        serve(tmp_path, lambda *_text: None)
    assert (tmp_path / RESUME_FILE).exists(), "a kill or a failure is no stop by the person"


def test_a_stop_from_the_notification_reaches_a_node_that_sleeps_or_has_not_begun(tmp_path: Path):
    stop = threading.Event()
    ask_to_stop(tmp_path / "data", stop)  # nobody listens yet
    assert stop.is_set()
    serve(tmp_path, lambda *_text: None, stop=stop, say=lambda _: None)
    assert not (tmp_path / RESUME_FILE).exists()


def test_the_mark_for_the_foreground_type_follows_the_consent(tmp_path: Path):
    mark, shown = tmp_path / "reads-positions", []
    live = service.LiveNotice(lambda *text: shown.append(text), mark, clock=lambda: 1.0)
    live({"consents": {"gps": None}})
    assert not mark.exists()
    live({"consents": {"gps": True}})
    assert mark.exists()
    assert len(shown) == 2, "shown again at once: the type changes with the notification"
    live({"consents": {"gps": False}})
    assert not mark.exists()
    live({"consents": {"gps": "recordings"}})
    assert mark.exists()
