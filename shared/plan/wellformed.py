"""A plan is checked before it runs: OSIRIS-SE's five rules of well-formedness (EC-5) and two of activation (EC-6).

1. Exactly one edge per input port: each operator reads as many nodes as it has ports, each feedback is fed once
   (graph-input).
2. At least one edge per output port: every stream reaches a sink, every output port is used (graph-output).
3. Alphabets match along an edge: columns and kinds fit, inferred again for plans that arrive as data (graph-alphabet).
4. No edge from outside to outside: nothing reads what was handed to the outside world (graph-outside).
5. A vertex may take as long as its type needs: within= is at least the type's minimum (graph-delay).
a. One operator for each vertex: user operator types exist, in that version, where it runs (activation-operator).
b. One stream for each edge: each source, sync edge and sink has a name of its own (activation-stream).

Sensors, timers, appended streams and feedback are the plan's own acquisition operators; the world behind them is
outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from shared.errors import UsageError
from shared.language.registry import references, registered
from shared.plan import operators as op
from shared.plan.graph import Node, Plan, at_line
from shared.plan.inference import output_type
from shared.plan.placement import ON_DEVICE, check_placement, sides
from shared.plan.stream_type import StreamType

NODES_MAX = 10_000

Answer = TypeVar("Answer")


def check_plan(plan: Plan, *, foreign_operators: bool = False) -> Plan:
    """The plan itself, well formed and with one stream per edge. UsageError names the rule and the user's line.

    With `foreign_operators`, nodes whose user operator type is not installed here are believed: another side runs them.
    """
    if len(plan.nodes) > NODES_MAX:
        raise UsageError(f"a plan has at most {NODES_MAX} operators, not {len(plan.nodes)}", code="plan-size")
    for position, node in enumerate(plan.nodes):
        if node.id != position or not all(0 <= source < position for source in node.inputs):
            raise UsageError("a plan's operators are numbered 0, 1, ... and read earlier ones only", code="plan-order")
    for node in plan.nodes:
        _check_outside(plan, node)
        if foreign_operators and _is_foreign(plan, node):
            continue
        _check_inputs(node)
        _check_types(plan, node)
    _check_feedback(plan)
    check_cycles(plan)
    _check_outputs(plan)
    check_placement(plan)
    _check_names(plan)
    return plan


def check_activation(plan: Plan, operators: Mapping[str, Collection[str]]) -> None:
    """UsageError unless each given side (device, region, cloud) has its vertices' operator types ("name@version").

    A node checks its own side before it takes a plan; whoever deploys knows all.
    """
    where = sides(plan)
    for node in plan.nodes:
        for reference in operator_references(node):
            if reference not in operators.get(where[node.id], (reference,)):
                raise _at(
                    f"vertex {node.id} needs the operator type {reference}, which is not on the {where[node.id]}; "
                    "without it no operator runs there. Install its package, or move .sync(...)",
                    "activation-operator",
                    node,
                )


def operators_on_device(plan: Plan) -> frozenset[str]:
    """The user operator types ("name@version") that a device needs to run this plan's part of it."""
    where = sides(plan)
    return frozenset(
        reference for node in plan.nodes if where[node.id] == ON_DEVICE for reference in operator_references(node)
    )


def _is_foreign(plan: Plan, node: Node) -> bool:
    if isinstance(node.operator, op.Port) and len(node.inputs) == 1:
        node = plan.node(node.inputs[0])
    return any(reference not in references() for reference in operator_references(node))


def operator_references(node: Node) -> tuple[str, ...]:
    """The user operator types ("name@version") that this node needs."""
    match node.operator:
        case op.Apply(name, version):
            return (f"{name}@{version}",)
        case op.WindowAggregate(aggregates=aggregates):
            users = [entry for _, entry in aggregates if entry.function == "user"]
            return tuple(f"{entry.parameter('name')}@{entry.parameter('version')}" for entry in users)
    return ()


def _check_inputs(node: Node) -> None:
    least, most = _at_node(node, node.operator.arity)
    if not least <= len(node.inputs) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise _at(
            f"{node.operator.kind} has {len(node.inputs)} input edges; each input port takes exactly one, "
            f"that is {wanted}",
            "graph-input",
            node,
        )


def _check_outside(plan: Plan, node: Node) -> None:
    for number in node.inputs:
        source = plan.node(number).operator
        if isinstance(source, op.SINKS):
            raise _at(
                f"{node.operator.kind} reads {source.kind!r}, which hands rows to the "
                "outside world; a plan does not connect the outside with itself",
                "graph-outside",
                node,
            )


def _check_types(plan: Plan, node: Node) -> None:
    def above() -> tuple[op.Operator, tuple[StreamType, ...]]:
        source = plan.node(node.inputs[0])
        return source.operator, tuple(plan.node(number).type for number in source.inputs)

    inputs = tuple(plan.node(number).type for number in node.inputs)
    found = _at_node(node, lambda: output_type(node.operator, inputs, above))
    if found != node.type:
        raise _at(
            f"{node.operator.kind} gives {found}, the plan says {node.type}",
            "graph-alphabet",
            node,
        )


def _check_feedback(plan: Plan) -> None:
    feeds: dict[str, list[Node]] = {}
    for node in plan.nodes:
        if isinstance(node.operator, op.Feed):
            feeds.setdefault(node.operator.name, []).append(node)
    for node in plan.nodes:
        if not isinstance(node.operator, op.Feedback):
            continue
        found = feeds.pop(node.operator.name, [])
        if len(found) != 1:
            raise _at(
                f"feedback {node.operator.name!r} has {len(found)} input edges; it takes exactly one: close the cycle "
                "with one .feed(...)",
                "graph-input",
                found[1] if found else node,
            )
        fed = found[0].type
        if fed != node.type:
            raise _at(
                f"feedback {node.operator.name!r} carries {node.type}, but is fed {fed}",
                "graph-alphabet",
                found[0],
            )
    for name, found in feeds.items():
        raise _at(f"feed goes to {name!r}, but there is no such feedback stream", "graph-input", found[0])


def check_cycles(plan: Plan) -> None:
    """An ordered merge in a cycle is refused: its rows would wait for the frontier, and come back behind it."""
    for feedback in plan.nodes:
        if not isinstance(feedback.operator, op.Feedback):
            continue
        after = {feedback.id}
        for node in plan.nodes:
            if after & set(node.inputs):
                after.add(node.id)
        before = {node.id for node in plan.nodes if node.operator == op.Feed(feedback.operator.name)}
        for node in reversed(plan.nodes):
            if node.id in before:
                before.update(node.inputs)
        for node in plan.nodes:
            if node.id in after & before and getattr(node.operator, "merge", None) == "ordered":
                raise _at(
                    f"{node.operator.kind} is in the cycle of feedback {feedback.operator.name!r} and merges ordered: "
                    "rows fed back would wait for the frontier and then be late. Write merge='arrival', or 'logged'",
                    "graph-cycle",
                    node,
                )


def _check_outputs(plan: Plan) -> None:
    read = {number for node in plan.nodes for number in node.inputs}
    for node in plan.nodes:
        ends = isinstance(node.operator, (*op.SINKS, op.Sync, op.SyncBack))
        if node.id not in read and not ends:
            raise _at(
                f"the output of {node.operator.kind} goes nowhere; each output port feeds at least one "
                "edge. End it with .sync(), .sync_back(name) or .subscribe(callback), or remove it",
                "graph-output",
                node,
            )
        if isinstance(node.operator, op.Apply):
            _check_ports(plan, node, node.operator)


def _check_ports(plan: Plan, node: Node, applied: op.Apply) -> None:
    kind = registered().get(applied.operator)
    if kind is None or len(kind.outputs) == 1:
        return
    readers = plan.consumers(node.id)
    used = {reader.operator.name for reader in readers if isinstance(reader.operator, op.Port)}
    if not all(isinstance(reader.operator, op.Port) for reader in readers):
        raise _at(f"{kind.name!r} has several output ports; name one with .port(...)", "graph-port", node)
    for port, _ in kind.outputs:
        if port not in used:
            raise _at(
                f"output port {port!r} of {kind.name!r} goes nowhere; each output port feeds at least one edge",
                "graph-output",
                node,
            )


def _check_names(plan: Plan) -> None:
    names: Counter[tuple[str, str]] = Counter()
    for node in plan.nodes:
        for name in _stream_names(node.operator):
            names[name] += 1
            if names[name] > 1:
                raise _at(
                    f"two {name[0]}s are called {name[1]!r}; each edge is one stream and needs its own name (name=...)",
                    "activation-stream",
                    node,
                )


def _stream_names(operator: op.Operator) -> tuple[tuple[str, str], ...]:
    match operator:
        case op.Sensor() | op.Timer() | op.Appended() | op.Feedback():
            return (("source", operator.input_name),)
        case op.Sync(name) | op.Gather(name):
            return (("edge", name),)
        case op.SyncBack(name) | op.Subscribe(name):
            return (("sink", name),)
        case op.Request(sensor):
            return (("request", sensor),)
    return ()


def _at(message: str, code: str, node: Node) -> UsageError:
    return at_line(UsageError(message, code=code), node.line)


def _at_node(node: Node, check: Callable[[], Answer]) -> Answer:
    try:
        return check()
    except UsageError as error:
        raise at_line(error, node.line) from None
