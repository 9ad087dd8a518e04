"""An operator that fails once, in the way it is told, and works when it is started again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import resurge as rs

FOREVER_S = 3600.0


@rs.operator("faulty", takes={"v": "float64"}, gives={"v": "float64", "total": "float64"})
class Faulty:
    """Each row with the sum of all so far. At row `at` it raises, loops or sleeps for ever, unless the file `marker` says
    that it has."""

    def __init__(self, *, fault: str = "", at: int = 0, marker: str = "") -> None:
        self._fault, self._at, self._marker = fault, at, marker
        self._seen, self._total = 0, 0.0

    def process(self, _port: str, row: Mapping[str, float]) -> Iterator[dict[str, float]]:
        self._seen += 1
        self._total += row["v"]
        if self._fault and self._seen == self._at and not Path(self._marker).exists():
            Path(self._marker).touch()
            if self._fault == "raise":
                raise ArithmeticError("this operator was told to raise")
            while True:
                time.sleep(FOREVER_S if self._fault == "sleep" else 0)
        yield {"time": int(row["time"]), "v": row["v"], "total": self._total}

    def snapshot(self) -> bytes:
        return json.dumps([self._seen, self._total]).encode()

    def restore(self, state: bytes) -> None:
        self._seen, self._total = json.loads(state)
