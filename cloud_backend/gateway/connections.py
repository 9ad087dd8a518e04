"""Open connections: how many, whose, and which one goes when there are too many.

A connection is a stranger's until a sealed exchange was answered on it. Strangers are limited, per address and in all;
devices are not limited per address, because a whole town may come through one. When a limit is reached the connection
that waited longest without a request under way makes room, of the address that holds most: a crowd pushes out itself.
Nobody honest loses anything by that: a request is answered on the connection that brought it or sent again.

The limits follow from how many files this process may open: some are kept for the log and the databases.
"""

from __future__ import annotations

import ipaddress
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloud_backend.gateway.http_protocol import ExchangeProtocol

FILES_WANTED = 131_072  # a phone that waits for news has two connections
FILES_KEPT = 256  # for segments, databases, threads, and connections accepted but not counted yet
DEVICES_MAX = 120_000
STRANGERS_MAX = 4096
STRANGERS_PER_ADDRESS_MAX = 512
LOOKED_AT_MAX = 64  # connections asked whether they are busy before the oldest goes anyway


def raise_file_limit() -> int:
    """Allow this process as many open files as it may have; returns how many those are."""
    if sys.platform == "win32":
        return FILES_WANTED
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return FILES_WANTED if soft == resource.RLIM_INFINITY else soft


class Connections:
    def __init__(self, files: int = FILES_WANTED) -> None:
        self.connections_max = max(16, min(DEVICES_MAX, files - min(FILES_KEPT, files // 4)))
        self.strangers_max = min(STRANGERS_MAX, self.connections_max // 2)
        self.strangers_per_address_max = min(STRANGERS_PER_ADDRESS_MAX, max(4, self.strangers_max // 2))
        self._strangers: dict[str, dict[ExchangeProtocol, None]] = {}  # by address, oldest first
        self._stranger_count = 0
        self._devices: dict[ExchangeProtocol, None] = {}  # the one used least recently first

    def __len__(self) -> int:
        return self._stranger_count + len(self._devices)

    @property
    def strangers(self) -> int:
        return self._stranger_count

    def opened(self, connection: ExchangeProtocol, address: str) -> None:
        mine = self._strangers.setdefault(address, {})
        mine[connection] = None
        self._stranger_count += 1
        if len(mine) > self.strangers_per_address_max:
            self._make_room(mine, connection)
        elif self._stranger_count > self.strangers_max:
            self._make_room(max(self._strangers.values(), key=len), connection)
        if len(self) > self.connections_max:
            crowd = max(self._strangers.values(), key=len)
            self._make_room(crowd if len(crowd) > 1 or not self._devices else self._devices, connection)

    def trusted(self, connection: ExchangeProtocol) -> None:
        """A proxy's of ours: it is not a stranger's, whoever speaks through it."""
        self._devices[connection] = None

    def used(self, connection: ExchangeProtocol, address: str) -> None:
        """A sealed exchange was answered on it: it is a device's."""
        if connection in self._devices:
            del self._devices[connection]  # to the end
        elif not self._forget_stranger(connection, address):
            return  # closed meanwhile
        self._devices[connection] = None

    def closed(self, connection: ExchangeProtocol, address: str) -> None:
        if connection in self._devices:
            del self._devices[connection]
        else:
            self._forget_stranger(connection, address)

    def _forget_stranger(self, connection: ExchangeProtocol, address: str) -> bool:
        mine = self._strangers.get(address, {})
        known = connection in mine
        if known:
            del mine[connection]
            self._stranger_count -= 1
        if not mine:
            self._strangers.pop(address, None)
        return known

    def _make_room(self, crowd: dict[ExchangeProtocol, None], newest: ExchangeProtocol) -> None:
        leaving = newest
        for looked_at, connection in enumerate(crowd):
            if connection is newest:
                continue
            if leaving is newest or not connection.is_busy():
                leaving = connection
            if looked_at >= LOOKED_AT_MAX or not connection.is_busy():
                break
        del crowd[leaving]  # at once: its end is only told later, and there may be more to make room for
        if crowd is not self._devices:
            self._stranger_count -= 1
        leaving.drop()


def address_group(address: str) -> str:
    """What is counted as one address: of IPv6 the network that one customer gets."""
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address
