"""Sending a message to a webhook without becoming somebody's way into the network behind us.

Only an admin configures an address. It is resolved once per delivery, every address of the answer must be a public one
(unless the admin said the receiver is on a private network), and the connection goes to exactly the address that was
checked: a name that answers differently the second time gains nothing. No redirect is followed, at most 4 KB of the
answer are read and none of it is shown, and everything has a time limit.

The body is signed: `X-Resurge-Signature: t=SECONDS,v1=HEX`, HMAC-SHA256 with the webhook's secret over "SECONDS.BODY".
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import socket
import ssl
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from shared.errors import PeerError, UsageError

TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 4096
URL_CHARACTERS_MAX = 500
# Global by their prefix, with an IPv4 address inside that need not be: NAT64 and 6to4.
_WRAPPED = (ip_network("64:ff9b::/96"), ip_network("2002::/16"))


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


def deliver(url: str, body: bytes, *, secret: str, now_s: int, private: bool = False) -> None:
    """POST a signed body; PeerError says in our words why it did not arrive."""
    parts = check_url(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = resolve(parts.hostname or "", port, private=private)
    connection = http.client.HTTPConnection(parts.hostname or "", port, timeout=TIMEOUT_S)
    try:
        plain = socket.create_connection((str(address), port), timeout=TIMEOUT_S)
        connection.sock = (
            ssl.create_default_context().wrap_socket(plain, server_hostname=parts.hostname)
            if parts.scheme == "https"
            else plain
        )
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Resurge",
            "X-Resurge-Signature": signature(body, secret=secret, now_s=now_s),
        }
        connection.request("POST", parts.path + (f"?{parts.query}" if parts.query else "") or "/", body, headers)
        answer = connection.getresponse()
        answer.read(ANSWER_BYTES_MAX)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise PeerError(
            f"the webhook could not be reached: {type(error).__name__}", code="webhook-unreachable"
        ) from None
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise PeerError(f"the webhook answered {answer.status}", code="webhook-refused")


def signature(body: bytes, *, secret: str, now_s: int) -> str:
    digest = hmac.new(secret.encode(), f"{now_s}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={now_s},v1={digest}"


def resolve(host: str, port: int, *, private: bool) -> IPv4Address | IPv6Address:
    """The address to connect to; refused unless every address of the name may be one."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise PeerError("the webhook's name leads nowhere", code="webhook-unreachable") from None
    addresses = [ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    if not addresses or not (private or all(map(is_public, addresses))):
        raise PeerError(
            "the webhook's name leads into a private network; add it as private if that is meant",
            code="webhook-private",
        )
    return addresses[0]


def is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if any(address in network for network in _WRAPPED):
            return False
    return address.is_global and not address.is_multicast
