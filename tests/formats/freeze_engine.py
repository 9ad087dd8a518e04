"""Writes frozen plans and engine states of cases, once, when they are new:
`python -m tests.formats.freeze_engine tests/formats/engine_WHAT.json.xz CASE ...`."""

from __future__ import annotations

import base64
import json
import lzma
import sys
from pathlib import Path

from shared.engine.pipeline import Pipeline
from shared.plan.encoding import encode_plan
from shared.stream.declarations import plan_of
from tests.formats.engine_cases import CASES, fragment, pushed


def frozen_state(name: str) -> dict[str, object]:
    plan = plan_of(CASES[name](), name=name)
    pipeline = Pipeline(fragment(name, plan), device="aa")
    pushed(pipeline, 0)
    snapshot = pipeline.snapshot()
    pushed(pipeline, 1)
    changes = pipeline.changes_since_snapshot()
    return {
        "plan": json.loads(encode_plan(plan)),
        "snapshot": base64.b64encode(snapshot).decode(),
        "changes": base64.b64encode(changes).decode(),
        "after": pushed(pipeline, 2),
    }


if __name__ == "__main__":
    document = {name: frozen_state(name) for name in sys.argv[2:]}
    text = json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    Path(sys.argv[1]).write_bytes(lzma.compress(text.encode(), preset=9))
