"""A vertex that begins again: what its inputs must say before it trusts what it began with, and what they say anew."""

from __future__ import annotations

from typing import cast

import pytest

from shared.hosting.instance import Instance
from shared.sync.composer import Outstanding
from shared.sync.exchange import LogRecord
from shared.sync.session import GatewaySession
from shared.wire.frame import Frame, encode, payload_digest
from shared.wire.messages import Declare, Frontier, MarkMessage
from tests.simulation.peers.programs import settings
from tests.simulation.peers.world import PeerWorld

pytestmark = pytest.mark.sim


def test_a_declaration_or_a_mark_is_no_sign_that_an_input_goes_on() -> None:
    """They also come from a node that does not know yet that its reader was restarted, and has trimmed what that one
    would have to read again. If they counted, an old snapshot would be sent over the only one that is new enough."""
    world = PeerWorld(settings("chain", within_s=1.0))
    world.run()
    host, instance = next((node.host, one) for node in world.nodes for one in node.host.instances())
    ((label, each),) = instance.spec.inputs.items()
    key, taken = each.edge.key, instance.taken[label]
    instance.term, instance._heard_of = 2, set()

    def take(frame: Frame) -> Instance:
        data = encode(frame)
        record = LogRecord(data, key, taken, taken, int(frame.type), payload_digest(frame.payload))
        host.vertices.take(instance, label, cast(GatewaySession, None), record)
        return instance

    place = (key.device, key.incarnation, key.edge)
    assert not take(Declare(*place, each.edge.name, each.edge.schema, 0).frame()).confirmed
    assert not take(MarkMessage(*place, taken, 1, 7, 0).frame()).confirmed
    assert take(Frontier(*place, taken, 1 << 40, 0).frame()).confirmed


def test_a_new_reader_hears_again_what_columns_its_input_has() -> None:
    """On a node that was restarted nobody may have read the edge when its schema was declared to it."""
    world = PeerWorld(settings("chain", within_s=1.0))
    world.run()
    sender, edge = next(
        (sender, edge)
        for node in world.nodes
        for sender in node.host.calling.senders.values()
        for edge in sender._edges.values()
        if edge.number in sender._composer.declared
    )
    composer = sender._composer
    others = {number: form for number, form in composer.declared.items() if number != edge.number}
    edge.met = False
    composer.compose([edge], Outstanding(deadline=0.0), 1 << 20)
    assert composer.declared == others
