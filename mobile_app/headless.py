"""A node without a screen, as a process: enrols when it is given a link, runs until told to stop, says its account.

`resurge node` is its command line; on a phone the service calls the same functions. SIGTERM and SIGINT end it
cleanly: everything held is spooled and durable within two seconds, whatever the network does.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mobile_app.enrolment import enrol, enrolled_with
from mobile_app.keys import load_keys
from mobile_app.links.gateway import GatewayLink
from mobile_app.links.link import InterruptedLink, Link, LinkDown
from mobile_app.links.relay import Relay, RelayLink
from mobile_app.node import Node, Surroundings
from mobile_app.outages import Outages, parse_outages
from mobile_app.plans import Plans
from mobile_app.sensors.choose import Choice
from mobile_app.settings import Gateway, load_gateway, load_settings
from shared.batch import Batch
from shared.errors import ResurgeError, UsageError
from shared.plan.graph import Plan
from shared.stream.drafts import Callback
from shared.stream.program import load_operators

DRAIN_S = 10.0
ENROL_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    home: Path
    link: str = ""  # an enrolment link; used once
    relay: str = ""  # tcp://HOST:PORT; empty: what settings.toml says
    sensors: dict[str, Choice] = field(default_factory=dict)
    outages: str = ""
    speed: float = 1.0
    plan: Plan | None = None
    on_output: Callable[[str, Batch], None] | None = None  # rows of the plan's local subscriptions
    for_s: float | None = None  # None: until stopped
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
def stopping() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set; a second signal ends the process the usual way."""
    event = threading.Event()

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
    if not 0.01 <= options.speed <= 10_000:
        raise UsageError(f"speed {options.speed} is not between 0.01 and 10000", code="node-speed")
    options.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    load_operators(options.home)
    outages = parse_outages(options.outages)
    started = time.monotonic()
    end = math.inf if options.for_s is None else started + options.for_s
    with stopping() as stop:
        enrolling = _enrol_if_asked(options, stop, end)
        while True:
            if enrolling is not None and enrolling.finished.is_set():
                enrolling.check()
                enrolling = None
            enrolled = threading.Event() if enrolling is None else enrolling.finished
            gateway = load_gateway(options.home)
            account = _run_until(end, options, gateway, outages=outages, started=started, stop=stop, enrolled=enrolled)
            if stop.is_set() or time.monotonic() >= end:
                return account


def _run_until(
    until: float,
    options: RunOptions,
    gateway: Gateway | None,
    *,
    outages: Outages,
    started: float,
    stop: threading.Event,
    enrolled: threading.Event,
) -> dict[str, Any]:
    """One node from open to close, with this gateway or none; it ends early when there is another one."""
    settings = load_settings(options.home)
    relay = options.relay or settings.relay
    link: Link = NoLink()
    if gateway is not None:
        link = RelayLink(relay) if relay else GatewayLink(gateway.url, pin=gateway.pin)
    interrupted = InterruptedLink(link, outages, started=started)
    surroundings = Surroundings(
        settings=settings,
        gateway=gateway,
        link=interrupted,
        lane="none" if gateway is None else "relay" if relay else "gateway",
        sensors=options.sensors,
        speed=options.speed,
        plan=options.plan,
        on_output=options.on_output,
    )
    try:
        node = Node(options.home, surroundings)
    except BaseException:
        link.close()
        raise
    options.say(f"device {node.device} incarnation {node.spool.incarnation} running")
    try:
        node.run(lambda: stop.is_set() or enrolled.is_set() or time.monotonic() >= until)
        if gateway is not None and not stop.is_set() and time.monotonic() >= until:
            node.drain(DRAIN_S, stop.is_set)
        return node.close() | {"outages": interrupted.outages_begun()}
    except OSError as error:
        raise DiskFailed(
            f"the disk of {str(options.home)!r} refused the node ({error}); nothing durable is lost. Make room or "
            "repair it, then start the node again",
            code="node-disk",
        ) from error
    finally:
        node.leave()


class DiskFailed(ResurgeError):
    """After a failed sync only a new process reads what the disk really holds, so the node ends."""


class Enrolling(threading.Thread):
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


def _enrol_if_asked(options: RunOptions, stop: threading.Event, end: float) -> Enrolling | None:
    """Begin to enrol. With a plan at hand nobody waits for it: record first."""
    if not options.link or enrolled_with(options.home, options.link):
        return None
    load_keys(options.home)  # made here once, before two threads look for it
    enrolling = Enrolling(options, stop)
    enrolling.start()
    can_record = options.plan is not None or Plans(options.home).load() is not None
    while not can_record and not stop.is_set() and time.monotonic() < end and not enrolling.finished.wait(0.05):
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
