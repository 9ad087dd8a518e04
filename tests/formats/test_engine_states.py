"""Plans and engine states of earlier versions: plans are read and written back as they were, states are restored and
the rows that follow get the same answers."""

from __future__ import annotations

import base64
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from shared.engine.pipeline import Pipeline
from shared.plan.encoding import decode_plan, encode_plan
from shared.plan.operators import OPERATORS
from tests.formats.engine_cases import Row, fragment, pushed

FROZEN: dict[str, Any] = json.loads(lzma.decompress((Path(__file__).parent / "engine_v1.json.xz").read_bytes()))


def canonical(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def restored(name: str) -> Pipeline:
    case = FROZEN[name]
    pipeline = Pipeline(fragment(name, decode_plan(canonical(case["plan"]))), device="aa")
    pipeline.restore(base64.b64decode(case["snapshot"]))
    return pipeline


def test_every_operator_of_version_1_is_in_a_frozen_plan() -> None:
    found = {node["operator"] for case in FROZEN.values() for node in case["plan"]["nodes"]}
    assert found == {
        "appended", "apply", "combine", "feed", "feedback", "join", "key_by", "latest", "port", "request", "select", "sensor",
        "significant", "state", "subscribe", "sync", "sync_back", "timer", "union", "where", "window", "zip",
    }  # fmt: skip
    assert found <= set(OPERATORS)


@pytest.mark.parametrize("name", FROZEN)
def test_a_frozen_plan_is_read_and_written_back_byte_for_byte(name: str) -> None:
    data = canonical(FROZEN[name]["plan"])
    assert encode_plan(decode_plan(data)) == data


def alike(found: list[Row], wanted: list[Row], name: str) -> bool:
    """Bit for bit; windows that overlap row by row were rounded in another way before, so theirs agree to rounding."""
    if name == "feedback":  # each row now goes round before the next one enters: the same rows in another order
        return sorted(map(repr, plain(found))) == sorted(map(repr, plain(wanted)))
    if name not in {"sliding", "count_hopping", "count_sliding", "mean"}:
        return found == wanted
    return plain(found) == [
        [pytest.approx(one, abs=1e-9, nan_ok=True) if isinstance(one, float) else one for one in row]
        for row in plain(wanted)
    ]


def plain(rows: list[Row]) -> list[list[object]]:
    return [[number(row[name]) for name in sorted(row)] for row in rows]


def number(value: object) -> object:
    is_float = isinstance(value, str) and (value == "nan" or "0x" in value)
    return float.fromhex(str(value)) if is_float else value


@pytest.mark.parametrize("name", FROZEN)
def test_a_restored_snapshot_goes_on_to_the_same_answers(name: str) -> None:
    pipeline = restored(name)
    pushed(pipeline, 1)
    assert alike(pushed(pipeline, 2), FROZEN[name]["after"], name)


@pytest.mark.parametrize("name", FROZEN)
def test_a_change_set_on_a_restored_snapshot_goes_on_to_the_same_answers(name: str) -> None:
    pipeline = restored(name)
    pipeline.apply_changes(base64.b64decode(FROZEN[name]["changes"]))
    assert alike(pushed(pipeline, 2), FROZEN[name]["after"], name)
