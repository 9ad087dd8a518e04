"""A node's share of a fleet: drives the machines of `shared/hosting`, and feeds them with what its own sensors say.

The loop owns everything here. `step` is the driver's side of the contract: what a step wants stored is stored before
anything of it is sent.
"""

from __future__ import annotations

import queue
import random
import shutil
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mobile_app.home.peer_keys import FleetKeys, load_curve_keys
from mobile_app.links.broadcast import BroadcastLink
from mobile_app.links.outages_seen import OutagesSeen
from mobile_app.links.own_address import WayWatch
from mobile_app.links.peers import PeerLinks
from mobile_app.node.computation import Computation, OperatorFailed
from mobile_app.node.plan_runner import PlanRunner
from mobile_app.node.rest import LOOK_S as LOOK_S_ASLEEP
from mobile_app.node.rest import OnBattery, Rest
from mobile_app.node.stores import Stores
from mobile_app.node.watchdog import Watchdog
from mobile_app.sensors.access import SensorAccess
from mobile_app.spool.snapshots import Snapshots
from mobile_app.spool.spooler import Spooler
from shared.energy_model import HourOfHosting
from shared.errors import UsageError
from shared.hosting.coordinate import Coordinator
from shared.hosting.fleet_events import Deposed, Learned, Recovered, Unplaced
from shared.hosting.fleet_file import FleetFile, OfferedHost
from shared.hosting.fleet_node import FleetNode
from shared.hosting.fleet_watch import FleetWatch
from shared.hosting.governed import Governed
from shared.hosting.host import Host
from shared.hosting.messages import Answer, Ask, Committed, Connected, InstanceFailed, PeerBack, PeerLost, SinkTook
from shared.hosting.passed_by_gateway import is_passed
from shared.hosting.planned_moves import MoveEnded
from shared.hosting.requests import answer
from shared.hosting.routing import Rerouted
from shared.hosting.showing import permanent
from shared.hosting.store import persist, stored_fleet
from shared.identity import EdgeId, EdgeKey, edge_id
from shared.language.schema import Schema
from shared.moves import MoveRequest
from shared.plan.deployment import HostedQuery, NamedArea, Spooling
from shared.recovery.delays import SILENCE_S, SILENCE_S_MIN
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Include, Keep
from shared.region.broadcast import Broadcast
from shared.region.member import Place
from shared.spool.advice import Advice, advise
from shared.spool.disk import PosixDisk
from shared.spool.entry import Entry, SpooledBatch
from shared.spool.evict import Evict
from shared.spool.journal import INDEX_FILES
from shared.spool.ring import Spool
from shared.spool.statistics import SpoolStatistics
from shared.sync.composer import EdgePolicy
from shared.sync.events import Refused
from shared.sync.pacing import Pacing
from shared.sync.receiver import Arrival, Reply
from shared.sync.sender import Sender
from shared.wire.fleet_status import FleetStatus, told
from shared.wire.status import HostOffer

FOLDER = "fleet"
SPOOL_MB = 16
SOURCES = "sources"
SUBMITTED = "submitted-"
PACING = Pacing(poll_s=1.0, timeout_s=3.0, backoff_s_min=0.1, backoff_s_max=2.0, window=3, growth=4, probe_s=0.4)
EVENTS_MAX = 50
STALE_TERM, STRANGER, UNREAD, FLOOD = "stale-term", "peers-stranger", "peers-unread", "broadcast-flood"
UNPASSED, REPLAYED = "peers-unpassed", "session-replayed"
REPORT_S = 2.5  # so often at least it speaks to its coordinator
SPARE_S = 1.0  # that a node may take to speak again, after an operator was interrupted
LOOK_S = 1.0  # between two looks at who is silent and which snapshots are new
WAYS_S = 0.2  # between two looks at whether there is a way to others, while some do not answer
COORDINATOR_ASKS_S = 2.0
MOVING_ASKS_S = 0.5
ROUNDS_MAX = 100  # within one turn; the sensors want theirs
ROUND_BYTES = 256 << 10
ROUND_DATAGRAMS = 256


def _state_folder(spooling: Spooling) -> str:
    """Where the device's part of queries keeps its state. One of the fleet's file goes on with it when it changes."""
    number = edge_id(spooling.query)
    return f"{SUBMITTED}{number:016x}-{spooling.incarnation}" if spooling.submitted else f"state-{number:016x}"


def promises_to_lose(queries: Sequence[HostedQuery]) -> dict[str, float]:
    """The gathers of queries that share them which may lose readings when the spool is full, each with the share that
    is kept at least: the most that any of them promises. All others make the device wait."""
    each = [_may_lose(query) for query in queries]
    return {gather: max(one[gather] for one in each) for gather in each[0] if all(gather in one for one in each)}


def _may_lose(query: HostedQuery) -> dict[str, float]:
    """What a query would lose by itself. Gathers of limited loss whose vertices keep snapshots make the device wait,
    too: what a vertex has read it may read again, and must find as it was."""
    row = STRATEGIES[query.row].row
    if row.keep is Keep.RING:  # as many as fit
        return dict.fromkeys((edge.name for edge in query.plan.gathers), 0.0)
    if row.include is not Include.NOTHING:
        return {}
    return {edge.name: edge.contract.kept_min for edge in query.plan.gathers if edge.contract.kept_min < 1.0}


class Gathered:
    """Takes what the device's part of queries puts out to the host. Stands where the sender to the gateway stands."""

    def __init__(self, host: Host, spool: Spool, queries: Sequence[HostedQuery]) -> None:
        self._host, self._spool = host, spool
        self._promises: dict[EdgeId, float] = {}
        self.follow(queries)

    def follow(self, queries: Sequence[HostedQuery]) -> None:
        """What may be given up of these queries' readings from now on, also of those that wait."""
        self._promises = {edge_id(name): kept_min for name, kept_min in promises_to_lose(queries).items()}
        for edge in (edge_id(gather.name) for gather in queries[0].plan.gathers):
            self._spool.protect(edge, edge not in self._promises)
            self._spool.promise(edge, self._promises.get(edge, 0.0))

    def declare(self, name: str, schema: Schema, policy: EdgePolicy | None = None) -> EdgeId:  # noqa: ARG002
        return edge_id(name)

    def append(self, batch: SpooledBatch, now: float) -> Entry:
        evict = Evict.QUERY_AWARE if batch.edge in self._promises else Evict.BLOCK
        return self._host.offer(self._key(batch.edge), batch, now, evict)

    def frontier(self, edge: EdgeId, frontier_us: int, now: float) -> None:
        self._host.frontier(self._key(edge), frontier_us, now)

    def _key(self, edge: EdgeId) -> EdgeKey:
        return next(spec.key for spec in self._host.gathers() if spec.key.edge == edge)


class Hosting:
    """One node of a fleet."""

    def __init__(
        self,
        home: Path,
        fleet: FleetFile | OfferedHost,
        stores: Stores,
        access: SensorAccess,
        sender: Sender | None,
        *,
        wake: Callable[[], None],
        say: Callable[[str], None],
        news: Callable[[], None],
        speed: float,
        loss_window_s: float,
        spool_mb: int = SPOOL_MB,
        now: float,
    ) -> None:
        """`sender` is this device's end towards the gateway that coordinates, where one does."""
        self._folder = home / FOLDER
        self._folder.mkdir(exist_ok=True, mode=0o700)
        self._stores, self._access, self._say, self._news = stores, access, say, news
        self._speed, self._loss_window_s = speed, loss_window_s
        self._sender = sender
        node = stores.device.hex()
        addresses, coordinator_key = self._joins(fleet, node)
        self._disk = PosixDisk(self._folder)
        self._spool = self._open_sources(stores, spool_mb)
        self._outages = OutagesSeen(self._folder)
        self._lost_at: dict[str, float] = {}  # nodes that this one does not reach, and since when
        keys = FleetKeys(home)
        coordinator, self._file = None, None
        if isinstance(fleet, FleetFile) and fleet.coordinator.node == node:
            self._file = fleet
            least_s = max(SILENCE_S_MIN, fleet.hanging_s + SPARE_S)  # what hangs and is interrupted is no silent node
            coordinator = Coordinator(
                node, keys.answering().sign, stored=stored_fleet(self._disk), silence_s=max(SILENCE_S, least_s),
                silence_s_min=least_s, now=now, cut_s=fleet.cut_s, clock_us=stores.clock.now_us,
            )  # fmt: skip
            coordinator.set_fleet(fleet.peers, fleet.hosted(coordinator.fleet.queries), fleet.links, fleet.regions())
        self._watchdog = Watchdog(fleet.hanging_s, say)
        self.host = Host(
            stores.device, 1, keys, disk=self._disk, sources=self._spool, random=random.Random(), pacing=PACING,
            coordinator=coordinator_key, downlink=coordinator, watch=self._watchdog,
            gateway=sender if isinstance(fleet, OfferedHost) else None, report_s=REPORT_S, now=now,
        )  # fmt: skip
        if isinstance(fleet, FleetFile):
            self.host.meet(fleet.peers, now)
        self._machine = FleetNode(self.host, coordinator)
        self._watch = FleetWatch(self.host, coordinator, stores.clock.now_us())
        self._now, self._looked_at = now, now
        self._ways, self._ways_at = WayWatch(), now
        bind = addresses[0] if addresses else "tcp://127.0.0.1:*"
        self._own: deque[Arrival] = deque()  # of this node's vertices to each other: never dropped for others' sake
        self._wake = wake
        self._woken = False  # the loop has been told that something is here, and has not looked yet
        curve = load_curve_keys(home)
        self._links = PeerLinks(bind, curve, self.host.peers(), self._arrived)
        self._broadcast: BroadcastLink | None = None  # where snapshots are kept in a whole region
        self.governed: Governed | None = None  # where the gateway coordinates
        if isinstance(fleet, OfferedHost):
            offer = HostOffer(
                fleet.name or node[:8], curve.public, addresses, fleet.capacity, fleet.lane, fleet.position, fleet.cloud
            )
            self.governed = Governed(self.host, offer)
        self._version, self._deployed_us = -1, 0
        self._runners: dict[Spooling, PlanRunner] = {}
        self._gathered: dict[Spooling, Gathered] = {}
        self._log: list[dict[str, Any]] = []
        self._names = {peer.node: peer.name for peer in self.host.peers()}

    @staticmethod
    def _joins(fleet: FleetFile | OfferedHost, node: str) -> tuple[tuple[str, ...], bytes]:
        """Where this node listens, and the key of who coordinates."""
        if isinstance(fleet, OfferedHost):
            return (fleet.listen,) if fleet.listen else (), fleet.coordinator
        return fleet.peer(node).addresses, fleet.coordinator.public_key

    def _open_sources(self, stores: Stores, spool_mb: int) -> Spool:
        """What its own device feeds. Which of it may be given up is said for each query: `promises_to_lose`."""
        disk = PosixDisk(self._folder / SOURCES)
        if INDEX_FILES[0] in disk.names():
            spool = Spool.open(disk)
            spool.evict = Evict.QUERY_AWARE  # the first ones were made to give nothing up
            return spool
        return Spool.create(
            disk, capacity_bytes=spool_mb << 20, device=stores.device, incarnation=1, evict=Evict.QUERY_AWARE
        )

    # --- the loop's calls --------------------------------------------------------------------------------------

    def read(self, until_us: int, now: float, within_s: float | None = None) -> None:
        """Read the sensors of the queries that this node feeds, each for about so long."""
        for runner in self._runners.values():
            runner.take_over(now)
            runner.read(until_us, now, within_s)

    def begin_again(self) -> None:
        """Begin what it feeds anew, with what may be read now."""
        for runner in self._runners.values():
            runner.begin_again()

    @property
    def behind(self) -> bool:
        """Whether there was more to read than there was time for."""
        return any(runner.behind for runner in self._runners.values())

    def step(self, now: float) -> None:
        """Do whatever is due."""
        machine = self._machine
        self._woken = False
        self._look_for_ways(now)
        for _ in range(ROUNDS_MAX):
            self._take_arrivals(now)
            machine.wake(now)
            while step := machine.step(now):
                for item in step.persist:
                    persist(item, self._disk, self._spool)
                for message in step.send:
                    self._send(message, now)
                if not step.persist:  # nothing waited to be durable: all that is due was sent
                    break
            if not self._own and self._links.arrivals.empty() and not self._heard(now):
                break
        for event in machine.events():
            self._notice(event)
        self._now = now
        if now >= self._looked_at + LOOK_S:
            self._looked_at = now
            self._watch.look(now, self._stores.clock.now_us())
        if self.host.version != self._version:
            self._deployed()

    def _look_for_ways(self, now: float) -> None:
        """Whoever does not answer is asked at once when this device's network has changed."""
        if not self.host.is_cut_off or now < self._ways_at + WAYS_S:
            return
        self._ways_at = now
        if self._ways.opened(address for peer in self.host.peers() for address in peer.addresses):
            self._links.renew(self.host.unanswering())
            self.host.network_changed(now)

    def _take_arrivals(self, now: float) -> None:
        """What came; much of it in several rounds, so that who waits for an answer can send the next meanwhile."""
        while self._own:
            self._machine.receive(self._own.popleft(), now)
        taken_bytes = 0
        while taken_bytes < ROUND_BYTES:
            try:
                message = self._links.arrivals.get_nowait()
            except queue.Empty:
                return
            self._machine.receive(message, now)
            if isinstance(message, Arrival):
                taken_bytes += len(message.body)

    def _heard(self, now: float) -> bool:
        """Take some of what was broadcast, behind the exchanges; whether there was any."""
        link = self._broadcast
        self.host.lane.is_open = link is not None and link.is_open
        waiting = 0 if link is None else min(len(link.arrivals), ROUND_DATAGRAMS)
        for _ in range(waiting):
            self._machine.receive(link.arrivals.popleft(), now)  # type: ignore[union-attr]
        return waiting > 0

    def _arrived(self) -> None:
        """In the links' thread: something came."""
        if not self._woken:
            self._woken = True
            self._wake()

    def next_wake(self) -> float | None:
        wakes = self._machine.next_wake()
        if not self.host.is_cut_off:
            return wakes
        return self._ways_at + WAYS_S if wakes is None else min(wakes, self._ways_at + WAYS_S)

    def close(self) -> None:
        for runner in self._runners.values():
            runner.spool_everything()
            runner.close()
        self._links.close()
        if self._broadcast is not None:
            self._broadcast.close()
        self._watchdog.close()
        self._spool.close()

    def _send(self, message: Ask | Reply | Broadcast, now: float) -> None:
        """Two vertices on this node speak to each other without the network."""
        if isinstance(message, Broadcast):
            if self._broadcast is not None:
                self._broadcast.send(message)
        elif isinstance(message, Ask) and message.node == self.host.node:
            self._own.append(Arrival(self.host.node, message.body))
        elif isinstance(message, Reply) and message.handle == self.host.node:
            self._machine.receive(Answer(self.host.node, message.body), now)
        elif self.governed is not None and self._sender is not None and is_passed(message):
            self.governed.pass_on(message, self._sender, now)
        else:
            self._links.send(message)

    # --- what its own device feeds -------------------------------------------------------------------------------

    def _deployed(self) -> None:
        self._version, self._deployed_us = self.host.version, self._stores.clock.now_us()
        self._links.meet(self.host.peers())
        self._meet_region()
        self._names = {peer.node: peer.name for peer in self.host.peers()}
        wanted: dict[Spooling, list[HostedQuery]] = {}
        for query in self.host.queries():
            wanted.setdefault(query.spooling, []).append(query)
        for name in [name for name in self._runners if name not in wanted]:
            self._runners.pop(name).close()
        kept = {_state_folder(spooling) for spooling in wanted}
        for folder in self._folder.glob(f"{SUBMITTED}*"):  # of queries that were dropped, also while this node was off
            if folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)
        self._gathered = {name: each for name, each in self._gathered.items() if name in wanted}
        for name, queries in wanted.items():
            gathered = self._gathered.setdefault(name, Gathered(self.host, self._spool, queries))
            gathered.follow(queries)
            if name not in self._runners:
                self._runners[name] = self._runner(queries[0], gathered)

    @property
    def listens(self) -> bool:
        """Whether it takes what is broadcast in a region."""
        return self._broadcast is not None

    def _meet_region(self) -> None:
        """Broadcast where a query keeps its snapshots in the whole region, and listen nowhere else."""
        if self.host.broadcasts and self._broadcast is None:
            try:
                self._broadcast = BroadcastLink(self._links.address, self.host.node, self._arrived)
            except OSError as error:  # snapshots go to each node by itself, as before
                self._say(f"cannot broadcast in this region ({error}); snapshots go to each of its nodes")
        elif not self.host.broadcasts and self._broadcast is not None:
            self._broadcast.close()
            self._broadcast = None
        if self._broadcast is not None:
            self._broadcast.meet(self.host.peers())

    def _runner(self, query: HostedQuery, gathered: Gathered) -> PlanRunner:
        snapshots = Snapshots(PosixDisk(self._folder / _state_folder(query.spooling)))

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

    # --- what a person asks ----------------------------------------------------------------------------------------

    def move(self, request: MoveRequest, now: float) -> dict[str, Any]:
        """Move a vertex while it runs, or say what that would do. UsageError where it cannot be."""
        coordinator = self._machine.coordinator
        if coordinator is None:
            raise UsageError("this node does not coordinate its fleet; ask on the one that does", code="move-elsewhere")
        answer = coordinator.move(request, now)
        self._wake()
        return asdict(answer)

    def asked(self, requests: Sequence[MoveRequest], now: float) -> None:
        """People asked for moves by way of the gateway; `status` says what became of them."""
        coordinator = self._machine.coordinator
        if coordinator is not None:
            coordinator.asked(requests, now)
            self._wake()
            self._news()

    # --- what it shows -------------------------------------------------------------------------------------------

    def buffered(self, now: float) -> tuple[SpoolStatistics, Advice]:
        """What waits here of its own readings, and what the size of that spool means: how fast they fill it, and how
        long nodes could not be reached."""
        rates: dict[str, float] = {}
        for runner in self._runners.values():
            if runner.spooler is not None:
                rates |= runner.spooler.rates(now)
        statistics = self._spool.statistics()
        return statistics, advise(rates, statistics.capacity_bytes, self._outages.lengths_s)

    def full_in_s(self, rate: float) -> float | None:
        """How long until something must be given up, or the device waits."""
        return self._spool.time_until_overwrite(rate) if rate > 0 else None

    def _notice(self, event: object) -> None:
        match event:
            case SinkTook() | Committed():
                return
            case Recovered():
                moved = ", ".join(f"{vertex} to {self._name(node)}" for vertex, node in event.moves.items())
                text = f"{event.query}: {moved or 'nothing moves'} ({event.why})"
            case MoveEnded():
                where = f"{event.vertex} to {self._name(event.node)}"
                text = f"{event.query}: {where} as asked" if not event.why else f"{where} given up: {event.why}"
            case Rerouted():
                ways = [" and ".join(map(self._name, path)) or "nobody" for path in event.paths]
                text = f"{event.query}: rows of {self._name(event.source)} go over {', '.join(ways)} ({event.why})"
            case Learned():
                text = f"{event.node} follows deployment {event.version}, which was forgotten here; going on above it"
                if self._file is not None and self._machine.coordinator is not None:  # what the file says counts
                    self._machine.coordinator.set_fleet(
                        self._file.peers, self._file.hosted(), self._file.links, self._file.regions()
                    )
            case Deposed():
                text = f"this node coordinates no more: {event.why}"
            case Unplaced():
                text = f"{event.query}: {', '.join(event.vertices)} waits, {event.why}"
            case Connected():
                text = f"{event.query}: {event.vertex} goes on here, term {event.term}"
            case InstanceFailed():
                text = f"{event.query}: {event.vertex} failed here: {event.why}"
            case PeerLost():
                self._lost_at.setdefault(event.node, self._now)
                text = f"{self._name(event.node)} cannot be reached ({event.code})"
            case PeerBack():
                if (lost_at := self._lost_at.pop(event.node, None)) is not None:
                    self._outages.note(self._now - lost_at)
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
    def asks_s(self) -> float | None:
        """How often it should speak with its gateway at least: often while a gateway's fleet moves a vertex or passes
        on what nodes say to each other, and where people ask things of it as a coordinator."""
        passing = self.governed is not None and self.governed.is_passing(self._now)
        if self.host.moves_under_way or passing:
            return MOVING_ASKS_S
        return COORDINATOR_ASKS_S if self.coordinates else None

    @property
    def areas(self) -> tuple[NamedArea, ...]:
        """The regions of its fleet."""
        return () if self.host.deployed is None else self.host.deployed.areas

    @property
    def is_asked(self) -> bool:
        """Whether nodes may ask it something by way of its gateway, which then cannot wait for its next exchange."""
        return self.governed is not None and self.host.here.gateway_passes and bool(self.areas)

    @property
    def is_member(self) -> bool:
        """Whether it runs or keeps something for a region of its fleet."""
        names = {each.name for each in self.areas}
        queries = () if self.host.deployed is None else self.host.deployed.queries
        return any(self.host.node in query.members for query in queries if query.name in names)

    def may_sleep(self, places: Mapping[str, str]) -> bool:
        """Whether nobody needs this device awake: its fleet has regions and nothing else, it is in none of them, and
        runs, keeps and feeds nothing. Who is there answers within seconds, or is taken for gone. `places`: what this
        device is to each region."""
        deployed = self.host.deployed
        if self.coordinates or deployed is None or not deployed.areas:
            return False
        names = {each.name for each in deployed.areas}
        if any(query.name not in names for query in deployed.queries):
            return False
        if any(peer.position is not None for peer in self.host.peers() if peer.node == self.host.node):
            return False  # it need not say where it is to be counted on
        used = self.is_member or self.host.gathers() or self.host.sinks() or any(self.host.instances())
        return not used and all(places.get(name, Place.OUTSIDE.value) == Place.OUTSIDE.value for name in names)

    @property
    def coordinates(self) -> bool:
        return self._machine.coordinator is not None

    def ask(self, call: str, arguments: Mapping[str, Any], now: float) -> dict[str, Any]:
        """What a person asks of the coordinator; stored when this returns. UsageError where that is another node."""
        coordinator = self._machine.coordinator
        if coordinator is None:
            raise UsageError(
                "another node coordinates this fleet; `coordinator` in the fleet's file says which, ask there",
                code="fleet-coordinator",
            )
        said = answer(coordinator, call, arguments, now)
        self.step(now)
        return said

    def _refused(self) -> dict[str, int]:
        """By code, what others sent and was not taken."""
        counted = {STALE_TERM: self.host.receiver.stale, STRANGER: self._links.strangers, UNREAD: self._links.dropped}
        counted[REPLAYED] = self.host.receiver.replayed
        counted[UNPASSED] = self._links.passing.refused
        counted[FLOOD] = 0 if self._broadcast is None else self._broadcast.dropped
        found = self.host.refused + self.host.lane.receiving.refused + self.host.rows.receiving.refused
        return {code: count for code, count in sorted((found | counted).items()) if count}

    def regions(self, places: Mapping[str, str], rest: Rest) -> list[dict[str, Any]]:
        """The regions of its fleet as its person should see them. `places`: what this device is to each of them."""
        cost = None  # that nobody need be told of on the mains
        if isinstance(rest, OnBattery):
            cost = asdict(HourOfHosting.of(REPORT_S, LOOK_S_ASLEEP, rest.poll_s))
        host, deployed = self.host, self.host.deployed
        found = []
        for area in self.areas:
            query = next((each for each in deployed.queries if each.name == area.name), None) if deployed else None
            members = () if query is None else query.members
            runs = [one for one in host.instances() if one.query == area.name]
            found.append(
                {
                    "name": area.name, "place": places.get(area.name, Place.OUTSIDE.value), "dwell_s": area.dwell_s,
                    "threshold": area.threshold, "member": host.node in members,
                    "members": [self._name(node) for node in members if node != host.node],
                    "runs": [one.vertex for one in runs], "kept_bytes": host.kept_bytes(area.name),
                    "handed_bytes": sum(permanent(one)[1] or 0 for one in runs), "hour": cost,
                }
            )  # fmt: skip
        return found

    def view(self) -> dict[str, Any]:
        """The same as plain data, with what runs, is kept, ends and begins here."""
        host, coordinator, status = self.host, self._machine.coordinator, self.status()
        own = told(self._name(host.node))
        here = {(each.query, each.vertex) for each in status.placements if own in each.hosts}
        instances = [
            {
                "query": one.query, "vertex": one.vertex, "term": one.term, "failed": one.failed, "lost": one.lost,
                "unstored": one.unstored,
                "taken": sum(one.taken.values()), "made": sum(one.heads.values()),
                "permanent": permanent(one)[0], "permanent_bytes": permanent(one)[1],
                "permanent_us": self._watch.snapshot_us(one.query, one.vertex),
            }
            for one in host.instances()
        ]  # fmt: skip
        return asdict(status) | {
            "name": own,
            "deployed_us": self._deployed_us,  # since when it follows this version
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
            "passed": self._links.passing.passed,
            "waits": [waits._asdict() for waits in ([] if coordinator is None else coordinator.waits())],
            "events": list(self._log),
        }
