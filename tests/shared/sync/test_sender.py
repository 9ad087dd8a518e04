from __future__ import annotations

import pytest

from shared.language.schema import Schema
from shared.moves import MoveRequest
from shared.spool.entry import Reason, Tombstone
from shared.sync import events
from shared.sync.exchange import StatusReceived
from shared.sync.pacing import Conditions, Pacing
from shared.sync.receiver import Reply
from shared.sync.sender import EdgePolicy
from shared.sync.signed_runs import BATCHES_PER_SIGNATURE
from shared.wire.envelope import MAC_BYTES
from shared.wire.frame import Frame, FrameType, decode_all, decode_one, encode
from shared.wire.messages import Chain, Data, Declare, Hint, PlanMessage, Refusal, bare_refusal, chain_digest
from tests.shared.sync.builders import SCHEMA, Node, pair, pair_with_batch


def logged(node: Node, kind: FrameType = FrameType.DATA) -> list[tuple[int, int]]:
    return [(record.lo, record.hi) for record in node.gateway.log if record.kind == kind]


def frames_of(body: bytes) -> list[Frame]:
    return list(decode_all(body[24:-MAC_BYTES]))


def kinds_of(body: bytes) -> list[FrameType]:
    return [frame.type for frame in frames_of(body)]


@pytest.mark.covers("SO-9", "NB-8")
def test_what_is_appended_reaches_the_log_in_order_and_is_trimmed_by_the_receipt() -> None:
    node = pair()
    for _ in range(3):
        node.append()
    node.talk()
    assert logged(node) == [(0, 2), (2, 4), (4, 6)]
    assert list(node.spool.pending(node.edges["trips"])) == []
    assert events.ReceiptReceived(node.edges["trips"], 6) in node.events


def test_nothing_is_sent_before_it_is_durable() -> None:
    node = pair_with_batch()
    first = node.sender.step(0.0)
    assert (len(first.persist), first.send) == (1, ())
    node.spool.sync()
    assert node.sender.step(0.0).send


@pytest.mark.covers("T4")
def test_a_lost_reply_costs_a_duplicate_and_nothing_else() -> None:
    node = pair_with_batch()
    body = node.step()
    assert body is not None
    node.gateway.exchange(body)  # it arrived, the reply did not
    node.sender.fail(1.0)
    node.append(now=2.0)
    node.talk(60.0)
    assert logged(node) == [(0, 2), (2, 4)]
    assert list(node.spool.pending(node.edges["trips"])) == []


@pytest.mark.covers("SO-10")
def test_the_program_sees_the_disconnection_and_the_return() -> None:
    node = pair()
    node.talk()
    node.append(now=1.0)
    assert node.step(1.0)
    node.sender.fail(2.0)
    assert node.sender.disconnected
    node.talk(60.0)
    seen = [event for event in node.events if isinstance(event, events.Disconnected | events.Reconnected)]
    assert seen == [events.Disconnected(2.0, "link-failed"), events.Reconnected(60.0, 58.0)]
    assert not node.sender.disconnected


@pytest.mark.covers("T12")
def test_a_reply_to_an_earlier_sending_is_dropped() -> None:
    node = pair_with_batch()
    late = node.step()
    assert late is not None
    reply = node.gateway.exchange(late)
    node.sender.fail(0.0)
    assert node.step(60.0)
    node.sender.receive(reply.body, 60.0)
    assert node.step(60.0) is None, "the newest sending is still outstanding"
    assert list(node.spool.pending(node.edges["trips"])) != []


def test_an_exchange_without_an_answer_fails_after_its_timeout() -> None:
    node = pair_with_batch()
    assert node.step()
    assert node.sender.next_wake() == node.pacing.timeout_s
    node.sender.wake(node.pacing.timeout_s)
    assert node.sender.disconnected


def test_a_restart_sends_again_what_has_no_receipt() -> None:
    node = pair()
    node.append()
    node.append()
    node.step()
    node.disk.crash()
    node.boot(0.0)
    node.talk(0.0)
    assert logged(node) == [(0, 2), (2, 4)]


def test_a_gateway_that_forgot_the_session_is_greeted_again_without_an_outage() -> None:
    node = pair()
    node.append()
    node.talk()
    node.gateway.restart()
    node.append()
    node.talk()
    node.talk(5.0)
    assert logged(node) == [(0, 2), (2, 4)]
    assert not [event for event in node.events if isinstance(event, events.Disconnected)]


def test_dearer_edges_go_first_and_an_edge_never_overtakes_itself() -> None:
    node = pair(policies={"bulk": EdgePolicy(within_s=0.0), "alerts": EdgePolicy(within_s=0.0, priority=9)})
    node.talk()
    for edge in ("bulk", "alerts", "bulk", "alerts"):
        node.append(edge)
    body = node.step()
    assert body is not None
    names = {number: name for name, number in node.edges.items()}
    order = [(names[frame.edge], frame.seq) for frame in frames_of(body) if frame.type is FrameType.DATA]
    assert order == [("alerts", 0), ("alerts", 2), ("bulk", 0), ("bulk", 2)]


def test_an_edge_that_always_has_more_than_fits_lets_others_as_dear_have_their_turn() -> None:
    node = pair(
        pacing=Pacing(exchange_bytes_max=500),
        policies={"pictures": EdgePolicy(within_s=0.0), "results": EdgePolicy(within_s=0.0)},
    )
    node.talk()
    node.append("results")
    for _ in range(4):
        node.append("pictures", payload=bytes(1000))
        body = node.step()
        assert body is not None
        node.sender.receive(node.gateway.exchange(body).body, 0.0)
        node.append("pictures", payload=bytes(1000))
    assert [record.hi for record in node.gateway.log if record.key.edge == node.edges["results"]][-1:] == [2]


@pytest.mark.covers("SO-11")
def test_an_edge_waits_for_its_time_or_its_count() -> None:
    node = pair(policies={"trips": EdgePolicy(within_s=10.0, rows=6)})
    node.talk()
    node.append(now=1.0)
    node.step(2.0)
    assert node.step(10.9) is None
    assert node.step(11.0) is not None
    node = pair(policies={"trips": EdgePolicy(within_s=10.0, rows=6)})
    node.talk()
    for _ in range(3):
        node.append(now=1.0)
    assert node.step(1.0) is not None


def test_a_low_battery_makes_the_edge_wait_longer() -> None:
    node = pair(policies={"trips": EdgePolicy(within_s=4.0)})
    node.talk()
    node.sender.conditions(Conditions(battery=0.05, charging=False))
    node.append(now=0.0)
    assert node.step(15.9) is None
    assert node.step(16.0) is not None


def test_a_backlog_larger_than_an_exchange_drains_in_several() -> None:
    node = pair(pacing=Pacing(exchange_bytes_max=1000))
    node.talk()
    for _ in range(6):
        node.append(payload=bytes(400))
    body = node.step()
    assert body is not None
    assert kinds_of(body).count(FrameType.DATA) == 2
    node.sender.receive(node.gateway.exchange(body).body, 0.0)
    node.talk()
    assert len(logged(node)) == 6
    assert list(node.spool.pending(node.edges["trips"])) == []


def announced(node: Node) -> float | None:
    return [event.status for event in node.gateway.events if isinstance(event, StatusReceived)][-1].poll_s


def test_a_device_announces_when_it_comes_again_and_keeps_its_word() -> None:
    node = pair(policies={"trips": EdgePolicy(within_s=4.0)}, pacing=Pacing(poll_s=30.0))
    node.talk()
    assert announced(node) == 30.0
    node.append(now=10.0)
    node.talk(14.0)
    assert announced(node) == 8.0  # it is in use: missed sooner
    assert node.step(21.9) is None
    node.talk(22.0)
    assert announced(node) == 30.0  # nothing to send: it says so before it is silent for longer
    assert node.step(51.9) is None
    assert node.step(52.0) is not None


def test_results_that_come_down_make_no_device_in_use_look_idle() -> None:
    node = pair(policies={"trips": EdgePolicy(within_s=4.0)}, pacing=Pacing(poll_s=30.0))
    node.talk()
    node.append(now=10.0)
    node.talk(14.0)
    node.append(now=16.0)
    node.gateway.downlink.rows = [{"km": 1}]
    node.talk(20.0)  # rows up and a result down, then an exchange that only says that it is stored
    assert node.results_through == 1
    assert announced(node) == 8.0
    assert node.step(27.9) is None
    node.talk(28.0)
    assert announced(node) == 30.0


def test_a_frontier_follows_everything_before_it_and_is_said_once() -> None:
    node = pair()
    node.append()
    node.sender.frontier(node.edges["trips"], 5000, 0.0)
    node.talk()
    node.append(now=1.0)
    node.talk(1.0)
    assert [record.kind for record in node.gateway.log] == [
        FrameType.DECLARE, FrameType.DATA, FrameType.FRONTIER, FrameType.DATA,
    ]  # fmt: skip


@pytest.mark.covers("SO-15", "T3")
def test_results_are_stored_once_with_their_number() -> None:
    node = pair()
    node.gateway.downlink.rows = [{"km": 1}, {"km": 2}]
    node.talk()
    node.gateway.downlink.rows.append({"km": 3})
    node.talk(100.0)
    assert node.results == [{"km": 1}, {"km": 2}, {"km": 3}]
    assert node.results_through == 3
    assert sum(isinstance(event, events.ResultArrived) for event in node.events) == 3
    node.boot(200.0)
    node.talk(200.0)
    assert len(node.results) == 3


def test_a_plan_is_taken_when_newer_and_signed_by_the_gateway() -> None:
    node = pair()
    node.gateway.downlink.message = PlanMessage(node.device, 4, b"plan", bytes(64))
    node.talk(limit=3)
    assert node.plan[0] == -1
    assert any(isinstance(event, events.Refused) and event.code == "sync-plan-signature" for event in node.events)
    signature = node.gateway.keys.sign(PlanMessage.signed(4, b"plan"))
    node.gateway.downlink.message = PlanMessage(node.device, 4, b"plan", signature)
    node.talk(100.0)
    assert node.plan == (4, b"plan")
    assert sum(isinstance(event, events.PlanArrived) for event in node.events) == 1


@pytest.mark.covers("SO-35")
def test_a_hint_reaches_the_program() -> None:
    node = pair()
    node.gateway.downlink.push_back = Hint(node.device, {"gps": 0.25})
    node.talk()
    assert events.HintArrived(Hint(node.device, {"gps": 0.25})) in node.events


def test_a_request_to_move_is_believed_only_with_the_gateway_s_signature() -> None:
    node = pair()
    asked = (MoveRequest("q", "band", "hub", "", True, "7"),)
    right = node.gateway.keys.sign(Hint.signed(node.device, asked))
    node.gateway.downlink.push_back = Hint(node.device, {}, asked, right)
    node.talk()
    assert events.HintArrived(Hint(node.device, {}, asked, right)) in node.events
    node.events.clear()
    other = (MoveRequest("q", "band", "elsewhere", "", False, "8"),)
    node.gateway.downlink.push_back = Hint(node.device, {}, other, right)
    node.talk()
    assert not [event for event in node.events if isinstance(event, events.HintArrived)]


def refuse(node: Node, code: str) -> Reply:
    """The gateway's sealed refusal of whatever was sent last."""
    session = next(iter(node.gateway.sessions._sessions.values()))
    refusal = encode(Refusal(node.device, code, "poison").frame())
    return Reply("handle", session.seal(node.session._counter, [refusal]), code)


def test_a_batch_that_is_refused_alone_is_quarantined_and_the_rest_goes_on() -> None:
    node = pair()
    node.talk()
    for _ in range(3):
        node.append()
    now = 0.0
    for expected in (3, 1):  # all of it is refused; then one at a time, and the first is the culprit
        now += 60.0
        body = node.step(now)
        assert body is not None
        assert kinds_of(body).count(FrameType.DATA) == expected
        node.sender.receive(refuse(node, "message-data").body, now)
    first = next(node.spool.pending(node.edges["trips"]), None)
    node.talk(now + 60.0)
    assert first is None or isinstance(first, Tombstone)
    assert logged(node, FrameType.TOMBSTONE) == [(0, 2)]
    assert logged(node) == [(2, 4), (4, 6)]


def test_a_batch_that_rotted_in_the_spool_is_given_up_by_name_and_the_rest_goes_on() -> None:
    node = pair()
    node.talk()
    for payload in (b"first batch", b"second batch", b"third batch"):
        node.append(payload=payload)
    node.spool.sync()
    node.append(payload=b"fourth batch")
    node.spool.sync()  # which tells whoever opens it that the others were durable
    stored = node.disk.open("spool").cache
    stored[stored.index(b"second batch")] ^= 1
    node.boot(0.0)  # what was appended a moment ago is not read back
    node.talk()
    node.talk(1.0)
    assert logged(node) == [(0, 2), (4, 6), (6, 8)]
    assert logged(node, FrameType.TOMBSTONE) == [(2, 4)]
    assert any(isinstance(event, events.Refused) and event.code == "spool-payload" for event in node.events)


def test_a_receipt_does_not_cost_a_sync_of_its_own() -> None:
    node = pair()
    node.append()
    node.talk()
    syncs = node.disk.operations
    node.sender.hurry(5.0)
    node.talk(5.0)
    assert node.disk.operations == syncs


def test_a_refusal_with_a_time_is_obeyed_and_the_data_kept() -> None:
    node = pair()
    node.append()
    assert node.step()
    node.sender.receive(bare_refusal("device-revoked", "pair again", retry_after_s=50.0), 0.0)
    assert node.step(49.0) is None
    assert events.Refused("device-revoked", "pair again") in node.events
    assert len(list(node.spool.pending(node.edges["trips"]))) == 1


def test_a_refusal_that_anybody_could_have_written_delays_a_minute_at_most() -> None:
    node = pair_with_batch()
    assert node.step()
    node.sender.receive(bare_refusal("device-revoked", "go away", retry_after_s=86_400.0), 0.0)
    assert node.step(20.0) is None
    assert node.step(60.0) is not None


def test_the_gateways_own_refusal_delays_as_long_as_it_says() -> None:
    node = pair_with_batch()
    assert node.step()
    session = next(iter(node.gateway.sessions._sessions.values()))
    refusal = encode(Refusal(node.device, "gateway-busy", "later", 600.0).frame())
    node.sender.receive(session.seal(node.session._counter, [refusal]), 0.0)
    assert node.step(599.0) is None
    assert node.step(751.0) is not None


def test_a_forged_reply_is_not_believed() -> None:
    node = pair_with_batch()
    body = node.step()
    assert body is not None
    reply = bytearray(node.gateway.exchange(body).body)
    reply[40] ^= 1
    node.sender.receive(bytes(reply), 0.0)
    assert len(list(node.spool.pending(node.edges["trips"]))) == 1
    node.talk(60.0)
    assert logged(node) == [(0, 2)]


def test_a_gateway_that_lost_its_log_is_told_what_is_gone() -> None:
    node = pair()
    node.append()
    node.talk()
    node.gateway.log.clear()
    node.gateway.restart()
    node.append()
    for now in (0.0, 30.0, 60.0):
        node.talk(now)
    assert logged(node, FrameType.TOMBSTONE) == [(0, 2)]
    assert logged(node) == [(2, 4)]
    assert any(isinstance(event, events.Refused) and event.code == "sync-gateway-forgot" for event in node.events)


def test_a_batch_without_its_declaration_waits_and_does_not_keep_the_radio_busy() -> None:
    node = pair_with_batch()
    node.sender._edges[node.edges["trips"]].schemas.clear()
    assert node.talk() <= 3
    assert any(isinstance(event, events.Refused) and event.code == "sync-schema-unknown" for event in node.events)
    assert len(list(node.spool.pending(node.edges["trips"]))) == 1


def test_a_spool_older_than_the_gateway_stops_instead_of_reusing_numbers() -> None:
    node = pair()
    node.append()
    node.talk()
    other = Node.__new__(Node)
    other.__dict__.update(node.__dict__)
    key = node.gateway.log[-1].key
    node.gateway.log.append(node.gateway.log[-1]._replace(lo=2, hi=50, key=key))
    node.gateway.restart()
    node.append()
    node.talk()
    node.talk(30.0, limit=3)
    assert any(isinstance(event, events.Refused) and event.code == "sync-sequence-behind" for event in node.events)


def test_every_run_of_batches_is_signed_and_the_log_can_prove_it() -> None:
    node = pair()
    for _ in range(BATCHES_PER_SIGNATURE):
        node.append()
    node.talk()
    node.append()
    node.talk()
    (record,) = [record for record in node.gateway.log if record.kind == FrameType.CHAIN]
    chain = Chain.of(next(decode_all(record.frame)))
    digest = bytes(32)
    for data in node.gateway.log:
        if data.kind == FrameType.DATA and chain.lo <= data.lo < chain.hi:
            digest = chain_digest(digest, next(decode_all(data.frame)), data.digest)
    assert (chain.lo, chain.hi, chain.digest) == (0, 2 * BATCHES_PER_SIGNATURE, digest)
    assert node.gateway.keys.verify(node.keys.public_key, chain.signed(), chain.signature)


OTHER = Schema.of({"value": "float64", "steps": "int64"})


def two_forms() -> Node:
    policy = EdgePolicy(rows=1)
    node = pair(policies={"trips": policy})
    node.sender.declare("trips", OTHER, policy)
    return node


def forms_in_log(node: Node) -> list[tuple[int, int]]:
    """Of each batch its schema, and the one that the log has as the edge's newest where the batch stands."""
    found, newest = [], 0
    for record in node.gateway.log:
        frame = decode_one(record.frame)[0]
        if frame.type is FrameType.DECLARE:
            newest = Declare.of(frame).schema.id
        elif frame.type is FrameType.DATA:
            found.append((Data.of(frame).schema_id, newest))
    return found


@pytest.mark.parametrize("apart", [True, False], ids=["one at a time", "in one exchange"])
def test_a_form_that_a_device_goes_back_to_is_declared_anew(apart: bool) -> None:
    node = two_forms()
    for schema in (SCHEMA, OTHER, SCHEMA, SCHEMA, OTHER):
        node.append(schema=schema)
        if apart:
            node.talk()
    node.talk()
    forms = (SCHEMA.id, OTHER.id, SCHEMA.id, SCHEMA.id, OTHER.id)
    assert forms_in_log(node) == [(each, each) for each in forms]
    assert len(logged(node, FrameType.DECLARE)) == 4
    assert not any(isinstance(event, events.Refused) for event in node.events)
    edges = node.gateway.receiver._devices[node.device, 1]
    assert edges.declared_bytes == node.gateway.edges_of(node.device, 1)


@pytest.mark.parametrize("arrived", [True, False])
def test_a_declaration_whose_exchange_was_not_answered_is_said_again_before_it_counts(arrived: bool) -> None:
    node = two_forms()
    node.append()
    node.talk()
    node.append(schema=OTHER)
    body = node.step()
    assert body is not None
    assert FrameType.DECLARE in kinds_of(body)
    if arrived:
        node.gateway.exchange(body)
    node.sender.fail(1.0)
    (entry,) = node.spool.pending(node.edges["trips"])
    node.spool.give_up(entry.edge, entry.lo, entry.hi, Reason.EVICTED)  # so the other form is never sent again
    node.append(now=60.0)
    node.talk(120.0)
    assert forms_in_log(node)[-1] == (SCHEMA.id, SCHEMA.id)
    assert logged(node)[-1] == (4, 6)
