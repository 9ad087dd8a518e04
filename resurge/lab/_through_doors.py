"""Runs a node's command so that it calls others through doors (`_linked_nodes`): `python -m ... MAP COMMAND`.

The map says which address stands before which. Nothing else of the node is touched: it opens a connection elsewhere
than it was told, as behind any forwarder.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import zmq


def main() -> None:
    doors: dict[str, str] = json.loads(Path(sys.argv[1]).read_text())
    connect = zmq.Socket.connect

    def through(self: zmq.Socket[bytes], address: str) -> object:
        return connect(self, doors.get(address, address))

    zmq.Socket.connect = through  # type: ignore[method-assign,assignment]
    module = sys.argv.index("-m", 2)
    sys.argv = sys.argv[module + 1 :]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
