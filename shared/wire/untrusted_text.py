"""Text and JSON that somebody else wrote: checked once, where it comes in, so that nobody further in has to.

Python reads more than others can write: a lone surrogate, which no file, database or page takes; NaN, which is no JSON;
lists nested until a recursion ends. What passes here can be encoded, stored and shown; a name can also be printed, so
that it never moves a terminal's cursor or ends a line of a log.
"""

from __future__ import annotations

import json
from typing import NoReturn, TypeGuard

from shared.errors import PeerError

NESTING_MAX = 8  # a schema in a message needs three
NAME_CHARACTERS_MAX = 200


def parse_json(data: bytes | memoryview) -> object:
    """The JSON value in these bytes, which the caller has bounded. Raises PeerError and nothing else."""
    try:
        value = json.loads(bytes(data), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise PeerError("the payload is not JSON", code="message-json") from None
    _check(value, NESTING_MAX)
    return value


def is_name(text: object) -> TypeGuard[str]:
    """Whether this may name something: a few characters, all of them printable."""
    return isinstance(text, str) and 0 < len(text) <= NAME_CHARACTERS_MAX and text.isprintable()


def clean_text(text: str, characters: int) -> str:
    """At most so much of a text, without what cannot be printed."""
    return "".join(character for character in text[: 4 * characters] if character.isprintable())[:characters]


def printable(text: str) -> str:
    """The same text with everything that does more than print written as an escape."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "backslashreplace").decode()
        for character in text
    )


def _refuse(_: str) -> NoReturn:
    raise ValueError("NaN and infinity are no JSON")


def _check(value: object, depth: int) -> None:
    if isinstance(value, str):
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise PeerError("a text in the payload is not well-formed Unicode", code="message-text") from None
    elif isinstance(value, dict | list):
        if not depth:
            raise PeerError(f"the payload nests deeper than {NESTING_MAX} levels", code="message-json")
        if isinstance(value, dict):
            for key in value:
                _check(key, depth)
        for each in value.values() if isinstance(value, dict) else value:
            _check(each, depth - 1)
