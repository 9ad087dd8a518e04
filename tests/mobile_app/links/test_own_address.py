"""Where others reach this device, and that it notices when that has changed."""

from __future__ import annotations

import socket

import pytest

from mobile_app.links import own_address as module
from mobile_app.links.own_address import LOOK_S, AddressWatch, own_address

GATEWAY = "http://127.0.0.1:8750"


def test_the_address_is_this_end_of_the_way_to_the_gateway_at_a_free_port(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(module, "PORT", taken.getsockname()[1])
        found = own_address(GATEWAY)
    assert found.startswith("tcp://127.0.0.1:")
    port = int(found.rpartition(":")[2])
    assert port not in (0, module.PORT)
    with socket.create_server(("127.0.0.1", port)):
        pass


@pytest.mark.parametrize("url", ["http://nowhere.invalid:1", "not a url", "http://[::1"])
def test_without_a_network_there_is_none(url: str) -> None:
    assert own_address(url) == ""


def test_a_change_is_noticed_now_and_then_and_no_network_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = AddressWatch(GATEWAY, "tcp://127.0.0.1:7301", now=0.0)
    assert not watch.changed(LOOK_S)
    monkeypatch.setattr(module, "_host", lambda _url: "")
    assert not watch.changed(2 * LOOK_S)
    monkeypatch.setattr(module, "_host", lambda _url: "127.0.0.12")
    assert not watch.changed(2 * LOOK_S + 1)
    assert watch.changed(3 * LOOK_S)
    monkeypatch.undo()
    assert AddressWatch(GATEWAY, "", now=0.0).changed(LOOK_S), "it had no address, and has one now"
