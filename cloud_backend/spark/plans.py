"""The plans of a job, kept in its store under ascending numbers: tasks and the next driver read them there."""

from __future__ import annotations

from cloud_backend.spark.store import Store
from shared.errors import UsageError
from shared.plan.encoding import decode_plan, encode_plan
from shared.plan.graph import Plan


def store_plan(store: Store, plan: Plan) -> int:
    """Keep a plan under a new number, which it returns."""
    return store.put_plan(encode_plan(plan))


def stored_plan(store: Store, number: int) -> Plan:
    data = store.plan(number)
    if data is None:
        raise UsageError(
            f"plan {number} is not in the store {store.name!r}; is this the store of a job?", code="job-no-plan"
        )
    return decode_plan(data)
