"""What is on one node: what its deployment says, what runs and is kept of it, and what it has made.

One record that the parts of a host share (`host.py` names them). `Beginning` and `Serving` change what runs; the others
go on with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from shared.errors import ResurgeError
from shared.hosting.carrier import Carrier
from shared.hosting.copies import Copy
from shared.hosting.instance import HELD_BYTES_MAX, Instance
from shared.hosting.keeper import Keeper
from shared.hosting.sink import Sink
from shared.hosting.source import Source
from shared.hosting.store import HostPersist, Memory, StoreMemory
from shared.hosting.wiring import CarrierSpec, EdgeSpec, Wiring
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.plan.deployment import Deployment, HostedQuery, Peer
from shared.spool.disk import Disk
from shared.spool.evict import Evict
from shared.spool.memory import MemoryDisk
from shared.spool.ring import Spool
from shared.sync.events import Refused
from shared.sync.outbox import Outbox
from shared.wire.status import CutStatus, InstanceStatus

# What the vertices here have made and nobody has a receipt for. Beyond the credit no more is taken, but for rows that
# go round a cycle; the rest is for those that a vertex held until then and lets through at once. Half of the credit is
# divided among all that make something here: whoever reads one of them may wait for what another one makes.
CREDIT_BYTES = 8 << 20
MADE_BYTES = CREDIT_BYTES + HELD_BYTES_MAX + (2 << 20)


def reserved_bytes() -> int:
    """Of the credit, what is divided among all that make something."""
    return CREDIT_BYTES // 2


class Here:
    def __init__(
        self, node: DeviceId, incarnation: int, *, disk: Disk, sources: Spool, coordinator: bytes, now: float
    ) -> None:
        """`sources` is the spool of this node's own device. `coordinator` is the public key of who may deploy here."""
        self.node = node.hex()
        self.device, self.coordinator = node, coordinator
        self.now = now  # of the call that is being answered
        self.disk = disk
        self.memory = memory = Memory.read(disk)
        memory.boot += 1
        if coordinator and memory.coordinator not in (b"", coordinator):  # its leases and versions are another's
            memory.deployment, memory.version, memory.lease, memory.signature = b"", 0, 0, b""
        self.keeper = Keeper(disk)
        self.sources_spool = sources
        self.made = Spool.create(
            MemoryDisk(), capacity_bytes=MADE_BYTES, device=node, incarnation=incarnation, evict=Evict.BLOCK
        )
        self.outbox = Outbox()
        self.wiring = Wiring()
        self.deployed: Deployment | None = None  # what it was told last
        self.peers: dict[str, Peer] = {}
        self.instances: dict[tuple[str, int, str], Instance] = {}
        self.not_begun: dict[tuple[str, int, str], InstanceStatus] = {}  # vertices that should run here, and why not
        self.sources: dict[EdgeKey, Source] = {}
        self.sinks: dict[EdgeKey, Sink] = {}
        self.readers_of: dict[EdgeKey, list[tuple[Instance, str]]] = {}
        self.makers: dict[EdgeId, tuple[Instance | Source, EdgeSpec]] = {}
        self.state_edges: dict[EdgeId, Instance] = {}
        self.carriers: dict[EdgeId, Carrier] = {}  # by the edge that each makes
        self.carriers_of: dict[EdgeKey, list[Carrier]] = {}  # by the edge that they read, one for each query
        self.standby: dict[EdgeKey, list[CarrierSpec]] = {}  # the same of those that it may be asked to carry
        self.roused: set[EdgeKey] = set()  # of those, what it was asked for
        self.copies: dict[EdgeKey, Copy] = {}  # by each edge on which it comes
        self.cuts: dict[str, CutStatus] = {}  # by query, what is known of the cuts through its region
        self.position: tuple[float, float] | None = None  # in degrees; told at once when whoever drives it changes it
        self.accuracy_m: float | None = None  # of the position
        self.gateway_passes = False  # the gateway that coordinates passes exchanges on between nodes
        self.leaving = ""  # why it should run nothing more, as whoever drives it knows
        self.refused: Counter[str] = Counter()  # by code, what others sent and nothing was kept of
        self.persist: list[HostPersist] = [StoreMemory(memory.encode())]
        self.events: list[object] = []

    def refuse(self, error: ResurgeError) -> None:
        self.refused[error.code] += 1
        self.events.append(Refused(error.code, error.message))

    def gathers(self) -> tuple[EdgeSpec, ...]:
        """The edges that this node's own device feeds."""
        return tuple(self.wiring.gathers.values())

    def coordinates(self, node: str) -> bool:
        return node in self.peers and self.peers[node].public_key == self.coordinator

    def copy_of(self, key: EdgeKey) -> Copy | None:
        """The copy of what comes on this edge, where one is kept here."""
        return self.copies.get(key)

    def is_connected(self, instance: Instance) -> bool:
        """Whether all who read an instance have said where they go on."""
        edges = [(edge.key.edge, node) for edge in instance.spec.outputs.values() for node in edge.readers]
        return all(number in self.outbox.reading(node).taken for number, node in edges)

    def full(self, edges: Iterable[EdgeId]) -> bool:
        """Whether who makes these edges here should take nothing more: they have their share, and what all have beyond
        theirs is more than what is left."""
        if self.made.used_bytes <= reserved_bytes():
            return False
        makers = [one.edges for one in self.instances.values()] + [(edge,) for edge in self.carriers]
        share = reserved_bytes() // max(1, len(makers))
        if self._used_by(edges) <= share:
            return False
        within = sum(min(share, self._used_by(each)) for each in makers)
        return self.made.used_bytes - within > CREDIT_BYTES - reserved_bytes()

    def _used_by(self, edges: Iterable[EdgeId]) -> int:
        return sum(map(self.made.used_by, edges))

    def others(self, state: EdgeSpec) -> dict[str, int]:
        """Who reads a state edge: this node's own keeper needs no edge."""
        return {node: reads for node, reads in state.readers.items() if node != self.node}

    @property
    def version(self) -> int:
        return self.memory.version

    @property
    def follows(self) -> tuple[int, int]:
        """Lease and version of the deployment that it runs."""
        return self.memory.lease, self.memory.version

    def queries(self) -> tuple[HostedQuery, ...]:
        """Those that this node's own device feeds."""
        return tuple({fed.query.name: fed.query for fed in self.wiring.fed}.values())

    def head(self, key: EdgeKey) -> int:
        """Of an edge of its own device."""
        return self.sources_spool.head(key.edge)
