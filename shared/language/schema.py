"""The typed columns of a stream."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from shared.errors import UsageError

KINDS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "str")

ADDED = "added"  # metadata of a field that plans of the first format lack: left out of JSON while it is its default


@cache  # numpy looks a type up by its name in ten times as long
def dtype(kind: str) -> np.dtype:
    """The numpy type that holds a column of this kind. Text is numpy's variable-width string type."""
    if kind == "str":
        return np.dtypes.StringDType()
    return np.dtype(kind)


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Schema:
    """An ordered set of named, typed columns. Every stream has `time` (int64, microseconds) beside them."""

    fields: tuple[Field, ...]

    @staticmethod
    def of(columns: Mapping[str, str]) -> Schema:
        """A schema from {name: kind}; refuses a kind that is not one of KINDS."""
        for name, kind in columns.items():
            if kind not in KINDS:
                raise UsageError(
                    f"column {name!r} has kind {kind!r}; expected one of {', '.join(KINDS)}", code="schema-kind"
                )
        return Schema(tuple(Field(name, kind) for name, kind in columns.items()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def kind(self, name: str) -> str:
        for field in self.fields:
            if field.name == name:
                return field.kind
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(field.name == name for field in self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def to_json(self) -> list[list[str]]:
        return [[field.name, field.kind] for field in self.fields]

    @staticmethod
    def from_json(value: object) -> Schema:
        if not isinstance(value, list) or len(value) > 4096:
            raise UsageError("a schema is a list of at most 4096 [name, kind] pairs", code="schema-json")
        columns: dict[str, str] = {}
        for pair in value:
            if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)):
                raise UsageError("a schema is a list of [name, kind] pairs of text", code="schema-json")
            columns[pair[0]] = pair[1]
        if len(columns) != len(value):
            raise UsageError("a schema names a column twice", code="schema-json")
        return Schema.of(columns)

    @property
    def id(self) -> int:
        """A stable 32-bit number, kept beside every stored batch, that tells the schemas of one edge apart.

        It names nothing by itself: anybody can make two schemas with the same one. A batch's schema is the one that
        its own device declared on its own edge under this number; between devices only whole schemas are compared.
        """
        return zlib.crc32("\n".join(f"{field.name}\t{field.kind}" for field in self.fields).encode())
