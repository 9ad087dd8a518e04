"""The plans of a job, kept in its store under ascending numbers: tasks and the next driver read them there."""

from __future__ import annotations

import uuid

from cloud_backend.spark.store import Store
from shared.errors import UsageError
from shared.plan.encoding import decode_plan, encode_plan
from shared.plan.graph import Plan


def store_plan(store: Store, plan: Plan) -> int:
    """Keep a plan under a new number, which it returns."""
    directory = store.root / "plans"
    directory.mkdir(exist_ok=True)
    number = max((int(path.stem) for path in directory.glob("*.plan")), default=0) + 1
    temporary = directory / f".{uuid.uuid4().hex[:12]}"
    temporary.write_bytes(encode_plan(plan))
    temporary.replace(directory / f"{number}.plan")
    return number


def stored_plan(store: Store, number: int) -> Plan:
    try:
        return decode_plan((store.root / "plans" / f"{number}.plan").read_bytes())
    except FileNotFoundError:
        raise UsageError(
            f"plan {number} is not in the store {store.root.name!r}; is this the store of a job?", code="job-no-plan"
        ) from None
