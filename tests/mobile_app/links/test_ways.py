"""A device notices that it got a way to a node, without asking anybody."""

from __future__ import annotations

import pytest

from mobile_app.links import own_address
from mobile_app.links.own_address import WayWatch

HUB, OTHER, NAMED = "tcp://127.0.0.1:7301", "tcp://192.0.2.1:7301", "tcp://hub.example:7301"


def test_a_way_that_was_not_there_or_began_elsewhere_is_news(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = {HUB: "", OTHER: "10.0.0.7"}
    monkeypatch.setattr(own_address, "_host", lambda address, _flags=0: ways[address])
    watch = WayWatch()
    assert not watch.opened(ways), "what is there at first is no news"
    ways[HUB] = "10.0.0.7"
    assert watch.opened(ways)
    assert not watch.opened(ways)
    ways[OTHER] = ""
    assert not watch.opened(ways), "one that is gone is none"
    ways[HUB] = "10.0.1.9"
    assert watch.opened(ways), "another network"


def test_only_the_table_of_routes_is_asked() -> None:
    watch = WayWatch()
    assert not watch.opened([HUB, NAMED])
    assert watch._ways == {HUB: "127.0.0.1", NAMED: ""}, "names are not looked up"
