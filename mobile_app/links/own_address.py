"""Where other nodes of the same network reach this one: the address that its way to the gateway begins at."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

PORT = 7301  # any free one where another program has it
LOOK_S = 15.0  # a phone that walks gets another address


def own_address(gateway_url: str) -> str:
    """tcp://HOST:PORT to listen at; empty where this device has no network or nobody could connect."""
    host = _host(gateway_url)
    if not host:
        return ""
    for port in (PORT, 0):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((host, port))
            return _address(host, tried.getsockname()[1])
    return ""


class AddressWatch:
    """Notices that this device is reached elsewhere than it said."""

    def __init__(self, gateway_url: str, listen: str, now: float) -> None:
        self._url, self._listen = gateway_url, listen
        self._looked_at = now

    def changed(self, now: float) -> bool:
        """Whether to offer again. Without a network nothing has changed yet."""
        if now < self._looked_at + LOOK_S:
            return False
        self._looked_at = now
        if not self._listen:
            return bool(own_address(self._url))
        host = _host(self._url)
        return bool(host) and not self._listen.startswith(_address(host, 0)[:-1])


class WayWatch:
    """Notices that this device got a way to a node, or another one. Only the table of routes is asked, which costs
    microseconds; names are not looked up, so nodes that are known by name are not watched."""

    def __init__(self) -> None:
        self._ways: dict[str, str] = {}

    def opened(self, addresses: Iterable[str]) -> bool:
        """Whether there is a way to one of these that there was not, or that began elsewhere, when last asked."""
        found = {address: _host(address, socket.AI_NUMERICHOST) for address in addresses}
        before, self._ways = self._ways, found
        return any(way and before.get(address, way) != way for address, way in found.items())


def _host(url: str, flags: int = 0) -> str:
    """This end of the way to an address; nothing is sent to find it."""
    try:
        found = urlsplit(url)
        if not found.hostname:
            return ""
        for family, kind, protocol, _, there in socket.getaddrinfo(
            found.hostname, found.port or 443, type=socket.SOCK_DGRAM, flags=flags
        ):
            with socket.socket(family, kind, protocol) as towards:
                towards.connect(there)
                return str(towards.getsockname()[0])
    except (OSError, ValueError):
        pass
    return ""


def _address(host: str, port: int) -> str:
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
