"""Whether a coordinator's word counts: which deployments it knows of, and what nodes follow that it never said.

Every start of a coordinator takes a higher lease than the one it stored, and every deployment has the lease and a
version. So (lease, version) names what a node follows. Three things can be wrong:

* The coordinator was restored from an older copy: nodes follow what it has forgotten. It asks one of them for that
  deployment, takes it over, and goes on above it.
* Another one with the same key began after this one: nodes follow a higher lease. This one stops, if it has ruled.
* A node claims what it cannot show. It is not believed.

Only the coordinator's own signature proves a deployment, so no node can make it forget or follow anything.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import replace

from shared.plan.deployment import Deployment, Placement
from shared.wire.messages import DeploymentMessage

PROOF_S = 20.0  # that a node may take to show what it claims; until then nothing is moved
ASK_S = 1.0  # between two questions to the same node


class Reign:
    def __init__(self, sign: Callable[[bytes], bytes], before: tuple[int, int]) -> None:
        """`before` is the newest deployment that was stored before this start."""
        self._sign = sign
        self._before = before
        self.deposed = ""  # why this coordinator has stopped
        self._ruled = False  # a node has followed what it said under this lease
        self._claims: dict[str, float] = {}  # nodes that follow what is not known here -> since when
        self._asked: dict[str, float] = {}

    def knows(self, follows: tuple[int, int], own: Deployment) -> bool:
        """Whether this is from before this start, or was said since."""
        return follows <= self._before or (follows[0] == own.lease and follows[1] <= own.version)

    def heard(self, node: str, follows: tuple[int, int] | None, own: Deployment, now: float) -> None:
        """What a node says that it follows; `own` is what this coordinator says now."""
        if follows is None:
            return
        if not self.knows(follows, own):
            self._claims.setdefault(node, now)
            return
        self._claims.pop(node, None)
        self._asked.pop(node, None)
        self._ruled = self._ruled or follows[0] == own.lease

    def waits(self, now: float) -> bool:
        """Whether nothing should be decided: somebody follows what is not known here, and may show it."""
        return bool(self.deposed) or any(now - since < PROOF_S for since in self._claims.values())

    def next_wake(self) -> float | None:
        return min((since + PROOF_S for since in self._claims.values()), default=None)

    def asks(self, node: str, now: float) -> bool:
        """Whether to ask this node what it follows."""
        if self.deposed or node not in self._claims or now < self._asked.get(node, now - ASK_S) + ASK_S:
            return False
        self._asked[node] = now
        return True

    def is_own(self, message: DeploymentMessage) -> bool:
        """Whether this key signed it. Signatures of one message are equal; the time to compare them tells nothing."""
        signed = DeploymentMessage.signed(message.lease, message.version, message.deployment)
        return hmac.compare_digest(self._sign(signed), message.signature)

    def learn(self, shown: Deployment, own: Deployment) -> Deployment | None:
        """The fleet to go on with after a node has shown what it follows; None where there is nothing to learn, or this
        coordinator has to stop."""
        if self.deposed or self.knows((shown.lease, shown.version), own):
            return None
        if shown.lease >= own.lease and self._ruled:
            self.deposed = f"another coordinator of this fleet began later (lease {shown.lease}, this one {own.lease})"
            return None
        self._claims.clear()
        self._asked.clear()
        self._before = max(self._before, (shown.lease, shown.version))
        lease = own.lease if shown.lease < own.lease else shown.lease + 1
        return replace(
            shown, node=own.node, lease=lease, version=max(shown.version, own.version) + 1,
            queries=tuple(
                replace(query, placements=_above(query.placements, _placed(own, query.name, query.incarnation)))
                for query in shown.queries
            ),
        )  # fmt: skip


def _placed(fleet: Deployment, query: str, incarnation: int) -> dict[str, Placement]:
    found = [each for each in fleet.queries if (each.name, each.incarnation) == (query, incarnation)]
    return {placed.vertex: placed for each in found for placed in each.placements}


def _above(shown: tuple[Placement, ...], own: Mapping[str, Placement]) -> tuple[Placement, ...]:
    """As shown, under terms that nobody has begun elsewhere."""
    found = []
    for placed in shown:
        mine = own.get(placed.vertex)
        elsewhere = mine is not None and mine.term >= placed.term and mine.hosts != placed.hosts
        found.append(replace(placed, term=mine.term + 1) if elsewhere and mine is not None else placed)
    return tuple(found)
