"""How the batches of an edge are packed: the choices of `.sync(codec=...)`, and those that a program registers.

`columns` looks at each column and is what `auto` means. `deflate` is zlib over the plain rows, `none` the plain rows
themselves. A registered codec turns the plain rows into bytes of its own and back; like an operator type it is named
in plans and must be known wherever its batches are packed or read, so it belongs into a module that resurge.toml lists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shared.errors import UsageError

AUTO = "auto"
COLUMNS = "columns"
DEFLATE = "deflate"
NONE = "none"
BUILT_IN = (AUTO, COLUMNS, DEFLATE, NONE)
NAME_BYTES_MAX = 40


@dataclass(frozen=True, slots=True)
class Codec:
    """`pack` of bytes and `unpack` of what it made give the same bytes again, whatever they are.

    `unpack` is also handed what somebody forged: it raises ValueError, and makes at most `bytes_max` bytes of it.
    """

    name: str
    pack: Callable[[bytes], bytes]
    unpack: Callable[[bytes, int], bytes]


_codecs: dict[str, Codec] = {}


def register_codec(name: str, *, pack: Callable[[bytes], bytes], unpack: Callable[[bytes, int], bytes]) -> Codec:
    """Make a codec known under a name, for `.sync(codec=NAME)`."""
    if name in BUILT_IN or not name.isidentifier() or not name.isascii() or len(name) > NAME_BYTES_MAX:
        raise UsageError(
            f"codec name {name!r} is taken or no short name; use letters, digits and _, at most {NAME_BYTES_MAX}",
            code="codec-name",
        )
    codec = _codecs[name] = Codec(name, pack, unpack)
    return codec


def registered_codec(name: str) -> Codec | None:
    return _codecs.get(name)


def codec_names() -> tuple[str, ...]:
    """Every codec that a plan may name here."""
    return (*BUILT_IN, *sorted(_codecs))
