"""What a node is started with, beside its home."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mobile_app.home.clock import EventClock
from mobile_app.home.files import HomeLock
from mobile_app.links.link import Link
from mobile_app.links.listener import Wait
from mobile_app.node.rest import OnMains, Rest
from mobile_app.node.results import Ring
from mobile_app.sensors.choose import Choice
from mobile_app.sensors.source import Source
from mobile_app.settings import Gateway, Settings
from shared.batch import Batch
from shared.hosting.fleet_file import FleetFile, OfferedHost
from shared.plan.graph import Plan

if TYPE_CHECKING:
    from mobile_app.node.loop import Node


@dataclass(frozen=True, slots=True)
class Surroundings:
    settings: Settings
    gateway: Gateway | None  # None: not enrolled, the node records on its own
    link: Link
    sensors: dict[str, Choice]
    wait: Wait | None = None  # hears of news at the gateway, from a thread of its own; None: this link cannot
    lane: str = "gateway"  # which kind of link it is: gateway, relay, none
    speed: float = 1.0
    rest: Rest = field(default_factory=OnMains)  # what the loop does between two turns
    plan: Plan | None = None  # from a program file; a newer one from the gateway replaces it
    on_event: Callable[[object], None] = lambda _event: None  # disconnection and the like, for the program
    on_output: Callable[[str, Batch], None] | None = None  # rows of local subscriptions
    open_source: Callable[..., Source] | None = None  # instead of the device's own sensors
    clock: EventClock | None = None  # instead of the home's own
    attend: Callable[[Node], None] | None = None  # called every turn: what screens ask for
    lock: HomeLock | None = None  # of whoever opens one node after the other here; None: the node takes its own
    fleet: FleetFile | OfferedHost | None = None  # the other nodes that it shares queries with
    say: Callable[[str], None] = lambda _text: None  # what happens there, for a terminal
    build: str = ""  # which app this is, where it has operators of its own
    on_alert: Callable[[Ring], None] = lambda _ring: None  # an alert for this device, shown once
    on_view: Callable[[dict[str, Any]], None] | None = None  # the view state, whenever it is published
