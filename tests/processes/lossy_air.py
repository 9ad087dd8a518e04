"""Runs a node's command so that it does not hear a share of the datagrams: `python -m ... SHARE SEED FILE COMMAND`.

The kernel here has no `netem`. Nothing of the node is touched: a datagram that is lost was never there. FILE says how
many were, as text, while the node runs and when it was killed.
"""

from __future__ import annotations

import os
import random
import runpy
import socket
import sys
from typing import Any

TOLD_EVERY = 10


class LossyUdp:
    """`recvfrom` of sockets that take datagrams."""

    def __init__(self, share: float, seed: str, path: str) -> None:
        self._share, self._random, self._lost = share, random.Random(seed), 0
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
        self._recvfrom = socket.socket.recvfrom

    def __call__(self, ears: socket.socket, *arguments: int) -> Any:
        while True:
            found = self._recvfrom(ears, *arguments)
            if self._random.random() >= self._share:
                return found
            self._lost += 1
            if self._lost % TOLD_EVERY == 0:
                os.pwrite(self._file, b"%d" % self._lost, 0)


def main() -> None:
    lossy = LossyUdp(float(sys.argv[1]), sys.argv[2], sys.argv[3])

    def recvfrom(ears: socket.socket, *arguments: int) -> Any:  # a function, so that it is bound to its socket
        return lossy(ears, *arguments)

    socket.socket.recvfrom = recvfrom  # type: ignore[method-assign,assignment]
    module = sys.argv.index("-m", 4)
    sys.argv = sys.argv[module + 1 :]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
