"""Which kinds of column hold every value of which others: what a stream's columns may become while batches of both
forms are on their way."""

from __future__ import annotations

from shared.language.schema import Schema

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_EXACT_IN_FLOAT64 = (*_SIGNED[:3], *_UNSIGNED[:3])  # its 53 bits hold every whole number of 32
MISSING_ITSELF = ("float32", "float64")  # kinds with a value that says that there is none


def widens(narrow: str, wide: str) -> bool:
    """Whether every value of the one kind is a value of the other, exactly. A kind widens to itself."""
    if narrow == wide or (narrow, wide) == ("float32", "float64"):
        return True
    if wide == "float64":
        return narrow in _EXACT_IN_FLOAT64
    for family in (_SIGNED, _UNSIGNED):
        if narrow in family and wide in family:
            return family.index(narrow) < family.index(wide)
    return narrow in _UNSIGNED and wide in _SIGNED and _UNSIGNED.index(narrow) < _SIGNED.index(wide)


def conflicts(written: Schema, wanted: Schema) -> list[str]:
    """Why rows of one schema cannot be read as rows of the other, a column each; empty where they can, or where only
    columns are missing."""
    return [
        f"column {field.name!r} was written as {written.kind(field.name)} and is wanted as {field.kind}"
        for field in wanted
        if field.name in written and not widens(written.kind(field.name), field.kind)
    ]
