"""A node without a screen, as a process: enrols when it is given a link, runs until told to stop, says its account.

`resurge node` is its command line; on a phone the service calls the same functions. SIGTERM and SIGINT end it
cleanly: everything held is spooled and durable within two seconds, whatever the network does.
"""

from __future__ import annotations

import errno
import math
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mobile_app.home.clock import CLOCK_FILE
from mobile_app.home.erasure import finish_erasure
from mobile_app.home.files import HomeLock
from mobile_app.home.keys import load_keys
from mobile_app.links.enrolment import enrol, enrolled_with
from mobile_app.links.gateway import GatewayLink
from mobile_app.links.link import InterruptedLink, Link, LinkDown
from mobile_app.links.outages import Outages, parse_outages
from mobile_app.links.own_address import AddressWatch, own_address
from mobile_app.links.relay import Relay, RelayLink
from mobile_app.node.computation import OperatorFailed
from mobile_app.node.loop import Node
from mobile_app.node.plan_runner import PlanBegun
from mobile_app.node.plans import Plans
from mobile_app.node.rest import OnMains, Rest
from mobile_app.node.results import Ring
from mobile_app.node.surroundings import Surroundings
from mobile_app.own_operators import Bundle, import_bundled
from mobile_app.recordings.export import clear_old_exports
from mobile_app.sensors.choose import Choice
from mobile_app.service.commands import Commands
from mobile_app.service.connection import ServiceServer
from mobile_app.service.terminal import Terminal
from mobile_app.settings import Gateway, Settings, checked, load_gateway, load_settings, position_of
from shared.batch import Batch
from shared.errors import ResurgeError, UsageError
from shared.hosting.fleet_file import FleetFile, OfferedHost, read_fleet
from shared.language.registry import references
from shared.plan.graph import Plan
from shared.stream.drafts import Callback
from shared.stream.program import load_operators
from shared.wire.status import WORD_CHARACTERS, clean_text
from shared.wire.untrusted_text import printable

DRAIN_S = 10.0
NOTHING_TO_RUN = (
    "nothing is read: there is no program and no gateway; give --program FILE, or pair with --link LINK or "
    "`resurge node enrol LINK`"
)
HOSTS_NOTHING = "none"  # as the address of a node that feeds a fleet and is reached by nobody
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
LOOK_FOR_ROOM_S = 2.0
ROOM_BYTES = 4 << 20
ENROL_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    home: Path
    link: str = ""  # an enrolment link; used once
    relay: str = ""  # tcp://HOST:PORT; empty: what settings.toml says
    sensors: dict[str, Choice] = field(default_factory=dict)
    outages: str = ""
    fleet: Path | None = None  # the file of the fleet whose queries this node shares
    host: str = ""  # take part in the gateway's fleet: tcp://HOST:PORT where others reach this node, or "none"
    name: str = ""  # what that fleet calls it; empty: the name in settings.toml
    capacity: int | None = None  # vertices that it hosts there at most; None: what settings.toml says, so the next
    lane: str | None = None  # how it reaches other nodes
    cloud: bool = False  # it runs beside the gateway
    speed: float = 1.0
    rest: Rest = field(default_factory=OnMains)
    end_unused: bool = False  # end when nothing is to be read or sent, and nobody looks
    plan: Plan | None = None
    on_output: Callable[[str, Batch], None] | None = None  # rows of the plan's local subscriptions
    on_view: Callable[[dict[str, Any]], None] | None = None  # the view state, whenever it is published
    on_alert: Callable[[Ring], None] | None = None  # an alert for this device, shown once; None: it is said
    for_s: float | None = None  # None: until stopped
    stop: threading.Event | None = None  # set by whoever runs this beside something else
    signals: bool = True  # end on SIGTERM and SIGINT; False where another thread than the first runs this
    say: Callable[[str], None] = lambda _: None


class NoLink:
    """The link of a node that is not enrolled: it records, and nothing leaves it."""

    def exchange(self, body: bytes) -> bytes:
        raise LinkDown(f"not enrolled with a gateway; {len(body)} bytes stay here")

    def enrol(self, request: bytes) -> tuple[int, bytes]:
        raise LinkDown(f"not enrolled with a gateway; {len(request)} bytes stay here")

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass


@contextmanager
def stopping(event: threading.Event | None = None, *, signals: bool = True) -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set; a second signal ends the process the usual way."""
    event = threading.Event() if event is None else event
    if not signals:
        yield event
        return

    def note(number: int, _frame: object) -> None:
        event.set()
        signal.signal(number, signal.SIG_DFL)

    previous = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield event
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def run(options: RunOptions) -> dict[str, Any]:
    """Run a node; returns its account. The outage schedule counts from now."""
    if options.fleet is not None and options.host:
        raise UsageError(
            "a node shares the queries of a file (--fleet) or of its gateway (--host), not both", code="node-fleet"
        )
    if not 0.01 <= options.speed <= 10_000:
        raise UsageError(f"speed {options.speed} is not between 0.01 and 10000", code="node-speed")
    options.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    built = import_bundled()
    load_operators(options.home)
    if options.fleet is not None:
        load_operators(options.fleet.resolve().parent)
    outages = parse_outages(options.outages)
    started = time.monotonic()
    end = math.inf if options.for_s is None else started + options.for_s
    # First of all the home's lock: where another node runs, not even the way to its service may be touched.
    with HomeLock(options.home) as lock, stopping(options.stop, signals=options.signals) as stop:
        enrolling = _enrol_if_asked(options, stop, end)
        commands = Commands(options.home, stop)
        shared = options.fleet is not None or bool(options.host)  # a fleet's queries may read what no plan names
        terminal = Terminal(options.say, () if shared else options.sensors)
        server = ServiceServer(options.home, commands.handle)
        try:
            while True:
                if enrolling is not None and enrolling.finished.is_set():
                    enrolling.check()
                    enrolling = None
                finished = None if enrolling is None else enrolling.finished
                running = _Running(
                    options,
                    lock,
                    commands,
                    outages,
                    terminal,
                    built,
                    started=started,
                    end=end,
                    stop=stop,
                    enrolled=finished,
                )
                account = running.run()
                commands.between()
                if stop.is_set() or time.monotonic() >= end:
                    return account
        finally:
            server.close()


@dataclass(frozen=True, slots=True)
class _Running:
    """One node from open to close; it ends early when there is another gateway, or a command needs the home."""

    options: RunOptions
    lock: HomeLock
    commands: Commands
    outages: Outages
    terminal: Terminal
    built: Bundle | None
    started: float
    end: float
    stop: threading.Event
    enrolled: threading.Event | None

    def _published(self, view: dict[str, Any]) -> None:
        self.commands.published(view)
        self.terminal.show(view)
        if self.options.on_view is not None:
            self.options.on_view(view)

    def _ring(self, ring: Ring) -> None:
        if self.options.on_alert is None:
            self.options.say(f"alert {ring.number}: {printable(ring.text)}")
        else:
            self.options.on_alert(ring)

    def _on_event(self, event: object) -> None:
        """Whoever wrote the operator needs to see where it failed; everybody else reads it in health."""
        if isinstance(event, PlanBegun):
            self.terminal.begin(event.plan)
        if isinstance(event, OperatorFailed):
            self.options.say("".join(traceback.format_exception(event)).rstrip())

    def run(self) -> dict[str, Any]:
        options = self.options
        finish_erasure(options.home)
        clear_old_exports(options.home, time.time())
        settings, gateway = load_settings(options.home), load_gateway(options.home)
        relay = options.relay or settings.relay
        reached = None if gateway is None or relay else GatewayLink(gateway.url, pin=gateway.pin)
        link: Link = reached or (NoLink() if gateway is None else RelayLink(relay))
        interrupted = InterruptedLink(link, self.outages, started=self.started)
        wait = None if reached is None else interrupted.waiting(reached.wait)
        surroundings = Surroundings(
            settings=settings,
            gateway=gateway,
            link=interrupted,
            wait=wait,
            lane="none" if gateway is None else "relay" if relay else "gateway",
            sensors=options.sensors,
            speed=options.speed,
            rest=options.rest,
            plan=options.plan,
            on_event=self._on_event,
            on_output=options.on_output,
            attend=self.commands.attend,
            on_view=self._published,
            on_alert=self._ring,
            lock=self.lock,
            build="" if self.built is None else self.built.build,
            fleet=self._fleet(settings, gateway),
            say=options.say,
        )
        clock_file = options.home / CLOCK_FILE
        first = not clock_file.exists()
        try:
            node = Node(options.home, surroundings)
        except OSError as error:
            link.close()
            return self._wait_for_room(error)
        except BaseException:
            link.close()
            raise
        try:
            held = node.stores.spool.statistics().batches > 0
            node.turn(options.rest.now())
            self._check_own_inputs(node)
            options.say(f"device {node.stores.device.hex()} incarnation {node.stores.spool.incarnation} running")
            if self._has_nothing_to_run(node, gateway):
                options.say(f"{NOTHING_TO_RUN} [node-nothing-to-run]")
            moved = self._moved(surroundings)
            node.run(lambda: self._over() or self._unused(node) or moved())
            if gateway is not None and not self.stop.is_set() and time.monotonic() >= self.end:
                node.drain(DRAIN_S, self.stop.is_set)
                if not held:
                    self._check_something_was_read(node)
            elif not self.stop.is_set() and time.monotonic() >= self.end and self._has_nothing_to_run(node, gateway):
                raise NothingToRead(NOTHING_TO_RUN, code="node-nothing-to-run")
            return node.close() | {"outages": interrupted.outages_begun(), "outages_felt": interrupted.outages_felt()}
        except NothingToRead:
            node.close()
            if first and node.access.first_start:  # nothing was read yet: recordings begin with a start that can
                clock_file.unlink(missing_ok=True)
            raise
        except OSError as error:
            node.fail("storage-full" if error.errno in FULL else "disk-failed", str(error))
            self.commands.closed(node.stores.health.entries())
            node.leave()
            return self._wait_for_room(error)
        except Exception as error:
            node.fail("crashed", f"{type(error).__name__}: {error}")
            raise
        finally:
            self.commands.closed()
            node.leave()

    def _fleet(self, settings: Settings, gateway: Gateway | None) -> FleetFile | OfferedHost | None:
        """Whose queries this node shares: those of a file, or of its gateway's fleet once it is paired."""
        options = self.options
        if options.fleet is not None:
            return read_fleet(options.fleet, sorted(references()))
        if gateway is None or (not options.host and settings.hosting == "no"):
            return None
        if options.host:
            listen = "" if options.host == HOSTS_NOTHING else options.host
        else:
            listen = own_address(gateway.url) if settings.hosting == "hosts" else ""
        given = {"capacity": options.capacity, "lane": options.lane}
        settings = checked(settings, {name: value for name, value in given.items() if value is not None})
        return OfferedHost(
            listen, gateway.key, clean_text(options.name or settings.name, WORD_CHARACTERS),
            capacity=settings.capacity, lane=settings.lane, position=position_of(settings), cloud=options.cloud,
        )  # fmt: skip

    def _moved(self, around: Surroundings) -> Callable[[], bool]:
        """Whether others would look for this node where it is no more; where it listens at what it was told, never."""
        fleet, gateway = around.fleet, around.gateway
        chosen = not self.options.host and around.settings.hosting == "hosts"
        if not chosen or gateway is None or not isinstance(fleet, OfferedHost):
            return lambda: False
        watch = AddressWatch(gateway.url, fleet.listen, self.options.rest.now())
        return lambda: watch.changed(self.options.rest.now())

    def _check_own_inputs(self, node: Node) -> None:
        """A program whose every source is missing does nothing. What waits in the spool is reason enough to run."""
        own = self.options.plan is not None and node.runner.plan is self.options.plan
        why = node.runner.why_nothing_is_read() if own else ""
        if why and not node.stores.spool.statistics().batches and node.stores.recordings.running is None:
            raise NothingToRead(f"the program reads nothing here: {why}", code="node-nothing-to-read")

    def _has_nothing_to_run(self, node: Node, gateway: Gateway | None) -> bool:
        """No program, no gateway that sends one, no recording: nothing is read, whatever sensors there are."""
        coming = gateway is not None or self.enrolled is not None or self.options.fleet is not None
        running = node.runner.plan is not None or node.stores.recordings.running is not None
        return not coming and not running

    def _check_something_was_read(self, node: Node) -> None:
        """At the end of a run: a gateway's plan that could read nothing here. Until then a better one may have come."""
        why = node.runner.why_nothing_is_read()
        computation, states = node.runner.computation, node.access.readings.states()
        missing = {} if computation is None else computation.missing
        recorded = any(state["readings"] for sensor, state in states.items() if sensor not in missing)
        if why and not recorded and node.hosting is None:
            raise NothingToRead(f"the gateway's plan reads nothing here: {why}", code="node-nothing-to-read")

    def _over(self) -> bool:
        asked = self.stop.is_set() or self.commands.reopen.is_set()
        return asked or (self.enrolled is not None and self.enrolled.is_set()) or time.monotonic() >= self.end

    def _unused(self, node: Node) -> bool:
        """Nothing reads, nothing may come from a gateway, and nobody has looked for a while: there is nothing to do."""
        if not self.options.end_unused or not node.unused():
            return False
        self.stop.set()
        return True

    def _wait_for_room(self, error: OSError) -> dict[str, Any]:
        """A full disk may have room again; after any other failure only a new process reads what it really holds."""
        home = self.options.home
        self.options.say(f"the disk of {str(home)!r} refused the node ({error})")
        while error.errno in FULL and not self.stop.wait(LOOK_FOR_ROOM_S) and time.monotonic() < self.end:
            disk = os.statvfs(home)
            if self.commands.reopen.is_set() or disk.f_bavail * disk.f_frsize >= ROOM_BYTES:
                return {}
        raise DiskFailed(
            f"the disk of {str(home)!r} refused the node ({error}); nothing durable is lost. Make room or "
            "repair it, then start the node again",
            code="node-disk",
        ) from error


class NothingToRead(UsageError):
    """None of the program's sensors can be read, so nothing would ever come out."""


class DiskFailed(ResurgeError):
    """After a failed sync only a new process reads what the disk really holds, so the node ends."""


class EnrolmentThread(threading.Thread):
    """Tries to enrol until it is done, beside the recording: a slow gateway must cost neither readings nor the end."""

    def __init__(self, options: RunOptions, stop: threading.Event) -> None:
        super().__init__(daemon=True)  # a request that is under way ends with the process; repeating it is safe
        self._options = options
        self._stop_asked = stop
        self._error: UsageError | None = None
        self.finished = threading.Event()

    def run(self) -> None:
        options = self._options
        while not self._stop_asked.is_set():
            try:
                done = enrol(options.home, options.link, relay=options.relay)
            except UsageError as error:
                if error.code != "enrolment-unreachable":
                    self._error = error
                    break
                options.say(f"not enrolled yet: {error.message}")
                self._stop_asked.wait(ENROL_AGAIN_S)
            else:
                options.say(f"enrolled with {done.gateway}; compare {done.compare} with the gateway's screen")
                break
        self.finished.set()

    def check(self) -> None:
        """Raise what the gateway refused."""
        if self._error is not None:
            raise self._error


def _enrol_if_asked(options: RunOptions, stop: threading.Event, end: float) -> EnrolmentThread | None:
    """Begin to enrol. With a plan or a fleet at hand nobody waits for it: record first."""
    if not options.link or enrolled_with(options.home, options.link):
        return None
    files = [choice.argument if choice.kind == "recording" else "" for choice in options.sensors.values()]
    if files and options.plan is None and not any(not name or Path(name).expanduser().exists() for name in files):
        raise NothingToRead(  # before the link is spent: it is good once
            f"there is no recording at {files[0]!r}, and no other source is given; the link is still good",
            code="node-nothing-to-read",
        )
    load_keys(options.home)  # made here once, before two threads look for it
    enrolling = EnrolmentThread(options, stop)
    enrolling.start()
    useful = options.plan is not None or options.fleet is not None or Plans(options.home).load() is not None
    while not useful and not stop.is_set() and time.monotonic() < end and not enrolling.finished.wait(0.05):
        pass
    return enrolling


def calling(callbacks: Mapping[str, Callback], say: Callable[[str], None]) -> Callable[[str, Batch], None]:
    """Hands rows of local subscriptions to the program's functions. One that fails is named; recording goes on."""

    def on_output(name: str, batch: Batch) -> None:
        callback = callbacks.get(name)
        if callback is None:
            return
        try:
            callback({**batch.columns, "time": batch.time_us})
        except Exception as error:  # the program's own code: whatever it raises must not stop the recording
            say(f"subscription {name!r} failed: {type(error).__name__}: {error}")

    return on_output


def run_relay(
    bind: str, gateway_url: str, *, pin: bytes = b"", for_s: float | None = None, say: Callable[[str], None]
) -> dict[str, Any]:
    """Carry exchanges until told to stop; returns how many."""
    relay = Relay(bind, lambda: GatewayLink(gateway_url, pin=pin))
    say(f"relay on {relay.address} to {gateway_url}")
    end = math.inf if for_s is None else time.monotonic() + for_s
    with stopping() as stop:
        relay.run(lambda: stop.is_set() or time.monotonic() >= end)
    return {"carried": relay.carried, "failed": relay.failed}
