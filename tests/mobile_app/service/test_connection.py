"""The socket between screen and service: who is believed, what is bounded, how a refusal arrives."""

from __future__ import annotations

import json
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mobile_app.service.connection import (
    LINK_FILE,
    REQUEST_BYTES_MAX,
    ServiceClient,
    ServiceGone,
    ServiceRefused,
    ServiceServer,
)
from shared.errors import UsageError
from tests.patience import PATIENCE_S


def answer(call: str, arguments: dict) -> object:
    if call == "do" and arguments["name"] == "refuse":
        raise UsageError("not like this", code="home-busy")
    if call == "do" and arguments["name"] == "break":
        raise ZeroDivisionError("oops")
    return {"call": call, **arguments} if call != "health" else []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServiceServer]:
    server = ServiceServer(tmp_path, answer)
    yield server
    server.close()


def test_calls_come_back_with_their_answers(server, tmp_path):
    client = ServiceClient.open(tmp_path)
    assert client.view() == {"call": "view"}
    assert client.samples("gps", after=5) == {"call": "samples", "sensor": "gps", "after": 5}
    assert client.do("marker", label="stairs")["arguments"] == {"label": "stairs"}
    assert client.health() == []
    client.close()


def test_only_the_owner_can_read_the_token(server, tmp_path):
    assert stat.S_IMODE((tmp_path / LINK_FILE).stat().st_mode) == 0o600


def test_a_refusal_arrives_with_its_stable_code_and_the_connection_goes_on(server, tmp_path):
    client = ServiceClient.open(tmp_path)
    with pytest.raises(ServiceRefused) as refused:
        client.do("refuse")
    assert refused.value.code == "home-busy"
    with pytest.raises(ServiceRefused) as failed:
        client.do("break")
    assert failed.value.code == "service-failed"
    assert "ZeroDivisionError" in str(failed.value)
    assert client.view() == {"call": "view"}
    client.close()


def test_a_client_with_another_token_is_not_answered(server, tmp_path):
    kept = json.loads((tmp_path / LINK_FILE).read_bytes())
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (stranger / LINK_FILE).write_text(json.dumps({"port": kept["port"], "token": "00" * 32}))
    with pytest.raises(ServiceGone):
        ServiceClient.open(stranger)


def test_a_stranger_on_the_service_s_port_is_found_out(tmp_path):
    """It answers anything, as one that took the port of a dead service would; it cannot prove the token."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        (tmp_path / LINK_FILE).write_text(json.dumps({"port": listener.getsockname()[1], "token": "11" * 32}))

        def impersonate() -> None:
            connection, _ = listener.accept()
            connection.sendall(json.dumps({"challenge": "ab" * 16}).encode() + b"\n")
            connection.recv(4096)
            connection.sendall(json.dumps({"proof": "cd" * 32}).encode() + b"\n")
            connection.recv(4096)
            connection.close()

        thread = threading.Thread(target=impersonate, daemon=True)
        thread.start()
        with pytest.raises(ServiceGone) as gone:
            ServiceClient.open(tmp_path)
        thread.join(PATIENCE_S)
    assert "token" in str(gone.value)


def test_a_line_without_an_end_costs_a_bounded_amount_and_the_connection(server, tmp_path):
    client = ServiceClient.open(tmp_path)
    with pytest.raises(ServiceGone):
        client.do("long", text="x" * (REQUEST_BYTES_MAX + 10))
    client = ServiceClient.open(tmp_path)
    assert client.view() == {"call": "view"}
    client.close()


def test_without_a_service_the_client_says_so(server, tmp_path):
    server.close()
    assert not (tmp_path / LINK_FILE).exists()
    with pytest.raises(ServiceGone) as gone:
        ServiceClient.open(tmp_path)
    assert gone.value.code == "service-gone"


def test_closing_an_old_service_leaves_the_file_of_a_new_one(server, tmp_path):
    newer = ServiceServer(tmp_path, answer)
    server.close()
    client = ServiceClient.open(tmp_path)
    assert client.view() == {"call": "view"}
    client.close()
    newer.close()
