"""A node of a fleet that its gateway coordinates: deployments and reports ride on the node's own exchanges."""

from __future__ import annotations

from dataclasses import replace

from shared.hosting.host import Host
from shared.hosting.messages import Ask
from shared.hosting.passed_by_gateway import PassedEnd
from shared.sync.receiver import Reply
from shared.sync.sender import Sender
from shared.wire.messages import DeploymentMessage, Hint
from shared.wire.passed import PassMessage
from shared.wire.status import DeviceStatus, HostOffer

PASSING_S = 5.0  # longer than a node waits between two tries of whoever does not answer


class Governed:
    """`sender` is the node's end of its exchanges with the gateway."""

    def __init__(self, host: Host, offer: HostOffer) -> None:
        self._host, self._offer = host, replace(offer, passed=True)
        self._news = 0
        self._passed = PassedEnd(host.device)

    def take(self, message: DeploymentMessage, sender: Sender, now: float) -> None:
        """The gateway says what to run, or asks what runs."""
        if message.deployment:
            self._host.deploy_from(message, now)
        elif (followed := self._host.followed()).signature:
            sender.show(followed, now)

    def note(self, event: object, now: float) -> None:
        """What else the sender told: how far the log has what vertices here send to the cloud."""
        self._host.gateway_said(event, now)

    def pass_on(self, message: Ask | Reply, sender: Sender, now: float) -> None:
        """Send by way of the gateway what the host sends so (`is_passed`)."""
        if isinstance(message, Reply):
            self._passed.reply(message, sender, now)
        elif (unreachable := self._passed.ask(message, sender, now)) is not None:
            self._host.receive(unreachable, now)

    def passed(self, message: PassMessage, now: float) -> None:
        """The gateway passed something on to this node."""
        found = self._passed.arrived(message, now)
        self._host.here.gateway_passes = True
        if found is not None:
            self._host.receive(found, now)

    def is_passing(self, now: float) -> bool:
        """Whether something came or went by way of the gateway a moment ago."""
        return now < self._passed.used_at + PASSING_S

    def order(self, hint: Hint, now: float) -> None:
        """The gateway's word on cuts through regions."""
        self._host.order(hint.cuts, now)

    def report(self, device: DeviceStatus, sender: Sender, now: float) -> None:
        """Tell the gateway how this node is, as a coordinating node would hear it; `device` is what else it says."""
        self._host.hear_governor(now, answers=not sender.disconnected)
        if self._host.news > self._news:  # a peer runs a newer deployment: ask for it
            self._news = self._host.news
            sender.hurry(now)
        said = self._host.reporting.look(now, due=sender.next_wake() <= now)
        if said is None:
            return
        host, presses = said
        sender.status(
            replace(
                device, base=host.base, back=host.back, boot=host.boot, deployment=host.deployment,
                instances=host.instances, kept=host.kept, offer=self._offer, offered=host.offered, stamps=host.stamps,
                took=host.took, unreachable=host.unreachable, urgent=host.urgent, cuts=host.cuts,
                position=host.position, accuracy_m=host.accuracy_m, leaving=host.leaving or device.leaving,
                neighbours=self._host.neighbours(),
            ),
            self._host.followed().deployment,
        )  # fmt: skip
        if presses:
            sender.hurry(now)
