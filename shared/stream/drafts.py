"""A program while it is being written: verbs add drafts, and the plan is assembled from what reaches a sink.

Each draft remembers the line of the user's program that made it. Any usage error found while a draft is typed is raised
again with that line, so a wrong column or window is reported where it was written and before anything runs.
"""

from __future__ import annotations

import contextvars
import functools
import linecache
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from types import FrameType
from typing import ParamSpec, TypeVar

import numpy as np

from shared.errors import UsageError
from shared.plan import operators as op
from shared.plan.graph import Node, Plan, SourceLine, at_line
from shared.plan.inference import output_type
from shared.plan.rewrites import rewrite
from shared.plan.stream_type import StreamType
from shared.plan.wellformed import check_plan

Callback = Callable[[Mapping[str, np.ndarray]], None]
Given = ParamSpec("Given")
Made = TypeVar("Made")

# Frames of these packages are ours, not the user's; examples are programs like any other.
_OURS = ("shared.", "resurge.", "cloud_backend.")
_EXAMPLES = "resurge.examples"


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """One operator as written. Two drafts are never equal: identity is what the plan numbers.

    `companions` are sinks that a source cannot be without: the feed of a feedback, the requests for a sensor.
    """

    operator: op.Operator
    inputs: tuple[Draft, ...]
    type: StreamType
    line: SourceLine
    companions: list[Draft] = field(default_factory=list)


@dataclass(slots=True)
class Program:
    """Everything written since it was opened: drafts in order, and the callbacks of its subscriptions by name."""

    name: str = "program"
    drafts: list[Draft] = field(default_factory=list)
    callbacks: dict[str, Callback] = field(default_factory=dict)
    modules: tuple[str, ...] = ()  # the operator modules that it was read with

    def plan(self, *, version: int = 1) -> Plan:
        """The plan of the whole program, rewritten to cost less. UsageError where it is not well formed."""
        return rewrite(self.written_plan(version=version)).plan

    def written_plan(self, *, version: int = 1) -> Plan:
        """The plan as it was written, operator by operator; checked."""

        if not any(isinstance(draft.operator, op.Sync | op.SyncBack | op.Subscribe) for draft in self.drafts):
            raise UsageError(
                "the program has no sink: end a stream with .sync(), .sync_back(name) or .subscribe(callback)",
                code="plan-sink",
            )
        return check_plan(assemble(self.drafts, version=version, name=self.name))


_current: contextvars.ContextVar[Program | None] = contextvars.ContextVar("resurge_program", default=None)


def collecting(program: Program) -> contextvars.Token[Program | None]:
    """From here on, what this context writes belongs to `program`; hand the token to `stop_collecting`."""
    return _current.set(program)


def stop_collecting(token: contextvars.Token[Program | None]) -> None:
    _current.reset(token)


def current_program() -> Program | None:
    return _current.get()


def draft(operator: op.Operator, *inputs: Draft) -> Draft:
    """Add an operator that reads these drafts; typed at once."""
    line = user_line()
    made = Draft(operator, inputs, typed(operator, inputs, line), line)
    program = _current.get()
    if program is not None:
        program.drafts.append(made)
    return made


def typed(operator: op.Operator, inputs: tuple[Draft, ...], line: SourceLine) -> StreamType:
    def above() -> tuple[op.Operator, tuple[StreamType, ...]]:
        return inputs[0].operator, tuple(source.type for source in inputs[0].inputs)

    try:
        return output_type(operator, tuple(source.type for source in inputs), above)
    except UsageError as error:
        raise at_line(error, line) from None


def located(verb: Callable[Given, Made]) -> Callable[Given, Made]:
    """A verb whose usage errors say the line of the program that called it."""

    @functools.wraps(verb)
    def calling(*positional: Given.args, **named: Given.kwargs) -> Made:
        try:
            return verb(*positional, **named)
        except UsageError as error:
            raise at_line(error, user_line()) from None

    return calling


def user_line() -> SourceLine:
    """The innermost line of the call stack that is neither ours nor Python's own; "?" where a query came as text."""
    frame = _user_frame()
    if frame is None:
        return SourceLine("?", 0)
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals).strip()
    return SourceLine(PurePath(frame.f_code.co_filename).name, frame.f_lineno, text[:200])


def user_module() -> str:
    """The name of the module that line is in: importing it does again what it does now. Empty where there is none."""
    frame = _user_frame()
    return "" if frame is None else str(frame.f_globals.get("__name__", ""))


def _user_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        ours = module.startswith(_OURS) and not module.startswith(_EXAMPLES)
        if not ours and module.partition(".")[0] not in sys.stdlib_module_names:
            return frame
        frame = frame.f_back
    return None


def upstream(sinks: Iterable[Draft]) -> list[Draft]:
    """These drafts, everything they read and its companions, each once, inputs first."""
    found: dict[int, Draft] = {}
    waiting = list(sinks)  # a companion may read what is being visited: it waits until that is done

    def visit(draft: Draft) -> None:
        if id(draft) not in found:
            for source in draft.inputs:
                visit(source)
            found[id(draft)] = draft
            waiting.extend(draft.companions)

    while waiting:
        visit(waiting.pop(0))
    return list(found.values())


def assemble(drafts: Iterable[Draft], *, version: int = 1, name: str = "program") -> Plan:
    """Number drafts and what they read into a plan; not yet checked."""
    numbers: dict[int, int] = {}
    sources: dict[op.Operator, int] = {}  # the same sensor written twice is one stream
    nodes: list[Node] = []
    for made in upstream(drafts):
        if not made.inputs and made.operator in sources:
            numbers[id(made)] = sources[made.operator]
            continue
        if not made.inputs:
            sources[made.operator] = len(nodes)
        numbers[id(made)] = len(nodes)
        inputs = tuple(numbers[id(source)] for source in made.inputs)
        nodes.append(Node(len(nodes), made.operator, inputs, made.type, made.line))
    return Plan(tuple(nodes), version=version, name=name)
