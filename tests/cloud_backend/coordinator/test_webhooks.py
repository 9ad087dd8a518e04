"""Webhooks reach who they should, signed, and nobody inside."""

from __future__ import annotations

import hashlib
import hmac
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from typing import ClassVar

import pytest

from cloud_backend.coordinator.webhooks import check_url, deliver, is_public, resolve
from shared.errors import PeerError, UsageError


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/", "file:///etc/passwd", "http://", "//example.org", "http://user:pass@example.org/",
        "http://example.org/#part", "http://example.org:99999/", "http://example.org:0/", "http://exa mple.org/",
        "http://example.org/\r\nHost: x", "javascript:alert(1)", "http://[::1", "x" * 600, "http://exämple.org/", "",
        "gopher://example.org:70/_", "http://@/",
    ],
)  # fmt: skip
def test_what_is_no_web_address_is_no_webhook(url):
    with pytest.raises(UsageError, match="webhook-url"):
        check_url(url)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.215.14", True), ("2606:2800:220:1::1", True), ("127.0.0.1", False), ("10.1.2.3", False),
        ("192.168.1.1", False), ("172.16.0.1", False), ("169.254.169.254", False), ("100.64.0.1", False),
        ("0.0.0.0", False), ("224.0.0.1", False), ("255.255.255.255", False), ("::1", False), ("fe80::1", False),
        ("fd00::1", False), ("::ffff:127.0.0.1", False), ("::ffff:93.184.215.14", True), ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False), ("::", False), ("ff02::1", False), ("4000::1", False), ("8000::1", False),
        ("100::1", False), ("fec0::1", False), ("5f00::1", False), ("240.0.0.1", False), ("2001:db8::1", False),
        ("2001::1", False), ("3fff::1", False), ("2a00:1450:4001::1", True),
    ],
)  # fmt: skip
def test_only_public_addresses_are_public(address, public):
    assert is_public(ip_address(address)) is public


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "0x7f000001", "2130706433", "127.1", "[::1]".strip("[]")])
def test_every_way_to_write_this_machine_is_refused(host):
    with pytest.raises(PeerError):
        resolve(host, 80, private=False)


def test_one_private_address_among_public_ones_is_enough_to_refuse(monkeypatch):
    answers = [(0, 0, 0, "", ("93.184.215.14", 80)), (0, 0, 0, "", ("10.0.0.1", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
    with pytest.raises(PeerError, match="webhook-private"):
        resolve("rebinding.example", 80, private=False)


class Receiver(BaseHTTPRequestHandler):
    status = 204
    seen: ClassVar[list[tuple[str, bytes, str]]] = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.seen.append((self.path, body, self.headers["X-Resurge-Signature"]))
        self.send_response(self.status)
        if self.status == 302:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver():
    handler = type("Handler", (Receiver,), {"seen": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server, handler
    server.shutdown()
    server.server_close()


def test_a_message_arrives_whole_and_signed(receiver):
    server, handler = receiver
    url = f"http://127.0.0.1:{server.server_port}/hook?a=b"
    deliver(url, b'{"event": "test"}', secret="s3cret", now_s=1234, private=True)
    [(path, body, signature)] = handler.seen
    digest = hmac.new(b"s3cret", b"1234." + body, hashlib.sha256).hexdigest()
    assert (path, body, signature) == ("/hook?a=b", b'{"event": "test"}', f"t=1234,v1={digest}")


@pytest.mark.parametrize("status", [302, 400, 500])
def test_an_answer_that_is_no_success_is_a_failure_and_no_redirect_is_followed(receiver, status):
    server, handler = receiver
    handler.status = status
    with pytest.raises(PeerError, match=str(status)):
        deliver(f"http://127.0.0.1:{server.server_port}/", b"{}", secret="s", now_s=1, private=True)
    assert len(handler.seen) == 1


def test_without_the_admins_word_nothing_private_is_reached(receiver):
    server, handler = receiver
    with pytest.raises(PeerError, match="webhook-private"):
        deliver(f"http://127.0.0.1:{server.server_port}/", b"{}", secret="s", now_s=1)
    assert handler.seen == []


def test_nobody_there_is_told_in_our_words():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(PeerError, match="could not be reached: ConnectionRefusedError"):
        deliver(f"http://127.0.0.1:{port}/", b"{}", secret="s", now_s=1, private=True)


def test_a_receiver_that_drips_its_answer_is_left_at_the_deadline():
    """Each letter comes in time for a timeout per read; the sum of them does not."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                for letter in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 600:
                    if over.wait(0.1):
                        return
                    try:
                        connection.sendall(bytes([letter]))
                    except OSError:
                        return

        threading.Thread(target=drip, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        began = time.monotonic()
        with pytest.raises(PeerError, match="TimeoutError"):
            deliver(url, b"{}", secret="s", now_s=1, private=True, deadline_s=0.5)
        over.set()
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 2000 OK\r\n", b"HTTP/1.1\n", b"\n" * 9])
def test_what_is_no_answer_is_a_failure(answer):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reply() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        threading.Thread(target=reply, daemon=True).start()
        with pytest.raises(PeerError, match="webhook-unreachable"):
            deliver(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}", secret="s", now_s=1, private=True)
