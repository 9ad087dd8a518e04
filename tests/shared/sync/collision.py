"""A second schema with the number of a given one, as somebody would forge it."""

from __future__ import annotations

from shared.language.schema import Schema

_BITS = 40  # places in a name where one of two letters may stand; CRC-32 has 32 bits to hit


def same_number(schema: Schema) -> Schema:
    """As many columns of the same kinds under other names. CRC-32 is linear: which letters to take is an equation."""
    kinds = [field.kind for field in schema]
    columns = ["speed", *(f"other_{place}" for place in range(1, len(kinds)))]

    def forged(letters: int) -> Schema:
        tail = "".join("ab"[letters >> bit & 1] for bit in range(_BITS))
        return Schema.of(dict(zip([*columns[:-1], columns[-1] + tail], kinds, strict=True)))

    base = forged(0).id
    rows = [(forged(1 << bit).id ^ base, 1 << bit) for bit in range(_BITS)]
    wanted, chosen = schema.id ^ base, 0
    for place in range(32):
        pivot = next((row for row in rows if row[0] >> place & 1), None)
        if pivot is None:
            continue
        rows = [
            (value ^ pivot[0], used ^ pivot[1]) if value >> place & 1 else (value, used)
            for value, used in rows
            if (value, used) != pivot
        ]
        if wanted >> place & 1:
            wanted, chosen = wanted ^ pivot[0], chosen ^ pivot[1]
    found = forged(chosen)
    if wanted or found.id != schema.id:
        raise AssertionError("no such schema among these names")
    return found
