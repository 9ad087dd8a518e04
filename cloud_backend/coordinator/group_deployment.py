"""Deploying a program to a group: another part on the phones, the same part in Spark.

The group's streams and results meet those of everybody in one log and one job. So the group's program may read other
sensors, at other rates, filter and compute otherwise on the phone, and have streams of its own, which the log keeps for
queries and DataFrames. What it computes in the cloud must be what the program of all computes there, over streams
that can be read as that program's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cloud_backend.coordinator.deployment import check_stated, phone_words
from cloud_backend.coordinator.device_operators import left_out
from cloud_backend.coordinator.groups import GroupPlan, check_group_name
from cloud_backend.coordinator.roster import Roster, RosterEntry
from shared.contracts.promises import check_kept
from shared.errors import UsageError
from shared.plan.changes import PlanChanges, changes
from shared.plan.encoding import decode_plan, encode_plan, operator_identity
from shared.plan.graph import Node, Plan
from shared.plan.operators import Feed, Subscribe, Sync, SyncBack
from shared.plan.placement import ON_CLOUD, check_unhosted, sides
from shared.plan.wellformed import operators_on_device


@dataclass(frozen=True, slots=True)
class GroupDeployment:
    """A group's plan with the version it gets, and what its coming means for the group's phones."""

    group: str
    devices: int
    plan: Plan
    before: int  # the version that they run
    phones: PlanChanges
    own: tuple[str, ...]  # streams that the program of all does not have
    without: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.plan.name, "group": self.group, "devices": self.devices, "version": self.plan.version,
            "before": self.before, "phones_keep_state": self.phones.device_kept,
            "sensors_new": list(self.phones.sensors_new), "sensors_gone": list(self.phones.sensors_gone),
            "edges_own": list(self.own), "words": self._words(),
        }  # fmt: skip

    def _words(self) -> list[str]:
        several = "devices of group" if self.devices != 1 else "device of group"
        words = [f"this is for the {self.devices} {several} {self.group!r}; all others keep what they have"]
        words += phone_words(self.plan.version, self.phones)
        words += self.without
        words += [f"edge {name!r} is the group's own: the log keeps it for queries and DataFrames" for name in self.own]
        return [*words, "Spark goes on with the program of all, and the group's results stand among all others"]


def prepare(
    group: str,
    plan: Plan,
    program: Plan,
    former: GroupPlan | None,
    *,
    newest: int,
    devices: Collection[RosterEntry],
) -> GroupDeployment:
    """What giving a group this plan means. `program`: that of all; `former`: what the group has; `newest`: no plan has
    a higher version; `devices`: the group's."""
    check_group_name(group)
    check_unhosted(plan)
    check_kept(plan)
    check_fits(plan, program)
    running = program if former is None else decode_plan(former.encoded)
    found = changes(running, plan)
    if found.same:
        raise UsageError("this group runs this program already; nothing would change", code="program-same")
    own = tuple(edge.name for edge in plan.edges if edge.name not in {each.name for each in program.edges})
    without = left_out(operators_on_device(plan), devices)
    version = replace(plan, version=newest + 1)
    return GroupDeployment(group, len(devices), version, running.version, found, own, tuple(without))


def deploy(roster: Roster, deployment: GroupDeployment) -> None:
    """Make it count: durable when this returns. The group's phones hear of it with their next exchange."""
    roster.groups.deploy(deployment.group, GroupPlan(deployment.plan.version, encode_plan(deployment.plan)))


def check_fits(plan: Plan, program: Plan) -> None:
    """Whether Spark, which runs the program of all, computes what this plan says of the cloud. UsageError: why not."""
    read = changes(plan, program)  # as if its phones took the program of all: that is how Spark reads their rows
    for change in read.edge_changes:
        for column, kind in change.other:
            raise UsageError(
                f"column {column.name!r} of edge {change.name!r} is {column.kind} in the group's program, which Spark "
                f"cannot read as {kind}, its kind in the program of all; keep it, or give the edge another name",
                code="group-columns",
            )
        check_stated(change, "the group's phones")
    computed = _computed(program)
    for name, meaning in _computed(plan).items():
        if computed.get(name) != meaning:
            raise UsageError(
                f"the group's program computes {name!r} in the cloud, and the program of all does not, or otherwise: "
                "Spark runs that one for all devices. Add it there, compute it on the phone, or ask it as a query",
                code="group-cloud",
            )


def _computed(plan: Plan) -> dict[str, str]:
    """What the cloud computes: by sink, all operators from the streams on."""
    here = sides(plan)
    ends = [(node, node.operator) for node in plan.nodes if isinstance(node.operator, SyncBack | Subscribe | Feed)]
    return {end.output_name: _meaning(plan, node) for node, end in ends if here[node.id] == ON_CLOUD}


def _meaning(plan: Plan, node: Node) -> str:
    if isinstance(node.operator, Sync):
        return node.operator.name
    inputs = ", ".join(_meaning(plan, plan.node(number)) for number in node.inputs)
    return f"{operator_identity(node.operator)}({inputs})"


def misfits(plans: Mapping[str, GroupPlan], program: Plan) -> list[str]:
    """The groups whose programs do not fit a program that is to be deployed to all, a sentence each."""
    found = []
    for name, each in plans.items():
        try:
            check_fits(decode_plan(each.encoded), program)
        except UsageError as error:
            found.append(f"group {name!r} keeps its own program, which does not fit this one: {error.message}")
    return found
