"""Queries: what people asked of the streams beside the program, and as which Spark job it runs.

A query is SQL text or a plan. It is compiled when it is submitted, so that a mistake is told to whoever made it, and
then wanted as a further job (`cloud_backend.spark.control.jobs`): the Spark process starts it beside the program's job.
This file keeps who asked what and when; whether it runs is the job directory's to say. A query's rows go to a sink
of its own name, so two queries never write to one sink.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cloud_backend.coordinator.sql import sql
from cloud_backend.database import Database, Location
from shared.errors import UsageError
from shared.language.expressions import Value
from shared.language.schema import Schema
from shared.plan.encoding import decode_plan
from shared.plan.graph import Plan
from shared.plan.operators import Subscribe, SyncBack
from shared.stream.drafts import Program, collecting, stop_collecting
from shared.stream.sources import stream

FORMAT = 1
FILE = "queries.sqlite"
NOTHING_MISSING: Mapping[str, Mapping[str, Value]] = {}

_SCHEMA = """
CREATE TABLE IF NOT EXISTS queries (
  name TEXT PRIMARY KEY, kind TEXT NOT NULL, text TEXT NOT NULL, person TEXT NOT NULL, submitted_us INTEGER NOT NULL,
  sinks TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""
_ALL = "SELECT name, kind, text, person, submitted_us, sinks FROM queries ORDER BY submitted_us, name"


@dataclass(frozen=True, slots=True)
class Query:
    name: str
    kind: str  # sql | plan
    text: str
    person: str
    submitted_us: int
    sinks: tuple[str, ...]


class Queries:
    """Open the queries at a path, creating the file when it is not there. Safe to share between threads."""

    def __init__(self, path: Location) -> None:
        self._database = Database(path)
        self._database.require(_SCHEMA, format=FORMAT, code="queries-format")

    def close(self) -> None:
        self._database.close()

    def check(self, query: Query) -> None:
        """Refuse a name or a sink that another query has."""
        _check_free(query, self.all())

    def put(self, query: Query) -> None:
        """Keep a query; refuses a name or a sink that another one has."""
        with self._database.transaction() as database:
            _check_free(query, [_query(row) for row in database.execute(_ALL)])
            database.execute(
                "INSERT INTO queries VALUES (?, ?, ?, ?, ?, ?)",
                (query.name, query.kind, query.text, query.person, query.submitted_us, "\n".join(query.sinks)),
            )

    def remove(self, name: str) -> None:
        with self._database.transaction() as database:
            database.execute("DELETE FROM queries WHERE name = ?", (name,))

    def all(self) -> list[Query]:
        return [_query(row) for row in self._database.read(_ALL)]

    def find(self, name: str) -> Query | None:
        return next((query for query in self.all() if query.name == name), None)


def compile_sql(
    text: str, name: str, edges: Mapping[str, Schema], missing: Mapping[str, Mapping[str, Value]] = NOTHING_MISSING
) -> Plan:
    """The plan of a query over the edges that devices have declared; its rows go to the sink of its name. `missing`:
    what the program states for columns that some phones do not have yet, by edge."""
    program = Program(name=name)
    token = collecting(program)
    try:
        for edge, schema in edges.items():
            with suppress(UsageError):  # a device may declare what no program could; then only that cannot be asked
                stream(f"logged {edge}", {field.name: field.kind for field in schema.fields}).sync(
                    edge, missing=missing.get(edge)
                )
        sql(text).subscribe(name)
    finally:
        stop_collecting(token)
    return _only_what_is_read(program)


def compile_plan(data: bytes) -> Plan:
    """A plan as `resurge plan --json` prints it, checked."""
    try:
        return decode_plan(data)
    except RecursionError:
        raise UsageError("the plan is nested too deeply", code="plan-json") from None


def sinks_of(plan: Plan) -> tuple[str, ...]:
    return tuple(node.operator.name for node in plan.nodes if isinstance(node.operator, Subscribe | SyncBack))


def check_sinks(plan: Plan, taken: Iterable[str]) -> tuple[str, ...]:
    """The sinks of a plan; refuses one that others write to, and a plan that tells phones something."""
    sinks = sinks_of(plan)
    if any(isinstance(node.operator, SyncBack) for node in plan.nodes):
        raise UsageError(
            "a query's results stay here; end it with .subscribe(name): what goes back to phones is the program's",
            code="query-sync-back",
        )
    if set(sinks) & set(taken):
        raise UsageError(
            "one of its sinks belongs to the program or to another query; name it otherwise", code="query-name-taken"
        )
    return sinks


def _query(stored: tuple[Any, ...]) -> Query:
    name, kind, text, person, submitted_us, sinks = stored
    return Query(name, kind, text, person, submitted_us, tuple(sinks.split("\n")))


def _check_free(query: Query, others: Iterable[Query]) -> None:
    for other in others:
        if query.name == other.name or set(query.sinks) & set(other.sinks):
            raise UsageError(
                "a query of this name, or one that writes to the same sink, is there already; choose another name, or "
                "drop that one",
                code="query-name-taken",
            )


def _only_what_is_read(program: Program) -> Plan:
    """Without the edges the query does not name: a job should not read what nobody asked for."""
    [sink] = [made for made in program.drafts if isinstance(made.operator, Subscribe)]
    program.drafts[:] = [sink]
    return program.plan()
