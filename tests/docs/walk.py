"""Follow one reading through the product: which functions are handed it, and in which order.

A function *carries* the reading when one of its arguments holds it: as a number in a column, as the bytes that the codec
made of its batch, or as the number that it became in the result. What lives long (a node, a spool, a log) holds everything
and so says nothing: only plain values, containers, arrays and the product's value classes are looked into.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from types import FrameType
from typing import Any

import numpy as np

PRODUCT = ("mobile_app", "shared", "cloud_backend")
CODEC = "shared.wire.columns"
VALUES = ("Batch", "Rows", "Samples")  # classes of values that are not frozen dataclasses
DEPTH_MAX = 5
ITEMS_MAX = 64
PAYLOAD_BYTES_MIN = 24  # shorter runs of bytes may stand anywhere
TAKES_MORE = 0x04  # a code object's flag of *args
TAKES_NAMED = 0x08  # and of **kwargs


class Walk:
    """`functions` in the order of their first calls, as "module.name"."""

    def __init__(self, numbers: set[float]) -> None:
        self._numbers = list(numbers)
        self._texts = [repr(number).encode() for number in numbers]
        self._payloads: list[bytes] = []
        self.functions: dict[str, None] = {}

    def folders(self) -> list[str]:
        return [name.rpartition(".")[0].rpartition(".")[0] for name in map(_module_function, self.functions)]

    def crossings(self) -> int:
        """How often the next function stands in another folder than the last one."""
        folders = self.folders()
        return sum(one != other for one, other in pairwise(folders))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Threads that start in here are watched as well."""
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _see(self, frame: FrameType, event: str, answer: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event not in ("call", "return") or module.partition(".")[0] not in PRODUCT:
            return
        code = frame.f_code
        name = f"{module}.{code.co_qualname.replace('.<locals>', '')}"
        if event == "return":
            if module == CODEC and name in self.functions:
                self._learn(answer)
            return
        if code.co_name.startswith(("<", "__")) or name in self.functions:
            return
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & TAKES_MORE) + bool(code.co_flags & TAKES_NAMED)
        if any(self._carries(frame.f_locals.get(argument)) for argument in code.co_varnames[:count]):
            self.functions[name] = None

    def _learn(self, answer: object) -> None:
        for part in answer if isinstance(answer, tuple) else (answer,):
            if isinstance(part, bytes) and len(part) >= PAYLOAD_BYTES_MIN and part not in self._payloads:
                self._payloads.append(part)

    def _carries(self, value: Any, depth: int = 0) -> bool:
        if depth > DEPTH_MAX or value is None or isinstance(value, int | type):
            return False
        if isinstance(value, float):
            return value in self._numbers
        if isinstance(value, str):
            return any(text.decode() in value for text in self._texts)
        if isinstance(value, np.ndarray):
            return value.dtype.kind == "f" and bool(np.isin(value, self._numbers).any())
        if isinstance(value, bytes | bytearray | memoryview):
            whole = bytes(value)
            return any(part in whole for part in (*self._payloads, *self._texts))
        if isinstance(value, Mapping):
            return any(self._carries(each, depth + 1) for each in list(value.values())[:ITEMS_MAX])
        if isinstance(value, list | tuple | set | frozenset):
            return any(self._carries(each, depth + 1) for each in list(value)[:ITEMS_MAX])
        return any(self._carries(getattr(value, name, None), depth + 1) for name in _fields(value))


def _fields(value: object) -> list[str]:
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        frozen = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
        return [field.name for field in dataclasses.fields(kind)] if frozen or kind.__name__ in VALUES else []
    return list(getattr(kind, "__slots__", ())) if kind.__name__ in VALUES else []


def _module_function(name: str) -> str:
    """`package.module.Class.function` as `package.module.function`: a class is no folder."""
    parts = name.split(".")
    module = [part for part in parts[:-1] if part.lstrip("_")[:1].islower()]
    return ".".join([*module[: _depth(module)], parts[-1]])


def _depth(parts: list[str]) -> int:
    """How many parts name the module; an outer function's name is no folder either."""
    for size in range(len(parts), 0, -1):
        if ".".join(parts[:size]) in sys.modules:
            return size
    return len(parts)
