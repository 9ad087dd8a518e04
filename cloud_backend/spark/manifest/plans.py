"""The plans of a job, kept in its store under ascending numbers: tasks and the next driver read them there."""

from __future__ import annotations

import logging
from pathlib import Path

from cloud_backend.spark.graph import JobGraph, job_graph
from cloud_backend.spark.storage.store import Store
from shared.errors import ResurgeError, UsageError
from shared.plan.changes import ANEW, GONE, changes
from shared.plan.encoding import decode_plan, encode_plan, operator_identity
from shared.plan.fragments import Vertex
from shared.plan.graph import Plan
from shared.plan.vertices import vertices


class PlanFile:
    """The file that says which program a job runs. Whoever deploys another one replaces it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None

    def read(self) -> Plan:
        self._seen = self._stamp()
        return decode_plan(self._path.read_bytes())

    def newer(self) -> Plan | None:
        """The plan in a file that was replaced since it was last read; one that cannot be read is said and left."""
        try:
            return None if self._stamp() == self._seen else self.read()
        except FileNotFoundError:
            return None
        except (OSError, ResurgeError) as error:
            logging.getLogger("resurge.spark").error(
                "%s cannot be run, the plan at hand goes on: %s", self._path, error
            )
            return None

    def _stamp(self) -> tuple[int, int, int]:
        status = self._path.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino


class Configurations:
    """Whether a vertex had the same operators under an earlier plan of the store as it has now."""

    def __init__(self, store: Store, graph: JobGraph) -> None:
        self._store = store
        self._now = {each.name: _operators(each) for each in vertices(graph.plan)}
        self._known: dict[int, dict[str, tuple[str, ...]]] = {}

    def same(self, plan: int, vertex: str) -> bool:
        if plan not in self._known:
            self._known[plan] = {each.name: _operators(each) for each in vertices(stored_plan(self._store, plan))}
        return self._known[plan].get(vertex, ()) == self._now.get(vertex, ())


def _operators(vertex: Vertex) -> tuple[str, ...]:
    return tuple(operator_identity(node.operator) for node in vertex.fragment.nodes)


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


def replaced(before: Plan, after: Plan) -> tuple[list[str], list[str]]:
    """The vertices of a job that start anew when another plan takes the place of one, and those that are gone."""
    found = changes(before, after)
    former, coming = job_graph(before), job_graph(after)
    # Vertices that only read the log for others have no state, but records of their edge's columns.
    reading = [name for name in coming.order if coming.vertices[name].ingest and name in former.vertices]
    reshaped = [name for name in reading if set(coming.vertices[name].readers) & set(found.edges_reshaped)]
    unread = [name for name in former.order if former.vertices[name].ingest and name not in coming.vertices]
    return [*reshaped, *found.of(ANEW)], [*unread, *found.of(GONE)]
