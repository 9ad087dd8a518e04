"""Links: whole answers or a reason, pins that hold, outages that really interrupt, relays that keep nothing."""

from __future__ import annotations

import datetime
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import trustme
import zmq
from cryptography.hazmat.primitives.asymmetric import ec

from cloud_backend.gateway.certificate import certificate_for, load_certificate
from mobile_app.links.gateway import CONTENT_TYPE, GatewayLink
from mobile_app.links.link import InterruptedLink, LinkDown
from mobile_app.links.outages import parse_outages
from mobile_app.links.pinning import key_digest
from mobile_app.links.relay import WAITING_BYTES_MAX, Relay, RelayLink
from shared.errors import UsageError
from tests.patience import PATIENCE_S


class Echo(BaseHTTPRequestHandler):
    """Answers with the body it got, turned round; special bodies ask for special answers."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = 403 if body == b"stranger" else 200
        answer = bytes(9 * 1024 * 1024) if body == b"flood" else body[::-1]
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if body == b"hotel" else CONTENT_TYPE)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        try:
            self.wfile.write(answer)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


def serve(context: ssl.SSLContext | None = None) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    server.daemon_threads = True
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"{'https' if context else 'http'}://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def gateway() -> Iterator[str]:
    yield from serve()


@pytest.fixture
def tls() -> Iterator[tuple[str, bytes]]:
    certificate = trustme.CA().issue_cert("somewhere.example")  # not the name we call: only the pin counts
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    pin = key_digest(ssl.PEM_cert_to_DER_cert(certificate.cert_chain_pems[0].bytes().decode()))
    for url in serve(context):
        yield url, pin


def running(relay: Relay) -> Iterator[Relay]:
    stop = threading.Event()
    thread = threading.Thread(target=relay.run, args=(stop.is_set,))
    thread.start()
    yield relay
    stop.set()
    thread.join()


@pytest.fixture
def relay(gateway: str) -> Iterator[Relay]:
    yield from running(Relay("tcp://127.0.0.1:*", lambda: GatewayLink(gateway)))


def test_the_gateway_link_brings_back_the_answer(gateway):
    link = GatewayLink(gateway)
    assert link.exchange(b"abc") == b"cba"
    assert link.enrol(b"abc") == (200, b"cba")
    link.close()


def test_a_refusal_is_an_answer_and_a_login_page_is_none(gateway):
    link = GatewayLink(gateway)
    assert link.exchange(b"stranger") == b"regnarts"
    with pytest.raises(LinkDown, match="something else than the gateway"):
        link.exchange(b"hotel")
    link.close()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:1", "cannot be reached"),
        ("http://name.invalid", "cannot be reached"),
        ("http://", "address is none"),
        ("ftp://127.0.0.1", "address is none"),
        ("https://[:::]:7", "address is none"),  # as a scanned link may say
    ],
)
def test_a_gateway_that_is_not_there_is_a_reason_not_a_traceback(url, reason):
    link = GatewayLink(url)
    with pytest.raises(LinkDown, match=reason):
        link.exchange(b"abc")
    link.close()


def test_an_answer_without_end_is_cut_off(gateway):
    link = GatewayLink(gateway)
    with pytest.raises(LinkDown, match="longer than"):
        link.exchange(b"flood")
    link.close()


def test_the_pinned_certificate_is_accepted_whatever_name_it_has(tls):
    url, pin = tls
    link = GatewayLink(url, pin=pin)
    assert link.exchange(b"abc") == b"cba"
    link.close()


@pytest.mark.parametrize("pin", [bytes(32), b""])
def test_any_other_certificate_is_refused_before_a_byte_of_ours_is_sent(tls, pin):
    link = GatewayLink(tls[0], pin=pin)
    with pytest.raises(LinkDown, match="key is not the pinned one"):
        link.exchange(b"abc")
    link.close()


def test_another_certificate_for_the_same_key_is_the_same_gateway(tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    pins = set()
    for year in (2026, 2027):
        path = tmp_path / f"{year}.pem"
        path.write_bytes(certificate_for(key, datetime.datetime(year, 1, 1, tzinfo=datetime.UTC)))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        certificate = ssl.PEM_cert_to_DER_cert(path.read_text()[path.read_text().index("-----BEGIN CERT") :])
        pins.add(key_digest(certificate))
        for url in serve(context):
            link = GatewayLink(url, pin=min(pins))  # the first one's pin, for both
            assert link.exchange(b"abc") == b"cba"
            link.close()
    assert len(pins) == 1


def test_exchanges_share_one_connection(gateway):
    link = GatewayLink(gateway)
    for _ in range(5):
        assert link.exchange(b"abc") == b"cba"
    (pool,) = link._session.get_adapter(gateway).poolmanager.pools._container.values()
    assert (pool.num_connections, pool.num_requests) == (1, 5)
    link.close()


def test_nothing_but_tls_1_3_is_spoken_to_a_pinned_gateway(tmp_path):
    path, pin = load_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    for url in serve(context):
        link = GatewayLink(url, pin=pin)
        with pytest.raises(LinkDown, match="TLS failed"):
            link.exchange(b"abc")
        link.close()


def test_an_outage_stops_exchanges_and_takes_answers_on_their_way(gateway):
    second = [0.0]
    link = InterruptedLink(GatewayLink(gateway), parse_outages("10+5,30+5"), clock=lambda: second[0])
    assert link.exchange(b"ab") == b"ba"
    second[0] = 12.0
    with pytest.raises(LinkDown, match="no network"):
        link.exchange(b"ab")
    second[0] = 29.0
    assert link.exchange(b"ab") == b"ba"

    class Slow:
        def exchange(self, body: bytes) -> bytes:
            second[0] = 31.0
            return b"answer"

        def reset(self) -> None:
            pass

    link._link = Slow()
    with pytest.raises(LinkDown, match="before the answer came"):
        link.exchange(b"ab")
    assert link.outages_begun() == 2


def test_the_relay_carries_the_same_bytes_both_ways(relay):
    link = RelayLink(relay.address)
    assert link.exchange(b"abc" * 1000) == (b"abc" * 1000)[::-1]
    assert link.enrol(b"code") == (200, b"edoc")
    assert link.exchange(b"stranger") == b"regnarts"
    link.close()
    assert relay.carried == 3


def test_many_phones_share_a_relay(relay):
    answers: dict[int, bytes] = {}

    def phone(number: int) -> None:
        link = RelayLink(relay.address)
        for turn in range(10):
            answers[number * 100 + turn] = link.exchange(f"{number}:{turn}".encode())
        link.close()

    phones = [threading.Thread(target=phone, args=(number,)) for number in range(8)]
    for thread in phones:
        thread.start()
    for thread in phones:
        thread.join()
    assert answers == {n * 100 + t: f"{n}:{t}".encode()[::-1] for n in range(8) for t in range(10)}


class StuckLink:
    """A gateway that takes its time: nothing is answered until the test lets it be."""

    def __init__(self, let_go: threading.Event) -> None:
        self._let_go = let_go

    def exchange(self, body: bytes) -> bytes:
        self._let_go.wait(60)
        return b"done"

    def enrol(self, request: bytes) -> tuple[int, bytes]:
        return 200, self.exchange(request)

    def reset(self) -> None: ...

    def close(self) -> None: ...


def test_what_a_relay_holds_is_bounded_in_bytes_however_large_the_questions_are():
    let_go = threading.Event()
    body = bytes(2 << 20)
    phones = 60
    for relay in running(Relay("tcp://127.0.0.1:*", lambda: StuckLink(let_go))):
        context = zmq.Context()
        sockets = [context.socket(zmq.DEALER) for _ in range(phones)]
        poller = zmq.Poller()
        for socket in sockets:
            poller.register(socket, zmq.POLLIN)
            socket.connect(relay.address)
            socket.send_multipart([b"1", b"exchange", body])
        room, refused = WAITING_BYTES_MAX // len(body), 0
        while refused < phones - room and (ready := poller.poll(20_000)):
            refused += len([socket.recv_multipart() for socket, _ in ready])
        assert refused == phones - room
        assert relay.waiting_bytes == room * len(body) <= WAITING_BYTES_MAX
        let_go.set()
        link = RelayLink(relay.address)
        assert link.exchange(b"a later one") == b"done"
        link.close()
        context.destroy(linger=0)


class LargeAnswers(StuckLink):
    def __init__(self) -> None:
        """Every answer is a megabyte."""

    def exchange(self, body: bytes) -> bytes:
        return bytes(1 << 20)


def test_answers_that_a_phone_does_not_read_are_dropped():
    answers = 60
    for relay in running(Relay("tcp://127.0.0.1:*", LargeAnswers)):
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.linger, socket.rcvhwm = 0, 1
            socket.connect(relay.address)
            for number in range(answers):
                socket.send_multipart([b"%d" % number, b"exchange", b"body"])
                end = time.monotonic() + PATIENCE_S
                while relay.carried <= number:
                    assert time.monotonic() < end, "the relay did not carry it"
                    time.sleep(0.001)
            read = 0
            while socket.poll(1000):
                socket.recv_multipart()
                read += 1
        assert 0 < read < answers / 2  # what the sockets' buffers hold, and no more


def test_one_phone_has_one_question_at_a_relay():
    let_go = threading.Event()
    for relay in running(Relay("tcp://127.0.0.1:*", lambda: StuckLink(let_go))):
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.linger = 0
            socket.connect(relay.address)
            socket.send_multipart([b"0", b"exchange", b"body"])
            for number in (b"1", b"2", b"3", b"4"):  # each read before the next: an unread answer is dropped
                socket.send_multipart([number, b"exchange", b"body"])
                assert socket.recv_multipart() == [number, b"0", b""]
            let_go.set()
            assert socket.recv_multipart() == [b"0", b"200", b"done"]


def test_a_relay_that_cannot_reach_the_gateway_says_so_at_once():
    for relay in running(Relay("tcp://127.0.0.1:*", lambda: GatewayLink("http://127.0.0.1:1"))):
        link = RelayLink(relay.address)
        with pytest.raises(LinkDown, match="relay cannot reach the gateway"):
            link.exchange(b"abc")
        link.close()
        assert relay.failed == 1


def test_no_relay_is_a_link_that_is_down():
    link = RelayLink("tcp://127.0.0.1:1", timeout_ms=600)
    with pytest.raises(LinkDown, match="relay cannot be reached"):
        link.exchange(b"abc")
    link.close()


def test_an_address_that_is_none_is_refused():
    with pytest.raises(UsageError, match="relay-address"):
        RelayLink("somewhere")
