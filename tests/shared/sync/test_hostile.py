"""Whatever a peer puts into a properly sealed body, the machines refuse it or keep their promises; they never raise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.identity import EdgeKey, edge_id
from shared.sync.session import DeviceSession
from shared.wire.frame import Frame, FrameType, decode_one, encode
from shared.wire.messages import DATA_PREFIX, Declare, Refusal
from tests.examples_drawn import examples_drawn
from tests.shared.sync.builders import SCHEMA, Gateway, pair

EDGES = [edge_id(name) for name in ("trips", "alerts", "bulk")]
payloads = st.one_of(
    st.binary(max_size=60),
    st.integers(0, 4).map(lambda rows: DATA_PREFIX.pack(SCHEMA.id, 0, rows) + b"columns"),
    st.sampled_from((b"evicted", b"{}", b'{"plan":1}', b'{"edge":"trips","schema":[["value","float64"]]}', b"[]")),
)


@st.composite
def frames(draw: st.DrawFn, *, device: bytes) -> Frame:
    return Frame(
        type=draw(st.sampled_from(FrameType)),
        source=draw(st.sampled_from((device, device, device, bytes(16)))),  # type: ignore[arg-type]
        payload=draw(payloads),
        incarnation=draw(st.sampled_from((1, 1, 1, 2, 0))),
        term=draw(st.integers(0, 3)),
        edge=draw(st.sampled_from(EDGES)),
        seq=draw(st.integers(0, 12)),
        count=draw(st.integers(0, 6)),
        codec=draw(st.integers(0, 2)),
        frontier_us=draw(st.integers(-5, 5)),
    )


def marks(gateway: Gateway) -> dict[EdgeKey, int]:
    """Follows the log record by record; a gap or an overlap fails here."""
    found: dict[EdgeKey, int] = {}
    for record in gateway.log:
        if record.hi > record.lo:
            assert record.lo == found.get(record.key, 0)
            found[record.key] = record.hi
    return found


@examples_drawn(50, 1_000, data=st.data())
def test_the_receiver_survives_any_frames_in_a_good_seal(data: st.DataObject) -> None:
    node = pair()
    gateway = node.gateway
    session = DeviceSession(node.keys, node.device, 1)
    session.welcome(decode_one(gateway.exchange(session.hello()).body)[0], 0.0)
    gateway.exchange(
        session.seal(
            [encode(Declare(node.device, 1, edge_id(n), n, SCHEMA).frame()) for n in ("trips", "alerts", "bulk")]
        )
    )
    for _ in range(data.draw(st.integers(1, 3))):
        said = data.draw(st.lists(frames(device=node.device), max_size=5))
        before = list(gateway.log)
        body = session.seal([encode(frame) for frame in said])
        reply = gateway.exchange(body)
        if reply.refused is not None:
            assert gateway.log == before, "a refused exchange must leave no trace"
        after = list(gateway.log)
        gateway.exchange(body)
        assert gateway.log == after, "a repeated exchange must leave no trace"
        marks(gateway)


@examples_drawn(50, 1_000, data=st.data())
def test_the_sender_survives_any_frames_in_a_good_seal(data: st.DataObject) -> None:
    node = pair()
    node.talk()
    node.append()
    node.append()
    for now in (0.0, 60.0, 120.0):
        body = node.step(now)
        if body is None:
            continue
        session = next(iter(node.gateway.sessions._sessions.values()), None)
        said = [encode(frame) for frame in data.draw(st.lists(frames(device=node.device), max_size=5))]
        sealed = data.draw(st.booleans()) and session is not None
        node.sender.receive(session.seal(node.session._counter, said) if sealed and session else b"".join(said), now)
    assert node.spool.head(node.edges["trips"]) == 4, "nothing a gateway says takes numbers back"


@given(body=st.binary(max_size=200))
def test_any_bytes_at_all_get_a_refusal(body: bytes) -> None:
    gateway = pair().gateway
    reply = gateway.exchange(body)
    assert reply.refused is not None
    assert Refusal.of(decode_one(reply.body)[0]).code == reply.refused
    assert not gateway.log
