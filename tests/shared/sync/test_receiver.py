from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from shared.identity import DeviceId, EdgeKey, edge_id
from shared.language.schema import Schema
from shared.sync import exchange
from shared.sync.exchange import ResultsAcknowledged, StatusReceived
from shared.sync.receiver import Arrival, ExchangeApplied, Reply
from shared.sync.session import DeviceSession
from shared.wire.frame import Frame, FrameType, decode_all, decode_one, encode
from shared.wire.messages import (
    Chain,
    Data,
    Declare,
    Frontier,
    LostRange,
    Receipt,
    Refusal,
    Result,
    ResultReceipt,
    Status,
)
from shared.wire.passed import PassMessage
from shared.wire.status import DeviceStatus
from tests.shared.sync.builders import SCHEMA, Node, pair
from tests.shared.sync.collision import same_number

EDGE = edge_id("trips")


class FrameMaker:
    """Says exactly what a test wants said."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.gateway = node.gateway
        self.session = DeviceSession(node.keys, node.device, 1)
        welcome = node.gateway.exchange(self.session.hello())
        self.session.welcome(decode_one(welcome.body)[0], 0.0)

    def say(self, *frames: Frame) -> list[Frame]:
        return self.hear(self.gateway.exchange(self.body(*frames)))

    def body(self, *frames: Frame) -> bytes:
        return self.session.seal([encode(frame) for frame in frames])

    def hear(self, reply: Reply) -> list[Frame]:
        opened = self.session.open(reply.body)
        assert opened is not None
        return list(decode_all(opened))

    def declare(self, name: str = "trips", schema: Schema = SCHEMA) -> Frame:
        return Declare(self.node.device, 1, edge_id(name), name, schema).frame()

    def data(self, lo: int, hi: int, **changes: object) -> Frame:
        values: dict[str, object] = {"rows": hi - lo, "schema_id": SCHEMA.id, "incarnation": 1, "edge": EDGE}
        values |= changes
        return Data(
            values.get("device", self.node.device), values["incarnation"], values["edge"], lo, hi, values["rows"],  # type: ignore[arg-type]
            values["schema_id"], 0, 1, b"columns",  # type: ignore[arg-type]
        ).frame()  # fmt: skip

    def lost(self, lo: int, hi: int) -> Frame:
        return LostRange(self.node.device, 1, EDGE, lo, hi, "evicted").frame()

    def ranges(self) -> list[tuple[int, int]]:
        return [(record.lo, record.hi) for record in self.gateway.log if record.hi > record.lo]


@pytest.fixture
def phone() -> FrameMaker:
    return FrameMaker(pair())


def receipts(frames: Iterable[Frame]) -> list[int]:
    return [Receipt.of(frame).through for frame in frames if frame.type is FrameType.RECEIPT]


def refusals(frames: Iterable[Frame]) -> list[str]:
    return [Refusal.of(frame).code for frame in frames if frame.type is FrameType.REFUSAL]


@pytest.mark.covers("EC-16")
def test_batches_and_tombstones_move_one_mark(phone: FrameMaker) -> None:
    assert receipts(phone.say(phone.declare(), phone.data(0, 4), phone.lost(4, 9), phone.data(9, 10))) == [10]
    assert phone.ranges() == [(0, 4), (4, 9), (9, 10)]


@pytest.mark.covers("T5", "EC-16")
def test_a_duplicate_is_acknowledged_and_not_kept(phone: FrameMaker) -> None:
    phone.say(phone.declare(), phone.data(0, 4))
    assert receipts(phone.say(phone.data(0, 4))) == [4]
    assert receipts(phone.say(phone.lost(0, 4))) == [4], "first writer wins: delivered stays delivered"
    assert phone.ranges() == [(0, 4)]


def test_after_a_gap_the_receipt_says_where_to_go_on(phone: FrameMaker) -> None:
    assert receipts(phone.say(phone.declare(), phone.data(0, 4), phone.data(6, 8), phone.data(8, 9))) == [4]
    assert phone.ranges() == [(0, 4)]


def test_a_partial_overlap_is_refused_and_nothing_of_the_exchange_is_kept(phone: FrameMaker) -> None:
    phone.say(phone.declare(), phone.data(0, 4))
    assert refusals(phone.say(phone.data(4, 6), phone.data(5, 8))) == ["sync-overlap"]
    assert phone.ranges() == [(0, 4)]
    assert receipts(phone.say(phone.data(4, 6))) == [6]


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (lambda phone: phone.data(0, 1, device=DeviceId(bytes(16))), "sync-identity"),
        (lambda phone: phone.data(0, 1, incarnation=2), "sync-identity"),
        (lambda phone: phone.data(0, 1, schema_id=5), "sync-undeclared"),
        (lambda phone: phone.data(0, 1, rows=2), "message-data"),
        (lambda phone: phone.data(0, 0), "message-data"),
        (lambda phone: LostRange(phone.node.device, 1, EDGE, 0, 1, "\x07").frame(), "message-tombstone"),
        (lambda phone: Declare(phone.node.device, 1, EDGE, "other", SCHEMA).frame(), "message-declare"),
        (lambda phone: Receipt(phone.node.device, 1, EDGE, 0).frame(), "sync-direction"),
        (lambda _: PassMessage(DeviceId(bytes(16)), 1, DeviceId(b"o" * 16), b"").frame(), "sync-identity"),
        (lambda phone: Frame(FrameType.PASS, phone.node.device, b"short"), "message-pass"),
        (lambda phone: Chain(phone.node.device, 1, EDGE, 0, 0, bytes(32)).frame(), None),
    ],
)
def test_what_the_protocol_does_not_allow_is_refused_by_code(
    phone: FrameMaker, frame: object, code: str | None
) -> None:
    assert refusals(phone.say(phone.declare(), frame(phone))) == ([] if code is None else [code])  # type: ignore[operator]
    assert not phone.ranges()


def test_a_declaration_that_comes_again_is_logged_when_another_one_came_between(phone: FrameMaker) -> None:
    other = Schema.of({"other": "float64"})
    for schema, logged in ((SCHEMA, 1), (SCHEMA, 1), (other, 2), (other, 2), (SCHEMA, 3), (SCHEMA, 3)):
        phone.say(phone.declare(schema=schema))
        assert len(phone.gateway.log) == logged


def test_bytes_that_are_no_exchange_are_refused_in_the_open(phone: FrameMaker) -> None:
    for body, code in (
        (b"", "frame-truncated"),
        (b"x" * 100, "frame-magic"),
        (phone.body(phone.declare())[:-1], "envelope-seal"),
    ):
        reply = phone.gateway.exchange(body)
        assert reply.refused == code
        assert Refusal.of(decode_one(reply.body)[0]).code == code


def test_replaying_an_exchange_any_number_of_times_changes_nothing(phone: FrameMaker) -> None:
    body = phone.body(phone.declare(), phone.data(0, 4), Status(phone.node.device, DeviceStatus(plan=1)).frame())
    first = phone.hear(phone.gateway.exchange(body))
    log, events = list(phone.gateway.log), len(phone.gateway.events)
    for _ in range(100):
        assert receipts(phone.hear(phone.gateway.exchange(body))) == receipts(first)
    assert phone.gateway.log == log
    assert len(phone.gateway.events) == events


def test_replies_of_one_step_rest_on_all_its_records(phone: FrameMaker) -> None:
    """Two arrivals, one group: both replies are in the step whose records they need."""
    phone.gateway.receiver.receive(Arrival(1, phone.body(phone.declare(), phone.data(0, 2))), 0.0)
    phone.gateway.receiver.receive(Arrival(2, phone.body(phone.data(2, 3))), 0.0)
    step = phone.gateway.receiver.step(0.0)
    assert [record.kind for record in step.persist] == [FrameType.DECLARE, FrameType.DATA, FrameType.DATA]
    assert [reply.handle for reply in step.send] == [1, 2]
    assert not phone.gateway.receiver.step(0.0)


def test_after_a_step_that_failed_marks_are_those_of_the_log(phone: FrameMaker) -> None:
    phone.gateway.receiver.receive(Arrival(1, phone.body(phone.declare(), phone.data(0, 2))), 0.0)
    phone.gateway.receiver.step(0.0)  # and the disk refuses it
    phone.gateway.receiver.abandon(phone.gateway)
    assert refusals(phone.say(phone.data(0, 2))) == ["sync-undeclared"], "the declaration may be lost too"
    assert receipts(phone.say(phone.declare(), phone.data(0, 2))) == [2]
    assert phone.ranges() == [(0, 2)]


def test_marks_survive_a_restart_of_the_gateway(phone: FrameMaker) -> None:
    phone.say(phone.declare(), phone.data(0, 4))
    phone.gateway.restart()
    again = FrameMaker(phone.node)
    assert receipts(again.say(again.declare(), again.data(0, 4), again.data(4, 5))) == [5]
    assert again.ranges() == [(0, 4), (4, 5)]


def test_one_edge_has_no_two_schemas_with_the_same_number(phone: FrameMaker) -> None:
    forged = same_number(SCHEMA)
    assert forged.id == SCHEMA.id
    assert refusals(phone.say(phone.declare(), phone.declare(schema=forged))) == ["sync-schema-number"]
    assert refusals(phone.say(phone.declare())) == []
    assert refusals(phone.say(phone.declare(schema=forged))) == ["sync-schema-number"]
    assert [record.kind for record in phone.gateway.log] == [FrameType.DECLARE]


def test_a_frontier_is_logged_when_it_moves_and_nothing_is_missing_before_it(phone: FrameMaker) -> None:
    def frontier(seq: int, at_us: int) -> Frame:
        return Frontier(phone.node.device, 1, EDGE, seq, at_us).frame()

    phone.say(phone.declare(), phone.data(0, 2), frontier(2, 100), frontier(2, 100), frontier(5, 900), frontier(2, 50))
    assert [decode_one(r.frame)[0].frontier_us for r in phone.gateway.log if r.kind == FrameType.FRONTIER] == [100]


def test_a_status_is_an_event_and_is_not_logged(phone: FrameMaker) -> None:
    phone.say(Status(phone.node.device, DeviceStatus(battery=40)).frame())
    kinds = [type(event) for event in phone.gateway.events]
    assert kinds == [StatusReceived, ExchangeApplied]
    assert not phone.gateway.log


@pytest.mark.covers("SO-15")
def test_results_come_after_the_number_the_device_has(phone: FrameMaker) -> None:
    phone.gateway.downlink.rows = [{"km": number} for number in range(5)]
    frames = phone.say(ResultReceipt(phone.node.device, 3).frame())
    assert [Result.of(frame).seq for frame in frames if frame.type is FrameType.RESULT] == [4, 5]
    assert ResultsAcknowledged(phone.node.device, 3) in phone.gateway.events


def test_a_signature_over_a_run_is_checked_and_logged_once(phone: FrameMaker) -> None:
    phone.say(phone.declare(), phone.data(0, 4))
    unsigned = Chain(phone.node.device, 1, EDGE, 0, 4, b"d" * 32)
    good = Chain(phone.node.device, 1, EDGE, 0, 4, b"d" * 32, phone.node.keys.sign(unsigned.signed()))
    assert refusals(phone.say(unsigned.frame())) == ["sync-chain-signature"]
    phone.say(good.frame())
    phone.say(good.frame())
    assert [record.kind for record in phone.gateway.log].count(FrameType.CHAIN) == 1


def test_nobody_signs_in_the_name_of_another_node(phone: FrameMaker) -> None:
    phone.say(phone.declare(), phone.data(0, 4))
    claimed = Chain(phone.node.device, 1, EDGE, 0, 4, b"d" * 32, signer=b"n" * 16)
    forged = replace(claimed, signature=phone.node.keys.sign(claimed.signed()))
    before = len(phone.gateway.log)
    assert refusals(phone.say(forged.frame(), phone.data(4, 6))) == ["sync-chain-signer"]
    assert len(phone.gateway.log) == before, "nothing of that exchange was kept"
    phone.say(phone.data(4, 6))
    assert len(phone.gateway.log) == before + 1, "and nothing was lost: it came again"


def test_one_device_cannot_make_the_gateway_remember_endless_edges(phone: FrameMaker) -> None:
    most = exchange.EDGES_PER_DEVICE_MAX
    refused = [refusals(phone.say(phone.declare(f"edge {at}"))) for at in range(most + 6)]
    assert refused[most - 1 : most + 2] == [[], ["sync-edges"], ["sync-edges"]]
    assert len({record.key for record in phone.gateway.log}) == most
    phone.gateway.restart()  # it is the log that remembers
    phone = FrameMaker(phone.node)
    assert refusals(phone.say(phone.declare("one more"))) == ["sync-edges"]
    assert refusals(phone.say(phone.declare("edge 3"))) == []


def test_edges_of_an_exchange_that_was_refused_are_forgotten(phone: FrameMaker) -> None:
    many = [Frontier(phone.node.device, 1, edge_id(f"edge {at}"), 0, 5).frame() for at in range(200)]
    for _ in range(3):
        assert refusals(phone.say(*many, phone.data(0, 4))) == ["sync-undeclared"]
    assert receipts(phone.say(phone.declare(), phone.data(0, 4))) == [4]


def test_the_schemas_of_one_device_are_bounded_in_all(phone: FrameMaker) -> None:
    wide = Schema.of({f"column_{at}_{'x' * 40}": "float64" for at in range(200)})
    answers = [refusals(phone.say(phone.declare(f"edge {at}", wide))) for at in range(60)]
    assert answers[0] == []
    assert answers[-1] == ["sync-schemas"]
    logged = sum(len(record.frame) for record in phone.gateway.log)
    assert logged <= exchange.DECLARED_BYTES_PER_DEVICE_MAX
    assert receipts(phone.say(phone.data(0, 4, edge=edge_id("edge 0"), schema_id=wide.id))) == [
        4
    ]  # what is there stays


def test_one_session_cannot_declare_endless_schemas_of_one_edge(phone: FrameMaker) -> None:
    most = exchange.DECLARATIONS_PER_SESSION_MAX
    schemas = [Schema.of({f"column_{at}": "float64"}) for at in range(most + 1)]
    for at in range(0, most, 128):
        assert refusals(phone.say(*(phone.declare("trips", schema) for schema in schemas[at : at + 128]))) == []
    assert refusals(phone.say(phone.declare("trips", schemas[most]))) == ["sync-schemas"]


def test_each_installation_has_its_own_marks(phone: FrameMaker) -> None:
    phone.say(phone.declare(), phone.data(0, 4))
    assert phone.gateway.high_water(EdgeKey(phone.node.device, 2, EDGE)) == 0


def test_errors_never_repeat_what_was_sent(phone: FrameMaker) -> None:
    secret = "s3cret-s3cret"
    reply = phone.say(Declare(phone.node.device, 1, EDGE, secret, SCHEMA).frame())
    assert secret not in Refusal.of(reply[0]).text
