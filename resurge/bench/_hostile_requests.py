"""Fifty requests made to hurt a gateway: endless, deeply nested, huge, compressed, without an end to their headers.

Each is thrown on its own connection; what counts is how soon the gateway answers with a refusal or hangs up.
"""

from __future__ import annotations

import json
import socket
import time
import zlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

MEDIA = "application/vnd.resurge.exchange"
COUNT = 50
WITHIN_S = 0.2
REFUSED = frozenset({0, 400, 413, 415, 422, 431})  # 0: hung up on


class Bomb(NamedTuple):
    head: str
    chunks: Iterable[bytes]


def bombs() -> list[Bomb]:
    """Made before they are thrown: only the gateway's time is to be measured."""
    makers: tuple[Callable[[], Bomb], ...] = (_endless, _nested, _many_keys, _compressed, _huge_header)
    return [makers[number % len(makers)]() for number in range(COUNT)]


def throw(port: int, bomb: Bomb) -> tuple[int, float]:
    """(status, seconds until it came); sends chunks until there is an answer. 0 when the gateway hung up."""
    answer = b""
    started = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        try:
            connection.sendall(bomb.head.encode())
            for chunk in bomb.chunks:
                connection.settimeout(10)
                connection.sendall(chunk)
                connection.setblocking(False)
                try:
                    answer = connection.recv(100)
                    break
                except BlockingIOError:
                    continue
            connection.settimeout(10)
            answer = answer or connection.recv(100)
        except OSError:
            answer = b""
        seconds = time.monotonic() - started
    return int(answer.split()[1]) if answer else 0, seconds


def _endless() -> Bomb:
    chunk = b"10000\r\n" + bytes(0x10000) + b"\r\n"
    return Bomb(_head("/v1/exchange", MEDIA, "Transfer-Encoding: chunked"), (chunk for _ in range(10_000)))


def _nested() -> Bomb:
    return _enrolment(b"[" * 60_000)


def _many_keys() -> Bomb:
    return _enrolment(json.dumps({str(number): 0 for number in range(200_000)}).encode())


def _compressed() -> Bomb:
    body = zlib.compress(bytes(10 << 20))
    return Bomb(_head("/v1/exchange", MEDIA, f"Content-Encoding: gzip\r\nContent-Length: {len(body)}"), [body])


def _huge_header() -> Bomb:
    lines = (b"X-Bomb: " + b"x" * 65536 + b"\r\n" for _ in range(1000))
    return Bomb("POST /v1/exchange HTTP/1.1\r\nHost: x\r\n", lines)


def _enrolment(body: bytes) -> Bomb:
    return Bomb(_head("/v1/enrol", "application/json", f"Content-Length: {len(body)}"), [body])


def _head(path: str, content_type: str, rest: str) -> str:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {content_type}\r\n{rest}\r\n\r\n"
