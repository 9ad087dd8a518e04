"""Ports for processes that are about to start."""

from __future__ import annotations

import secrets
import socket
from contextlib import ExitStack, suppress

PORTS = range(15_000, 32_000)  # below those that kernels give to connections


def free_ports(count: int) -> list[int]:
    """So many different ports of this machine that nobody listens on now, and that no connection is given before the
    process has bound them. Another may ask for one by its number meanwhile; the process that wanted it then says so."""
    with ExitStack() as held:
        found: list[int] = []
        while len(found) < count:
            port = secrets.choice(PORTS)
            with suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
        return found
