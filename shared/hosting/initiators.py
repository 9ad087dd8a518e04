"""How nodes write who asked for a snapshot: as a number of 32 bits, the same on all of them.

A MARK has no room for a name, and ids are ordered by it: nodes that wrote it differently would disagree which of two
snapshots is older, and wait for each other.
"""

from __future__ import annotations

import hashlib


def initiator_text(name: str) -> str:
    """The initiator of this name, with its term, as it stands in ids."""
    return text_of(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "little"))


def cut_initiator(query: str, incarnation: int) -> str:
    """Who asks for the cuts through a query's region: its coordinator, whichever that is."""
    return initiator_text(f"region of {query}/{incarnation}")


def text_of(number: int) -> str:
    """As it stands in ids, from what a MARK says."""
    return f"#{number:08x}"


def number_of(text: str) -> int:
    """As a MARK says it."""
    return int(text[1:], 16)
