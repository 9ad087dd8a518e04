"""Which deployment a node follows: never an older one, nor one of a deposed coordinator."""

from __future__ import annotations

from shared.errors import PeerError, ResurgeError, UsageError
from shared.hosting.alternates import Alternates
from shared.hosting.beginning import Beginning
from shared.hosting.calling import Calling
from shared.hosting.here import Here
from shared.hosting.store import StoreMemory
from shared.plan.deployment import Deployment, decode_deployment
from shared.wire.messages import DeploymentMessage


class Following:
    def __init__(self, here: Here, calling: Calling, beginning: Beginning, alternates: Alternates) -> None:
        self._here, self._calling, self._beginning, self._alternates = here, calling, beginning, alternates

    def deploy(self, deployment: Deployment, encoded: bytes, now: float, signature: bytes = b"") -> None:
        """Run what this says from now on. An older one than the last, or one of a deposed coordinator, is refused."""
        here = self._here
        if deployment.node != here.node:
            raise UsageError("this deployment is for another node", code="deployment-node")
        memory = here.memory
        if deployment.lease < memory.lease:
            raise PeerError(
                f"a deployment of lease {deployment.lease}; this node has followed {memory.lease}",
                code="deployment-stale",
            )
        if (deployment.version, deployment.lease) == (memory.version, memory.lease):
            return
        if deployment.version < memory.version:
            raise PeerError(
                f"deployment {deployment.version} after {memory.version}; an older one changes nothing",
                code="deployment-stale",
            )
        self._alternates.forget()
        self._beginning.apply(deployment, now)
        memory.deployment, memory.version, memory.lease = encoded, deployment.version, deployment.lease
        memory.signature, memory.coordinator = signature, here.coordinator
        here.persist.append(StoreMemory(memory.encode()))
        for sender in self._calling.senders.values():
            sender.runs(memory.version)

    def deploy_from(self, message: DeploymentMessage, now: float) -> None:
        """As the coordinator says it, whose signature was checked. What cannot be run changes nothing."""
        self.try_deploy(message.deployment, now, message.signature)

    def followed(self) -> DeploymentMessage:
        """What it follows, to show the coordinator."""
        memory = self._here.memory
        return DeploymentMessage(self._here.device, memory.lease, memory.version, memory.deployment, memory.signature)

    def try_deploy(self, plan: bytes, now: float, signature: bytes = b"") -> None:
        try:
            self.deploy(decode_deployment(plan), plan, now, signature)
        except ResurgeError as error:  # what runs goes on; the coordinator sees that the version did not change
            self._here.refuse(error)
