"""State as bytes: what a snapshot and a change set are made of. Never pickle.

A snapshot opens with a magic, a format version and a checksum, so that bytes from a disk or another machine
are whole or refused. Inside is one tagged value: None, truth values, integers, floats, text, bytes, lists,
tuples, maps and one-dimensional numpy columns. Floats travel as their bits, NaN payloads included. The decoder
bounds every count by the bytes that are left before it allocates.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from shared.errors import DamagedData

MAGIC = b"RSst"
VERSION = 1
HEADER = struct.Struct("<4sHI")

Value: TypeAlias = Any  # one of the kinds above; only the operator that wrote a state knows its shape

_U32 = struct.Struct("<I")
_I64 = struct.Struct("<q")
_F64 = struct.Struct("<d")
_ARRAY_TYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
_ARRAY_CODES = {np.dtype(name): code for code, name in enumerate(_ARRAY_TYPES)}
_TEXT_CODE = 255
_DEPTH_MAX = 64


def encode_state(value: Value) -> bytes:
    """The value as versioned, checksummed bytes."""
    parts: list[bytes] = []
    _write(value, parts)
    body = b"".join(parts)
    return HEADER.pack(MAGIC, VERSION, zlib.crc32(body)) + body


def decode_state(data: bytes) -> Value:
    """The value of `encode_state`; DamagedData when the bytes are not whole or of another version."""
    if len(data) < HEADER.size:
        raise DamagedData(f"a snapshot has at least {HEADER.size} bytes, got {len(data)}", code="snapshot-truncated")
    magic, version, checksum = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise DamagedData("these bytes are not a snapshot", code="snapshot-magic")
    if version != VERSION:
        raise DamagedData(
            f"snapshot version {version}; this engine reads {VERSION}, run the version that wrote it",
            code="snapshot-version",
        )
    if zlib.crc32(memoryview(data)[HEADER.size :]) != checksum:
        raise DamagedData("snapshot fails its checksum; use an older one", code="snapshot-checksum")
    reader = _Reader(memoryview(data), HEADER.size)
    value = reader.value(0)
    if reader.offset != len(data):
        raise DamagedData("bytes follow the end of a snapshot", code="snapshot-truncated")
    return value


def _write(value: Value, parts: list[bytes]) -> None:
    """A value of any kind; who writes several asks `_WRITERS` first, which knows most of them exactly."""
    writer = next((each for kind, each in _WRITERS.items() if isinstance(value, kind)), None)
    if writer is None:
        raise TypeError(f"state of type {type(value).__name__} has no encoding")
    writer(value, parts)


def _write_int(value: int, parts: list[bytes]) -> None:
    if -(2**63) <= value < 2**63:
        parts.append(b"i" + _I64.pack(value))
    else:
        size = value.bit_length() // 8 + 1
        parts.append(b"I" + _U32.pack(size) + value.to_bytes(size, "little", signed=True))


def _write_text(value: str, parts: list[bytes]) -> None:
    text = value.encode("utf-8", "surrogatepass")
    parts.append(b"s" + _U32.pack(len(text)) + text)


def _write_map(value: dict[Value, Value], parts: list[bytes]) -> None:
    parts.append(b"d" + _U32.pack(len(value)))
    for key, item in value.items():
        _WRITERS.get(type(key), _write)(key, parts)
        _WRITERS.get(type(item), _write)(item, parts)


def _write_items(value: list[Value] | tuple[Value, ...], parts: list[bytes]) -> None:
    parts.append((b"l" if isinstance(value, list) else b"t") + _U32.pack(len(value)))
    for item in value:
        _WRITERS.get(type(item), _write)(item, parts)


def _write_array(array: np.ndarray, parts: list[bytes]) -> None:
    code = _ARRAY_CODES.get(array.dtype)
    if code is not None:
        parts.append(b"a" + bytes([code]) + _U32.pack(len(array)))
        parts.append(np.ascontiguousarray(array).tobytes())
        return
    texts = [text.encode("utf-8", "surrogatepass") for text in array.tolist()]
    parts.append(b"a" + bytes([_TEXT_CODE]) + _U32.pack(len(texts)))
    parts.append(np.fromiter(map(len, texts), dtype=np.uint32, count=len(texts)).tobytes())
    parts.extend(texts)


# By kind, as most values are of one exactly. In this order where one stands for several: a truth value is an integer,
# and numpy's float64 a float.
_WRITERS: dict[type, Callable[[Value, list[bytes]], None]] = {
    type(None): lambda _, parts: parts.append(b"N"),
    bool: lambda value, parts: parts.append(b"T" if value else b"F"),
    int: _write_int,
    float: lambda value, parts: parts.append(b"f" + _F64.pack(value)),
    str: _write_text,
    bytes: lambda value, parts: parts.append(b"b" + _U32.pack(len(value)) + value),
    np.ndarray: _write_array,
    dict: _write_map,
    list: _write_items,
    tuple: _write_items,
    np.generic: lambda value, parts: _write(value.item(), parts),
}


class _Reader:
    """A cursor over the bytes; every method moves it past what it returns."""

    __slots__ = ("data", "offset")

    def __init__(self, data: memoryview, offset: int) -> None:
        self.data = data
        self.offset = offset

    def take(self, size: int) -> memoryview:
        end = self.offset + size
        if end > len(self.data):
            raise DamagedData(f"a snapshot ends {end - len(self.data)} bytes early", code="snapshot-truncated")
        view = self.data[self.offset : end]
        self.offset = end
        return view

    def count(self, least_bytes: int) -> int:
        """A count whose items take at least `least_bytes` each, checked against what is left."""
        (count,) = _U32.unpack(self.take(4))
        if count * least_bytes > len(self.data) - self.offset:
            raise DamagedData(f"a snapshot claims {count} items it has no bytes for", code="snapshot-truncated")
        return int(count)

    def value(self, depth: int) -> Value:
        if depth > _DEPTH_MAX:
            raise DamagedData(f"a snapshot nests deeper than {_DEPTH_MAX}", code="snapshot-depth")
        tag = bytes(self.take(1))
        if tag in _SIMPLE:
            return _SIMPLE[tag](self)
        if tag == b"d":
            return {self.value(depth + 1): self.value(depth + 1) for _ in range(self.count(2))}
        if tag == b"l":
            return [self.value(depth + 1) for _ in range(self.count(1))]
        if tag == b"t":
            return tuple(self.value(depth + 1) for _ in range(self.count(1)))
        raise DamagedData(f"unknown tag {tag!r} in a snapshot", code="snapshot-tag")

    def array(self) -> np.ndarray:
        code = self.take(1)[0]
        if code == _TEXT_CODE:
            sizes = np.frombuffer(self.take(4 * self.count(4)), dtype=np.uint32).tolist()
            return np.array([str(self.take(size), "utf-8", "surrogatepass") for size in sizes], np.dtypes.StringDType())
        if code >= len(_ARRAY_TYPES):
            raise DamagedData(f"unknown column type {code} in a snapshot", code="snapshot-tag")
        kind = np.dtype(_ARRAY_TYPES[code])
        return np.frombuffer(self.take(self.count(kind.itemsize) * kind.itemsize), dtype=kind).copy()


_SIMPLE: dict[bytes, Callable[[_Reader], Value]] = {
    b"N": lambda _: None,
    b"T": lambda _: True,
    b"F": lambda _: False,
    b"i": lambda reader: _I64.unpack(reader.take(8))[0],
    b"I": lambda reader: int.from_bytes(reader.take(reader.count(1)), "little", signed=True),
    b"f": lambda reader: _F64.unpack(reader.take(8))[0],
    b"s": lambda reader: str(reader.take(reader.count(1)), "utf-8", "surrogatepass"),
    b"b": lambda reader: bytes(reader.take(reader.count(1))),
    b"a": lambda reader: reader.array(),
}
