from __future__ import annotations

import json

import pytest

from shared.errors import PeerError
from shared.wire.untrusted_text import NESTING_MAX, is_name, parse_json, printable


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":"\\ud800"}',
        b'{"\\udfff":1}',
        b'["x",["\\ud800y"]]',
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b"[" * (NESTING_MAX + 1) + b"]" * (NESTING_MAX + 1),
        b'{"a":' * (NESTING_MAX + 1) + b"1" + b"}" * (NESTING_MAX + 1),
        b"[" * 50_000,
        b"1" * 50_000,
        b"\xff\xfe\x00",
        b'"\xed\xa0\x80"',
        b"",
    ],
)
def test_what_nobody_could_store_or_show_is_refused(data: bytes) -> None:
    with pytest.raises(PeerError):
        parse_json(data)


def test_a_text_of_any_language_passes_and_comes_out_as_it_was() -> None:
    value = {"navn": "Ærø 🚲", "liste": [1, 2.5, None, True, {"dypt": ["så"]}]}
    assert parse_json(json.dumps(value).encode()) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "a\x1b[2J", "a\u202eb", "a\ud800", "a\x85", "\u2028", 5, None])
def test_what_does_more_than_print_names_nothing(name: object) -> None:
    assert not is_name(name)


def test_a_text_is_printed_without_moving_anything() -> None:
    assert printable("two\nlines\x1b[2J\u202e\ud800") == "two\\nlines\\x1b[2J\\u202e\\ud800"
    assert printable("Ærø") == "Ærø"
