"""What a device says that was cut off, until all it has spooled since has arrived."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from shared.hosting.alternates import Alternates
from shared.hosting.returning import LOOK_S, Returning
from shared.identity import EdgeId
from shared.sync.pacing import Pacing
from shared.wire.status import BackStatus

EDGE = EdgeId(7)


@pytest.mark.covers("NB-9")
def test_a_device_that_looks_around_again_still_says_that_it_is_back() -> None:
    """A message is lost, and a node that it reaches does not seem to answer: nothing has arrived by that."""
    senders = {node: SimpleNamespace(reached=True, disconnected=False) for node in ("a", "b", "coordinator")}
    here: Any = SimpleNamespace(
        now=10.0, node="phone", coordinator=b"key", queries=lambda: (SimpleNamespace(name="q"),),
        coordinates=lambda node: node == "coordinator",
    )  # fmt: skip
    returning = Returning(here, cast("Any", SimpleNamespace(senders=senders)), Alternates(), Pacing())
    assert returning.back() is None
    returning.edges.add(EDGE)
    said = BackStatus(("q",), ("a", "b", "coordinator"))
    assert returning.back() == said
    senders["b"].reached = False
    returning.looks_until = here.now + LOOK_S
    assert returning.back() == said, "silence would mean that all has arrived"
    here.now += LOOK_S
    assert returning.back() == BackStatus(("q",), ("a", "coordinator"))
    senders["coordinator"].disconnected, senders["b"].reached = True, True
    assert returning.back() == BackStatus(("q",), ("a", "coordinator")), "what comes through is not the end either"
    senders["coordinator"].disconnected = False
    assert returning.back() == said
    returning.edges.clear()
    assert returning.back() is None
