"""Sending a message to a webhook without becoming somebody's way into the network behind us.

Only an admin configures an address. It is resolved once per delivery, every address of the answer must be a public one
(unless the admin said the receiver is on a private network), and the connection goes to exactly the address that was
checked: a name that answers differently the second time gains nothing. No redirect is followed, of the answer only the
status is read and nothing is shown, and a delivery ends after ten seconds, however slowly the receiver drips.

The body is signed: `X-Resurge-Signature: t=SECONDS,v1=HEX`, HMAC-SHA256 with the webhook's secret over "SECONDS.BODY".
"""

from __future__ import annotations

import hashlib
import hmac
import re
import socket
import ssl
import time
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from shared.errors import PeerError, UsageError

DEADLINE_S = 10.0  # of a delivery, from the first packet to the status
STATUS_BYTES_MAX = 4096
NO_HEADERS: Mapping[str, str] = {}
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])[ \r\n]")
URL_CHARACTERS_MAX = 500
_GLOBAL_UNICAST = ip_network("2000::/3")  # all that is assigned; Python calls the reserved rest public
# Global by their prefix, with an IPv4 address inside that need not be (6to4), or for documents only.
_NOT_REACHED = (ip_network("2002::/16"), ip_network("3fff::/20"))


def check_url(url: str) -> SplitResult:
    """The parts of an address that may be a webhook's; says nothing yet about where its name leads."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if (
        len(url) > URL_CHARACTERS_MAX
        or not url.isascii()
        or not url.isprintable()
        or " " in url
        or parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.username is not None
        or parts.password is not None
        or parts.fragment
        or port == 0
    ):
        raise UsageError(
            f"a webhook is http:// or https://HOST/PATH without a name or password in it, up to {URL_CHARACTERS_MAX} "
            "characters",
            code="webhook-url",
        )
    return parts


def deliver(
    url: str,
    body: bytes,
    *,
    secret: str,
    now_s: int,
    private: bool = False,
    deadline_s: float = DEADLINE_S,
    headers: Mapping[str, str] = NO_HEADERS,
) -> None:
    """POST a signed body; PeerError says in our words why it did not arrive. `headers` are ours, nobody's input."""
    parts = check_url(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = resolve(host, port, private=private)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    head = (
        f"POST {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\nUser-Agent: Resurge\r\n"
        + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        + f"X-Resurge-Signature: {signature(body, secret=secret, now_s=now_s)}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    until = time.monotonic() + deadline_s
    try:
        with socket.create_connection((str(address), port), timeout=deadline_s) as plain:
            if parts.scheme == "https":
                plain.settimeout(_left_s(until))
                with ssl.create_default_context().wrap_socket(plain, server_hostname=host) as channel:
                    status = _exchange(channel, head.encode() + body, until)
            else:
                status = _exchange(plain, head.encode() + body, until)
    except (OSError, ValueError) as error:
        raise PeerError(
            f"the receiver could not be reached: {type(error).__name__}", code="webhook-unreachable"
        ) from None
    if not 200 <= status < 300:
        raise PeerError(f"the receiver answered {status}", code="webhook-refused")


def _exchange(channel: socket.socket, request: bytes, until: float) -> int:
    """Send the request and read the status of the answer; a timeout of a socket counts anew with every byte, so it is
    set to what is left before each."""
    channel.settimeout(_left_s(until))
    channel.sendall(request)
    answer = b""
    while b"\n" not in answer and len(answer) < STATUS_BYTES_MAX:
        channel.settimeout(_left_s(until))
        received = channel.recv(STATUS_BYTES_MAX)
        if not received:
            break
        answer += received
    found = _STATUS.match(answer)
    if found is None:
        raise ValueError("no HTTP status")
    return int(found[1])


def _left_s(until: float) -> float:
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def signature(body: bytes, *, secret: str, now_s: int) -> str:
    digest = hmac.new(secret.encode(), f"{now_s}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={now_s},v1={digest}"


def resolve(host: str, port: int, *, private: bool) -> IPv4Address | IPv6Address:
    """The address to connect to; refused unless every address of the name may be one."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise PeerError("the receiver's name leads nowhere", code="webhook-unreachable") from None
    addresses = [ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    if not addresses or not (private or all(map(is_public, addresses))):
        raise PeerError(
            "the receiver's name leads into a private network; add it as private if that is meant",
            code="webhook-private",
        )
    return addresses[0]


def is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address not in _GLOBAL_UNICAST or any(address in network for network in _NOT_REACHED):
            return False
    return address.is_global and not address.is_multicast
