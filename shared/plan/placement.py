"""The cut: which operators run on the device and which on the cloud.

The program says it with `.sync()` and `.sync_back()`; everything else follows. A sync's work (numbering, spooling) is
the device's and its output the cloud's; a sync_back's work is the cloud's and its output the device's.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.errors import UsageError
from shared.plan import operators as op
from shared.plan.fragments import Fragment, Input, Output
from shared.plan.graph import Node, Plan, at_line
from shared.plan.stream_type import without_device

ON_DEVICE, ON_CLOUD = "device", "cloud"


def sides(plan: Plan) -> dict[int, str]:
    """Where each node's work is done, by node id. UsageError where a node reads from both sides."""
    worked: dict[int, str] = {}
    feedback_side: dict[str, str] = {}
    # A feedback's side is that of its feed, which may come after it: start from the device and settle.
    for _ in range(1 + sum(isinstance(node.operator, op.Feedback) for node in plan.nodes)):
        worked = {}
        for node in plan.nodes:
            worked[node.id] = _side(plan, node, worked, feedback_side)
        found = {node.operator.name: worked[node.id] for node in plan.nodes if isinstance(node.operator, op.Feed)}
        if found == feedback_side:
            break
        feedback_side = found
    return worked


def _side(plan: Plan, node: Node, worked: dict[int, str], feedback_side: dict[str, str]) -> str:
    if isinstance(node.operator, op.Feedback):
        return feedback_side.get(node.operator.name, ON_DEVICE)
    if not node.inputs:
        return ON_DEVICE
    # While feedback sides settle, other inputs decide; a feedback alone never makes a contradiction.
    certain = [number for number in node.inputs if not isinstance(plan.node(number).operator, op.Feedback)]
    found = {output_side(plan.node(number), worked) for number in (certain or node.inputs)}
    if len(found) > 1:
        _refuse(
            node,
            f"{node.operator.kind} reads a stream of the device and one of the cloud; bring both to one side with "
            ".sync() or .sync_back()",
            "placement-mixed",
        )
    return found.pop()


def output_side(node: Node, worked: dict[int, str]) -> str:
    """Where a node's output is."""
    if isinstance(node.operator, op.Sync):
        return ON_CLOUD
    if isinstance(node.operator, op.SyncBack):
        return ON_DEVICE
    return worked[node.id]


def check_placement(plan: Plan) -> None:
    """UsageError where an operator cannot do its work on the side where it stands."""
    worked = sides(plan)
    for node in plan.nodes:
        side = worked[node.id]
        match node.operator:
            case op.Sync(name) if side == ON_CLOUD:
                _refuse(node, f"sync {name!r} reads a stream that is on the cloud already", "placement-sync")
            case op.SyncBack(name) if side == ON_DEVICE:
                _refuse(node, f"sync_back {name!r} reads a stream that is still on the device", "placement-sync")
            case op.SyncBack(name, "latest") if plan.consumers(node.id):
                message = (
                    f"results {name!r} feed operators on the device, so they must not be taken back: use "
                    'commit="stable" (a rollback never crosses onto a phone)'
                )
                _refuse(node, message, "placement-stable")
            case op.Request(name) if side == ON_CLOUD:
                _refuse(node, f"sensor {name!r} can be read on the device only", "placement-sensor")
            case op.KeyBy(columns) if side == ON_DEVICE and op.DEVICE not in columns:
                message = (
                    f"key_by({', '.join(map(repr, columns))}) on the device sees the rows of one device only; include "
                    "'device' in the key, or put it after .sync()"
                )
                _refuse(node, message, "placement-key")


def _refuse(node: Node, message: str, code: str) -> None:
    raise at_line(UsageError(message, code=code), node.line)


def device_fragment(plan: Plan) -> Fragment:
    """What a device runs: from its sources, and results that came back, to sync edges and subscriptions."""
    return _fragment(plan, ON_DEVICE)


def cloud_fragment(plan: Plan) -> Fragment:
    """What the cloud runs, in one piece: from sync edges to sync_backs. `vertices` cuts it for Spark."""
    return _fragment(plan, ON_CLOUD)


def _fragment(plan: Plan, side: str) -> Fragment:
    worked = sides(plan)
    inputs: list[Input] = []
    computing: list[Node] = []
    for node in plan.nodes:
        is_source = isinstance(node.operator, (op.Source, op.Sync, op.SyncBack))
        if is_source and output_side(node, worked) == side and plan.consumers(node.id):
            inputs.append(fragment_input(node))
        elif not is_source and worked[node.id] == side and not isinstance(node.operator, op.SINKS):
            computing.append(node)
    ends = [node for node in plan.nodes if worked[node.id] == side]
    return Fragment(side, side, tuple(inputs), tuple(computing), tuple(fragment_outputs(plan, ends)))


def fragment_input(node: Node) -> Input:
    """A source, a sync edge (on the cloud) or a sync_back's results (on the device) as a fragment's input."""
    operator = node.operator
    if isinstance(operator, op.Source):
        return Input(operator.input_name, node.id, operator.pushed_schema, node.type)
    if isinstance(operator, op.Sync | op.SyncBack):
        return Input(operator.name, node.id, node.schema, node.type)
    raise TypeError(f"{operator.kind} is no input")


def fragment_outputs(plan: Plan, ends: Iterable[Node]) -> list[Output]:
    """What leaves through those of these nodes that end or cross a side."""
    outputs: list[Output] = []
    for node in ends:
        if isinstance(node.operator, op.End):
            schema = plan.node(node.inputs[0]).schema
            outputs.append(
                Output(
                    node.operator.output_name,
                    node.inputs[0],
                    node.operator.kind,
                    without_device(schema) if isinstance(node.operator, op.Sync) else schema,
                )
            )
    return outputs
