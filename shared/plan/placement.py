"""The cut: which operators run on the device, which in the region and which on the cloud.

The program says it with `.gather()`, `.sync()` and `.sync_back()`; everything else follows. A gather's work (numbering,
spooling) is the device's and its output the region's: nodes near the devices, where rows of several devices meet. A
sync's work is the device's or the region's and its output the cloud's; a sync_back's work is the cloud's and its output
the device's.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.errors import UsageError
from shared.language.registry import FRAME, registered
from shared.plan import operators as op
from shared.plan.fragments import Fragment, Input, Output
from shared.plan.graph import Node, Plan, at_line
from shared.plan.stream_type import without_device

ON_DEVICE, ON_REGION, ON_CLOUD = "device", "region", "cloud"
_WORDS = {ON_DEVICE: "the device", ON_REGION: "the region", ON_CLOUD: "the cloud"}


def sides(plan: Plan) -> dict[int, str]:
    """Where each node's work is done, by node id. UsageError where a node reads from two sides."""
    feedback_side: dict[str, str] = {}
    while True:
        # A feedback's side is that of its feed, which may come after it. Until that is known, others decide.
        worked: dict[int, str] = {}
        for node in plan.nodes:
            side = _side(plan, node, worked, feedback_side)
            if side is not None:
                worked[node.id] = side
        feeds = [node for node in plan.nodes if isinstance(node.operator, op.Feed) and node.id in worked]
        found = {node.operator.name: worked[node.id] for node in feeds if isinstance(node.operator, op.Feed)}
        if len(found) == len(feedback_side):
            return {node.id: worked.get(node.id, ON_DEVICE) for node in plan.nodes}
        feedback_side = found


def _side(plan: Plan, node: Node, worked: dict[int, str], feedback_side: dict[str, str]) -> str | None:
    """None where it depends on a feedback alone whose feed is not placed yet."""
    if isinstance(node.operator, op.Feedback):
        return feedback_side.get(node.operator.name)
    if not node.inputs:
        return ON_DEVICE
    known = [plan.node(number) for number in node.inputs if number in worked]
    found = {output_side(source, worked) for source in known}
    if len(found) > 1:
        words = " and one of ".join(text for side, text in _WORDS.items() if side in found)
        verbs = ".sync() or .sync_back()" if ON_CLOUD in found else ".gather()"
        _refuse(
            node, f"{node.operator.kind} reads a stream of {words}; bring both to one side with {verbs}",
            "placement-mixed",
        )  # fmt: skip
    return found.pop() if found else None


def output_side(node: Node, worked: dict[int, str]) -> str:
    """Where a node's output is."""
    if isinstance(node.operator, op.Sync):
        return ON_CLOUD
    if isinstance(node.operator, op.Gather):
        return ON_REGION
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
            case op.Gather(name) if side != ON_DEVICE:
                message = f"gather {name!r} reads a stream of {_WORDS[side]}; a device's rows are gathered, once"
                _refuse(node, message, "placement-gather")
            case op.SyncBack(name) if side != ON_CLOUD:
                message = f"sync_back {name!r} reads a stream that is still on {_WORDS[side]}; write .sync() before it"
                _refuse(node, message, "placement-sync")
            case op.SyncBack(name, "latest") if plan.consumers(node.id):
                message = (
                    f"results {name!r} feed operators on the device, so they must not be taken back: use "
                    'commit="stable" (a rollback never crosses onto a phone)'
                )
                _refuse(node, message, "placement-stable")
            case op.Request(name) if side != ON_DEVICE:
                _refuse(node, f"sensor {name!r} can be read on the device only", "placement-sensor")
            case op.Apply(name) if side != ON_CLOUD and name in registered() and registered()[name].form == FRAME:
                message = (
                    f"frame operator {name!r} stands on {_WORDS[side]}, which has no DataFrames; it runs in a cloud "
                    "job only: write .sync() before it"
                )
                _refuse(node, message, "placement-frame")
            case op.KeyBy(columns) if side == ON_DEVICE and op.DEVICE not in columns:
                message = (
                    f"key_by({', '.join(map(repr, columns))}) on the device sees the rows of one device only; include "
                    "'device' in the key, or put it after .gather() or .sync()"
                )
                _refuse(node, message, "placement-key")


def check_unhosted(plan: Plan) -> None:
    """UsageError where a plan needs nodes that host a region. For whoever starts a plan and knows of none: it would
    run, and its rows would wait on the devices for ever."""
    for node in plan.nodes:
        if isinstance(node.operator, op.Gather):
            _refuse(
                node,
                f"gather {node.operator.name!r} sends rows to a region, and no node here hosts one; write .sync() "
                "instead to compute on the cloud, or deploy the plan to nodes that host it",
                "placement-region",
            )


def _refuse(node: Node, message: str, code: str) -> None:
    raise at_line(UsageError(message, code=code), node.line)


def device_fragment(plan: Plan) -> Fragment:
    """What a device runs: from its sources, and results that came back, to sync edges and subscriptions."""
    return _fragment(plan, ON_DEVICE)


def region_fragment(plan: Plan) -> Fragment:
    """What the region runs, in one piece: from gather edges to sync edges and subscriptions. `region_vertices` cuts it
    for its nodes."""
    return _fragment(plan, ON_REGION)


def near_fragment(plan: Plan) -> Fragment:
    """What one device and its region run, in one piece, as if the device were its own region: gathers pass rows on."""
    return _fragment(plan, ON_DEVICE, ON_REGION)


def cloud_fragment(plan: Plan) -> Fragment:
    """What the cloud runs, in one piece: from sync edges to sync_backs. `vertices` cuts it for Spark."""
    return _fragment(plan, ON_CLOUD)


def _fragment(plan: Plan, *together: str) -> Fragment:
    """The work of these sides; an edge from one of them to another is passed through."""
    worked = sides(plan)
    inputs: list[Input] = []
    computing: list[Node] = []
    ends: list[Node] = []
    for node in plan.nodes:
        crosses = isinstance(node.operator, op.Sync | op.Gather | op.SyncBack)
        here, there = worked[node.id] in together, output_side(node, worked) in together
        if crosses and here and there:
            computing.append(node)
        elif (crosses or isinstance(node.operator, op.Source)) and there and plan.consumers(node.id):
            inputs.append(fragment_input(node))
        elif here and isinstance(node.operator, op.End):
            ends.append(node)
        elif here and not isinstance(node.operator, op.Source):
            computing.append(node)
    outputs = tuple(fragment_outputs(plan, ends))
    return Fragment(together[0], together[0], tuple(inputs), tuple(computing), outputs)


def fragment_input(node: Node) -> Input:
    """A source, a gather edge (in the region), a sync edge (on the cloud) or a sync_back's results (on the device) as a
    fragment's input."""
    operator = node.operator
    if isinstance(operator, op.Source):
        return Input(operator.input_name, node.id, operator.pushed_schema, node.type)
    if isinstance(operator, op.Sync | op.Gather | op.SyncBack):
        return Input(operator.name, node.id, node.schema, node.type)
    raise TypeError(f"{operator.kind} is no input")


def fragment_outputs(plan: Plan, ends: Iterable[Node]) -> list[Output]:
    """What leaves through those of these nodes that end or cross a side."""
    outputs: list[Output] = []
    for node in ends:
        if isinstance(node.operator, op.End):
            schema = plan.node(node.inputs[0]).schema
            # A device's frames say whose rows they are; where devices have met, only the column does.
            if isinstance(node.operator, op.Gather | op.Sync) and not plan.met(node.inputs[0]):
                schema = without_device(schema)
            outputs.append(Output(node.operator.output_name, node.inputs[0], node.operator.kind, schema))
    return outputs
