"""What the node keeps of its gateway's words: the newest plan, and the schema of every edge it ever declared.

Batches may outlive the plan that made them, so declarations are kept for good; they are small.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

from mobile_app.home.files import read_json, write_durably
from shared.errors import DamagedData
from shared.language.schema import Schema

PLAN_FILE = "plan.bin"
EDGES_FILE = "edges.json"
VERSION = struct.Struct("<q")
NO_PLAN = -1


class Plans:
    """The newest plan as it came, durable when `store` returns."""

    def __init__(self, home: Path) -> None:
        self._path = home / PLAN_FILE

    def load(self) -> tuple[int, bytes] | None:
        """(version, encoded plan), or None before the first."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        if len(data) <= VERSION.size:
            raise DamagedData(
                f"{str(self._path)!r} is cut short; move it away, the gateway sends it again", code="home-damaged"
            )
        return VERSION.unpack_from(data)[0], data[VERSION.size :]

    def store(self, version: int, plan: bytes) -> None:
        write_durably(self._path, VERSION.pack(version) + plan)


class Edges:
    """Names and schemas of edges, by (name, schema)."""

    def __init__(self, home: Path) -> None:
        self._path = home / EDGES_FILE
        self._known: list[tuple[str, Schema]] = [
            (name, Schema.from_json(schema)) for name, schema in read_json(self._path) or []
        ]

    def all(self) -> list[tuple[str, Schema]]:
        return list(self._known)

    def names(self) -> list[str]:
        return sorted({name for name, _ in self._known})

    def store(self, name: str, schema: Schema) -> None:
        self._known.append((name, schema))
        text = json.dumps([[known, schema.to_json()] for known, schema in self._known])
        write_durably(self._path, text.encode())
