"""A node's share of a fleet: drives the machines of `shared/hosting`, and feeds them with what its own sensors say.

The loop owns everything here. `step` is the driver's side of the contract: what a step wants stored is stored before
anything of it is sent.
"""

from __future__ import annotations

import queue
import random
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mobile_app.home.peer_keys import FleetKeys, load_curve_keys
from mobile_app.links.peers import PeerLinks
from mobile_app.node.computation import Computation, OperatorFailed
from mobile_app.node.plan_runner import PlanRunner
from mobile_app.node.stores import Stores
from mobile_app.node.watchdog import Watchdog
from mobile_app.sensors.access import SensorAccess
from mobile_app.spool.snapshots import Snapshots
from mobile_app.spool.spooler import Spooler
from shared.hosting.coordinate import Coordinator, Recovered, Unplaced
from shared.hosting.fleet_file import FleetFile
from shared.hosting.fleet_node import FleetNode
from shared.hosting.fleet_watch import FleetWatch
from shared.hosting.host import Host, permanent
from shared.hosting.messages import Answer, Ask, Committed, Connected, InstanceFailed, PeerBack, PeerLost, SinkTook
from shared.hosting.store import persist, stored_fleet
from shared.identity import EdgeId, EdgeKey, edge_id
from shared.language.schema import Schema
from shared.plan.deployment import HostedQuery
from shared.recovery.delays import SILENCE_S, SILENCE_S_MIN
from shared.spool.disk import PosixDisk
from shared.spool.entry import Entry, SpooledBatch
from shared.spool.evict import Evict
from shared.spool.journal import INDEX_FILES
from shared.spool.ring import Spool
from shared.sync.composer import EdgePolicy
from shared.sync.events import Refused
from shared.sync.pacing import Pacing
from shared.sync.receiver import Arrival, Reply
from shared.wire.fleet_status import FleetStatus, told

FOLDER = "fleet"
SOURCES = "sources"
SOURCES_MB = 16
PACING = Pacing(poll_s=1.0, timeout_s=3.0, backoff_s_min=0.1, backoff_s_max=2.0)
EVENTS_MAX = 50
STALE_TERM, STRANGER, UNREAD = "stale-term", "peers-stranger", "peers-unread"
SPARE_S = 1.0  # that a node may take to speak again, after an operator was interrupted
LOOK_S = 1.0  # between two looks at who is silent and which snapshots are new
ROUNDS_MAX = 100  # within one turn; the sensors want theirs


class Gathered:
    """Takes what the device's part of a query puts out to the host. Stands where the sender to the gateway stands."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def declare(self, name: str, schema: Schema, policy: EdgePolicy | None = None) -> EdgeId:  # noqa: ARG002
        return edge_id(name)

    def append(self, batch: SpooledBatch, now: float) -> Entry:
        return self._host.offer(self._key(batch.edge), batch, now)

    def frontier(self, edge: EdgeId, frontier_us: int, now: float) -> None:
        self._host.frontier(self._key(edge), frontier_us, now)

    def _key(self, edge: EdgeId) -> EdgeKey:
        return next(spec.key for spec in self._host.gathers() if spec.key.edge == edge)


class Hosting:
    """One node of a fleet."""

    def __init__(
        self,
        home: Path,
        fleet: FleetFile,
        stores: Stores,
        access: SensorAccess,
        *,
        wake: Callable[[], None],
        say: Callable[[str], None],
        news: Callable[[], None],
        speed: float,
        loss_window_s: float,
        now: float,
    ) -> None:
        self._folder = home / FOLDER
        self._folder.mkdir(exist_ok=True, mode=0o700)
        self._stores, self._access, self._say, self._news = stores, access, say, news
        self._speed, self._loss_window_s = speed, loss_window_s
        node = stores.device.hex()
        own = fleet.peer(node)
        self._disk = PosixDisk(self._folder)
        self._spool = self._open_sources(stores)
        keys = FleetKeys(home)
        coordinator = None
        if fleet.coordinator.node == node:
            least_s = max(SILENCE_S_MIN, fleet.hanging_s + SPARE_S)  # what hangs and is interrupted is no silent node
            coordinator = Coordinator(
                node, keys.answering().sign, stored=stored_fleet(self._disk), silence_s=max(SILENCE_S, least_s),
                silence_s_min=least_s, now=now, clock_us=stores.clock.now_us,
            )  # fmt: skip
            coordinator.set_fleet(fleet.peers, fleet.hosted())
        self._watchdog = Watchdog(fleet.hanging_s, say)
        self.host = Host(
            stores.device, 1, keys, disk=self._disk, sources=self._spool, random=random.Random(), pacing=PACING,
            coordinator=fleet.coordinator.public_key, downlink=coordinator,
            watch=self._watchdog, now=now,
        )  # fmt: skip
        self.host.meet(fleet.peers, now)
        self._machine = FleetNode(self.host, coordinator)
        self._watch = FleetWatch(self.host, coordinator, stores.clock.now_us())
        self._now, self._looked_at = now, now
        bind = own.addresses[0] if own.addresses else "tcp://127.0.0.1:*"
        self._own: deque[Arrival] = deque()  # of this node's vertices to each other: never dropped for others' sake
        self._wake = wake
        self._woken = False  # the loop has been told that something is here, and has not looked yet
        self._links = PeerLinks(bind, load_curve_keys(home), fleet.peers, self._arrived)
        self._version = -1
        self._runners: dict[str, PlanRunner] = {}
        self._log: list[dict[str, Any]] = []
        self._names = {peer.node: peer.name for peer in fleet.peers}

    def _open_sources(self, stores: Stores) -> Spool:
        disk = PosixDisk(self._folder / SOURCES)
        if INDEX_FILES[0] in disk.names():
            return Spool.open(disk)
        return Spool.create(
            disk, capacity_bytes=SOURCES_MB << 20, device=stores.device, incarnation=1, evict=Evict.BLOCK
        )

    # --- the loop's calls --------------------------------------------------------------------------------------

    def read(self, until_us: int, now: float) -> None:
        """Read the sensors of the queries that this node feeds."""
        for runner in self._runners.values():
            runner.take_over(now)
            runner.read(until_us, now)

    def step(self, now: float) -> None:
        """Do whatever is due."""
        machine = self._machine
        self._woken = False
        for _ in range(ROUNDS_MAX):
            self._take_arrivals(now)
            machine.wake(now)
            while step := machine.step(now):
                for item in step.persist:
                    persist(item, self._disk, self._spool)
                for message in step.send:
                    self._send(message, now)
            if not self._own and self._links.arrivals.empty():
                break
        for event in machine.events():
            self._notice(event)
        self._now = now
        if now >= self._looked_at + LOOK_S:
            self._looked_at = now
            self._watch.look(now, self._stores.clock.now_us())
        if self.host.version != self._version:
            self._deployed()

    def _take_arrivals(self, now: float) -> None:
        while self._own:
            self._machine.receive(self._own.popleft(), now)
        while True:
            try:
                message = self._links.arrivals.get_nowait()
            except queue.Empty:
                return
            self._machine.receive(message, now)

    def _arrived(self) -> None:
        """In the links' thread: something came."""
        if not self._woken:
            self._woken = True
            self._wake()

    def next_wake(self) -> float | None:
        return self._machine.next_wake()

    def close(self) -> None:
        for runner in self._runners.values():
            runner.spool_everything()
            runner.close()
        self._links.close()
        self._watchdog.close()
        self._spool.close()

    def _send(self, message: Ask | Reply, now: float) -> None:
        """Two vertices on this node speak to each other without the network."""
        if isinstance(message, Ask) and message.node == self.host.node:
            self._own.append(Arrival(self.host.node, message.body))
        elif isinstance(message, Reply) and message.handle == self.host.node:
            self._machine.receive(Answer(self.host.node, message.body), now)
        else:
            self._links.send(message)

    # --- what its own device feeds -------------------------------------------------------------------------------

    def _deployed(self) -> None:
        self._version = self.host.version
        self._links.meet(self.host.peers())
        wanted = {query.name: query for query in self.host.queries()}
        for name in [name for name in self._runners if name not in wanted]:
            self._runners.pop(name).close()
        for name, query in wanted.items():
            if name not in self._runners:
                self._runners[name] = self._runner(query)

    def _runner(self, query: HostedQuery) -> PlanRunner:
        snapshots = Snapshots(PosixDisk(self._folder / f"state-{edge_id(query.name):016x}"))
        gathered = Gathered(self.host)

        def spooler(computation: Computation) -> Spooler:
            return Spooler(
                computation, self._spool, gathered, snapshots, loss_window_s=self._loss_window_s, speed=self._speed,
                edges=query.plan.gathers,
            )  # fmt: skip

        return PlanRunner(
            replace(self._stores, spool=self._spool, snapshots=snapshots), self._access, gathered, first=query.plan,
            new_spooler=spooler, on_output=None, refuse=self._say, on_failure=self._failed,
        )  # fmt: skip

    def _failed(self, error: OperatorFailed) -> None:
        self._say(f"the device's part of a query failed: {error}")

    # --- what it shows -------------------------------------------------------------------------------------------

    def _notice(self, event: object) -> None:
        match event:
            case SinkTook() | Committed():
                return
            case Recovered():
                moved = ", ".join(f"{vertex} to {self._name(node)}" for vertex, node in event.moves.items())
                text = f"{event.query}: {moved or 'nothing moves'} ({event.why})"
            case Unplaced():
                text = f"{event.query}: {', '.join(event.vertices)} waits, {event.why}"
            case Connected():
                text = f"{event.query}: {event.vertex} goes on here, term {event.term}"
            case InstanceFailed():
                text = f"{event.query}: {event.vertex} failed here: {event.why}"
            case PeerLost():
                text = f"{self._name(event.node)} cannot be reached ({event.code})"
            case PeerBack():
                text = f"{self._name(event.node)} is back"
            case Refused():
                text = f"{event.text} [{event.code}]"
            case _:
                text = str(event)
        self._say(text)
        self._news()
        self._log.append({"at_us": self._stores.clock.now_us(), "text": text})
        del self._log[:-EVENTS_MAX]

    def _name(self, node: str) -> str:
        return self._names.get(node, node[:8])

    def status(self) -> FleetStatus:
        """Where each vertex runs and what moved, as this node knows it."""
        return self._watch.status(self._now, self._stores.clock.now_us())

    @property
    def coordinates(self) -> bool:
        return self._machine.coordinator is not None

    def _refused(self) -> dict[str, int]:
        """By code, what others sent and was not taken."""
        counted = {STALE_TERM: self.host.receiver.stale, STRANGER: self._links.strangers, UNREAD: self._links.dropped}
        return {code: count for code, count in sorted((self.host.refused | counted).items()) if count}

    def view(self) -> dict[str, Any]:
        """The same as plain data, with what runs, is kept, ends and begins here."""
        host, coordinator, status = self.host, self._machine.coordinator, self.status()
        own = told(self._name(host.node))
        here = {(each.query, each.vertex) for each in status.placements if own in each.hosts}
        instances = [
            {
                "query": one.query, "vertex": one.vertex, "term": one.term, "failed": one.failed, "lost": one.lost,
                "taken": sum(one.taken.values()), "made": sum(one.heads.values()),
                "permanent": permanent(one)[0], "permanent_bytes": permanent(one)[1],
                "permanent_us": self._watch.snapshot_us(one.query, one.vertex),
            }
            for one in host.instances()
        ]  # fmt: skip
        return asdict(status) | {
            "name": own,
            "coordinates": self.coordinates,
            "instances": instances,
            "kept": [
                {"query": kept.query, "vertex": kept.vertex, "term": kept.term, "number": kept.number}
                for kept in host.status().kept
                if (kept.query, kept.vertex) not in here
            ],
            "sinks": [{"query": sink.query, "sink": sink.sink, "taken": sink.taken} for sink in host.sinks()],
            "feeds": [spec.name for spec in host.gathers()],
            "refused": self._refused(),
            "waits": [waits._asdict() for waits in ([] if coordinator is None else coordinator.waits())],
            "events": list(self._log),
        }
