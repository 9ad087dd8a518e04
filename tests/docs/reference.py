"""The reference page, made from the code: `python -m tests.docs.reference --write`.

What is said of a name is the first paragraph of its docstring; its example and what it gives come from
`reference_examples.py` and from running it. A name without one of them is an error: add a docstring, or an example.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import resurge as rs
from resurge.evaluate import plan_of
from shared.language.expressions import ARITHMETIC, COMPARISONS, CONNECTIVES, FUNCTIONS
from shared.stream.formulas import Formula
from shared.stream.sources import SENSORS
from shared.stream.stream import Sink, Stream
from shared.stream.windowed import WindowedStream
from tests.docs import reference_examples as examples
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "reference.md"
ROWS_SHOWN = 4
NOT_SHOWN = {"time", "device", "window_start", "window_end", "complete"}

OPENING = """# Reference

Every name that a program can use, with one line that runs. Made from the code by `python -m tests.docs.reference --write`; a test
compares it. What verbs mean in full: [semantics](semantics.md). A first program: [tutorial](tutorial.md).

The examples share two streams, `x` and `y`; `cloud` is `x.sync("x")`. `nan` is the missing float.

| stream | time in s | columns |
|---|---|---|
{streams}
"""


MEMBERS: tuple[tuple[type, Mapping[str, str]], ...] = (
    (Stream, examples.STREAM),
    (WindowedStream, examples.WINDOWED),
    (Formula, examples.FORMULA),
    (rs.Live, examples.LIVE),
)


def members_of(kind: type) -> list[str]:
    """The methods and properties that a program may use: not the places of a formula's own data."""
    return [
        name for name in dir(kind) if not name.startswith("_") and not inspect.ismemberdescriptor(getattr(kind, name))
    ]


class Incomplete(Exception):
    """A name that the page cannot be made for; says what to add."""


def page() -> str:
    _complete()
    parts = [
        OPENING.format(streams="\n".join(map(_given, ("x", "y")))),
        _section("Where streams begin", _public(examples.SOURCES)),
        _section("Verbs of a stream", _members(Stream, examples.STREAM)),
        _section("Of an open window", _members(WindowedStream, examples.WINDOWED)),
        _section("Expressions", _public(examples.EXPRESSIONS)),
        _section("Operators", _operators()),
        _section("Of an expression", _members(Formula, examples.FORMULA)),
        _section("Functions by name, with `rs.call`", _by_name()),
        _section("Aggregates", _public(examples.AGGREGATES)),
        _section("Running, plans, contracts, own operators, errors", _public(examples.RUNNING)),
        _section("Of `rs.Live`", _members(rs.Live, examples.LIVE)),
        _sensors(),
    ]
    return "\n".join(parts)


def _complete() -> None:
    tables = (examples.SOURCES, examples.EXPRESSIONS, examples.AGGREGATES, examples.RUNNING)
    shown = {name for table in tables for name in table}
    for name in rs.__all__:
        if f"rs.{name}" not in shown:
            raise Incomplete(f"rs.{name} is not in the reference: add an example to tests/docs/reference_examples.py")
    named = {name.removeprefix("rs.") for name in examples.EXPRESSIONS} | set(examples.BY_NAME)
    for name in FUNCTIONS:
        if name not in named:
            raise Incomplete(
                f"function {name!r} has no example: add one to BY_NAME of tests/docs/reference_examples.py"
            )
    for kind, table in MEMBERS:
        for name in members_of(kind):
            if name not in table:
                raise Incomplete(f".{name} of {kind.__name__} has no example: add one to reference_examples.py")
    for sign in (*ARITHMETIC, *COMPARISONS, *CONNECTIVES):
        if sign not in examples.OPERATORS:
            raise Incomplete(
                f"operator {sign!r} has no example: add one to OPERATORS of tests/docs/reference_examples.py"
            )


# --- Entries: name, what it is, example --------------------------------------------------------------------------------

Entry = tuple[str, str, str]


def _public(table: Mapping[str, str]) -> Iterable[Entry]:
    for name, example in table.items():
        found = getattr(rs, name.removeprefix("rs."))
        shown = name if isinstance(found, type) or not callable(found) else name + _signature(found)
        yield shown, _said(name, found), example


def _members(kind: type, table: Mapping[str, str]) -> Iterable[Entry]:
    for name, example in table.items():
        found = inspect.getattr_static(kind, name)
        if isinstance(found, property):
            yield f".{name}", _said(name, found.fget), example
        else:
            yield f".{name}{_signature(getattr(kind, name))}", _said(name, getattr(kind, name)), example


def _by_name() -> Iterable[Entry]:
    for name, example in examples.BY_NAME.items():
        yield FUNCTIONS[name].signature, "", example


def _operators() -> Iterable[Entry]:
    for sign, example in examples.OPERATORS.items():
        yield sign, "", example


def _said(name: str, found: object) -> str:
    text = inspect.getdoc(found if callable(found) else type(found))
    if not text:
        raise Incomplete(f"{name} has no docstring, which the reference shows")
    return " ".join(text.split("\n\n")[0].split())


def _signature(found: Any) -> str:
    """The arguments by name, with their defaults."""
    shown = []
    star = False
    for argument in inspect.signature(found).parameters.values():
        if argument.name == "self":
            continue
        if argument.kind is argument.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        if argument.kind is argument.VAR_POSITIONAL:
            star = True
        mark = (
            "*" if argument.kind is argument.VAR_POSITIONAL else "**" if argument.kind is argument.VAR_KEYWORD else ""
        )
        default = "" if argument.default is argument.empty else f"={argument.default!r}"
        shown.append(f"{mark}{argument.name}{default if len(default) < 30 else '=...'}")
    return f"({', '.join(shown)})"


# --- The page ---------------------------------------------------------------------------------------------------------


def _section(title: str, entries: Iterable[Entry]) -> str:
    lines = [f"## {title}", ""]
    listed = list(entries)
    if any(what for _, what, _ in listed):
        lines += ["| name | what it is | example | gives |", "|---|---|---|---|"]
        lines += [
            f"| {_code(name)} | {_cell(what)} | {_code(one)} | {_code(gives(one))} |" for name, what, one in listed
        ]
    else:
        lines += ["| name | example | gives |", "|---|---|---|"]
        lines += [f"| {_code(name)} | {_code(one)} | {_code(gives(one))} |" for name, _, one in listed]
    return "\n".join([*lines, ""])


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _given(name: str) -> str:
    rows = examples.ROWS[name]
    times = ", ".join(f"{time / examples.SECOND:g}" for time in rows["time"])
    columns = ", ".join(f"{column} {values}" for column, values in rows.items() if column != "time")
    return f"| `{name}` | {times} | `{columns}` |"


def _sensors() -> str:
    lines = ["## Sensors, for `rs.sensor` and `.read`", "", "| sensor | columns | example |", "|---|---|---|"]
    for name, schema in SENSORS.items():
        example = f'rs.sensor("{name}", every="10s")'
        found = eval(example, {"rs": rs})
        if [one for one in found.schema.names if one != "device"] != list(schema.names):
            raise Incomplete(f"sensor {name!r} has other columns than its table")
        columns = ", ".join(f"{column.name} {column.kind}" for column in schema)
        lines.append(f"| `{name}` | {columns} | {_code(example)} |")
    return "\n".join([*lines, "", "Units, stamps and limits: [sensors](sensors.md).", ""])


# --- Running an example -----------------------------------------------------------------------------------------------


def gives(example: str) -> str:
    """What an example gives, in a few words; it raises where it does not run."""
    names = examples.namespace()
    with contextlib.redirect_stdout(io.StringIO()):
        found = eval(example, names)
    if isinstance(found, Formula) and not found.measured:
        return _values(names["x"].select(answer=found), only="answer")
    if isinstance(found, Formula):
        made = names["x"].tumbling("1m").aggregate(answer=found)
        return _values(made, only="answer" if "answer" in made.schema else "")
    if isinstance(found, Sink):
        return ""
    if isinstance(found, Stream):
        return "" if _only_declared(found) else _values(found)
    if found is None or callable(found) or isinstance(found, rs.Live):
        return ""
    return re.sub(r"\s+", " ", str(found))


def _only_declared(stream: Stream) -> bool:
    return stream.draft.operator.kind == "feedback"


def _values(stream: Stream, only: str = "") -> str:
    plan = plan_of(stream)
    sources = {node.operator.input_name for node in plan.nodes if hasattr(node.operator, "input_name")}
    inputs = {name: rows for name, rows in examples.ROWS.items() if name in sources}
    out = rs.evaluate(stream, inputs)["out"]
    names = [only] if only else [name for name in out if name not in NOT_SHOWN] or ["window_start"]
    shown = {name: _rounded(out[name].tolist()[:ROWS_SHOWN]) for name in names}
    return str(shown[only]) if only else ", ".join(f"{name} {values}" for name, values in shown.items())


def _rounded(values: list[Any]) -> list[Any]:
    """Six digits: the last ones of a sine are the platform's."""
    return [float(f"{value:.6g}") if isinstance(value, float) else value for value in values]


if __name__ == "__main__":
    made = page()
    if "--write" in sys.argv[1:]:
        PAGE.write_text(made, encoding="utf-8")
    else:
        sys.stdout.write(made)
