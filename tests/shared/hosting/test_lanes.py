"""By which way a node is called whose usual lane is broken."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from shared.hosting.here import Here
from shared.hosting.lanes import DETOUR_S, KNOCK_S, Lanes
from shared.hosting.messages import Ask

COORDINATOR, FAR, NEAR, OTHER = "co", "fa", "ne", "ot"


def lanes() -> Lanes:
    """Of a node in a region that a node of its fleet coordinates."""
    here = SimpleNamespace(
        node="me", peers=dict.fromkeys((COORDINATOR, FAR, NEAR, OTHER)), deployed=SimpleNamespace(areas=("area",)),
        gateway_passes=False, coordinates=lambda node: node == COORDINATOR,
    )  # fmt: skip
    return Lanes(cast(Here, here))


def by(found: Lanes) -> str:
    return found.ask(FAR, b"rows", follows=False).by


def test_a_detour_that_leads_nowhere_gives_way_to_whoever_coordinates_again() -> None:
    found = lanes()
    assert found.detour(FAR, [NEAR], 0.0)
    assert (by(found), found.detours(), found.urgent()) == (NEAR, [FAR], [])
    assert found.turn(FAR, 1.0)
    assert (by(found), found.detours(), found.urgent()) == (COORDINATOR, [], [FAR])
    assert not found.turn(FAR, 2.0), "it is on that lane"
    assert found.knocks({FAR}, KNOCK_S) == [Ask(FAR, b"")], "the usual one is tried as often as before"


def test_a_detour_is_tried_for_a_while_and_then_the_next_one() -> None:
    found = lanes()
    assert found.detour(FAR, [NEAR, OTHER], 0.0)
    assert not found.detour(FAR, [NEAR, OTHER], DETOUR_S / 2)
    assert found.detour(FAR, [NEAR, OTHER], DETOUR_S)
    assert by(found) == OTHER
    assert not found.detour(FAR, [OTHER], 2 * DETOUR_S), "there is no other one"
    assert found.answered(FAR, urgent=False)
    assert by(found) == ""
