"""Plans and engine states of earlier versions: plans are read and written back as they were, states are restored and
the rows that follow get the same answers."""

from __future__ import annotations

import base64
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shared.batch import Batch
from shared.engine.pipeline import Pipeline
from shared.plan.encoding import decode_plan, encode_plan
from shared.plan.operators import OPERATORS
from shared.plan.placement import cloud_fragment
from tests.formats.engine_cases import Row, fragment, pushed


def frozen(file: Path) -> dict[str, Any]:
    return dict(json.loads(lzma.decompress(file.read_bytes())))


FIRST = Path(__file__).parent / "engine_v1.json.xz"  # the others hold what came later
FROZEN: dict[str, Any] = {
    name: case for file in sorted(FIRST.parent.glob("engine_*.json.xz")) for name, case in frozen(file).items()
}


def canonical(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def restored(name: str) -> Pipeline:
    case = FROZEN[name]
    pipeline = Pipeline(fragment(name, decode_plan(canonical(case["plan"]))), device="aa")
    pipeline.restore(base64.b64decode(case["snapshot"]))
    return pipeline


def test_every_operator_of_version_1_is_in_a_frozen_plan() -> None:
    found = {node["operator"] for case in frozen(FIRST).values() for node in case["plan"]["nodes"]}
    assert found == {
        "appended", "apply", "combine", "feed", "feedback", "join", "key_by", "latest", "port", "request", "select", "sensor",
        "significant", "state", "subscribe", "sync", "sync_back", "timer", "union", "where", "window", "zip",
    }  # fmt: skip
    assert found <= set(OPERATORS)


@pytest.mark.parametrize("name", FROZEN)
def test_a_frozen_plan_is_read_and_written_back_byte_for_byte(name: str) -> None:
    data = canonical(FROZEN[name]["plan"])
    assert encode_plan(decode_plan(data)) == data


TRIGONOMETRIC = {"way"}  # numpy's sines differ in their last bit between processors: another numeric platform


def alike(found: list[Row], wanted: list[Row], name: str) -> bool:
    """Bit for bit; windows that overlap row by row were rounded in another way before, so theirs agree to rounding."""
    if len(found) != len(wanted):
        return False
    for mine, kept in zip(found, wanted, strict=True):
        for column in TRIGONOMETRIC & kept.keys():
            if number(mine[column]) != pytest.approx(number(kept[column]), rel=1e-13, nan_ok=True):
                return False
    found, wanted = without(TRIGONOMETRIC, found), without(TRIGONOMETRIC, wanted)
    if name == "feedback":  # each row now goes round before the next one enters: the same rows in another order
        return sorted(map(repr, plain(found))) == sorted(map(repr, plain(wanted)))
    if name not in {"sliding", "count_hopping", "count_sliding", "mean"}:
        return found == wanted
    return plain(found) == [
        [pytest.approx(one, abs=1e-9, nan_ok=True) if isinstance(one, float) else one for one in row]
        for row in plain(wanted)
    ]


def without(columns: set[str], rows: list[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name not in columns} for row in rows]


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


def test_a_state_from_before_a_devices_keys_met_in_order_goes_on() -> None:
    """Then nothing waited where `key_by("device", "tag")` is followed by `key_by("device")`; now rows do."""
    case = json.loads((Path(__file__).parent / "keys_meet_v1.json").read_text())
    pipeline = Pipeline(cloud_fragment(decode_plan(canonical(case["plan"]))))
    pipeline.restore(base64.b64decode(case["snapshot"]))
    pipeline.apply_changes(base64.b64decode(case["changes"]))
    (entry,) = pipeline.fragment.inputs
    numbers = np.arange(28, 42)
    text = np.dtypes.StringDType()
    rows = {
        "device": np.array(["aa", "bb"], text)[numbers % 2],
        "x": numbers * 0.5,
        "tag": np.array(["walk", "", "日本"], text)[numbers * 5 % 3],
    }
    pipeline.push(entry.name, Batch.of(entry.schema, rows, numbers * 400_000, lo=28))
    outputs = pipeline.advance(entry.name, 41 * 400_000)
    found = [
        row
        for _, out in outputs
        for row in zip(out.time_us.tolist(), *(out.columns[name].tolist() for name in ("device", "first")), strict=True)
    ]
    assert found == [
        (11_999_999, "aa", 11.0),
        (11_999_999, "bb", 14.5),
        (13_999_999, "aa", 16.0),
        (15_999_999, "bb", 16.5),
    ]
