"""What a node is told by those it calls: receipts, marks to send again, deployments, who is lost and who is back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shared.errors import PeerError
from shared.hosting.beginning import Beginning
from shared.hosting.calling import Calling
from shared.hosting.cutting import Cutting
from shared.hosting.following import Following
from shared.hosting.here import Here
from shared.hosting.initiators import text_of
from shared.hosting.instance import Instance
from shared.hosting.messages import Heard, PeerBack, PeerLost
from shared.hosting.returning import Returning
from shared.hosting.rows_lane import RowsLane
from shared.hosting.serving import Serving
from shared.hosting.snapshots_under_way import SnapshotsUnderWay
from shared.hosting.source import Source
from shared.hosting.state_lane import StateLane
from shared.hosting.taking import Taking
from shared.hosting.wiring import GATEWAY
from shared.identity import EdgeId
from shared.recovery.marks import MarkId
from shared.sync.events import (
    BitmapArrived,
    DeploymentArrived,
    Disconnected,
    Extended,
    HintArrived,
    PlanArrived,
    ReaderRestored,
    ReceiptReceived,
    Reconnected,
)
from shared.sync.exchange import DeploymentShown, StatusReceived
from shared.sync.receiver import ExchangeApplied

BROKEN = frozenset({"link-failed", "link-timeout"})  # else somebody has answered
SPENT = "hello-spent"  # a greeting that came twice is refused once, which says nothing of the link


class Hearing:
    def __init__(
        self,
        here: Here,
        calling: Calling,
        *,
        serving: Serving,
        taking: Taking,
        cutting: Cutting,
        returning: Returning,
        beginning: Beginning,
        following: Following,
        snapshots: SnapshotsUnderWay,
        lane: StateLane,
        rows: RowsLane,
        forget_edges: Callable[[], None],
    ) -> None:
        self._here, self._calling, self._serving, self._taking = here, calling, serving, taking
        self._cutting, self._returning = cutting, returning
        self._beginning, self._following = beginning, following
        self._snapshots, self._lane, self._rows, self._forget_edges = snapshots, lane, rows, forget_edges
        self._loads: dict[tuple[EdgeId, str], int] = {}

    def notice(self, received: Sequence[object], now: float) -> None:
        """What the receiver and the senders tell since the last time, and what follows from it."""
        here = self._here
        for event in received:
            if isinstance(event, ExchangeApplied):
                here.events.append(Heard(event.device))
            elif isinstance(event, DeploymentShown):
                here.events.append(event)
            elif isinstance(event, StatusReceived):
                self._calling.hear_of(event.status.plan, now)
                here.events.append(event)
        for node, sender in list(self._calling.senders.items()):
            for event in sender.events():
                if isinstance(event, Disconnected):
                    self._lane.lost(node, now)
                    if event.code in BROKEN and self._calling.lanes.turn(node, now):
                        sender.hurry(now)
                if isinstance(event, Disconnected | ReaderRestored):
                    self._rows.lost(node, now)
                self._sender_event(node, event, now)
        if here.roused & here.standby.keys():
            self._serving.serve(here.wiring, now)
            self._forget_edges()
        self._returning.reach_by_others(now)
        if self._returning.edges or self._calling.probed:
            self._returning.look_around(now)
        if self._returning.turn_elsewhere(now) and here.deployed is not None:
            self._beginning.apply(here.deployed, now)
        for node, sender in self._calling.senders.items():
            sender.chased = bool(self._returning.edges) and here.coordinates(node)

    def gateway_said(self, event: object, now: float) -> None:
        """What this node's own sender to the gateway tells: how far the log has what is synced from here."""
        if isinstance(event, ReceiptReceived | ReaderRestored):
            found = self._here.makers.get(event.edge)
            if found is not None and GATEWAY in found[1].readers:
                self._here.now = now
                self._sender_event(GATEWAY, event, now)

    def _sender_event(self, node: str, event: object, now: float) -> None:
        here = self._here
        if isinstance(event, Reconnected):
            self._returning.answers_again(node, now)
        match event:
            case ReceiptReceived(edge, _, load):
                self._receipted(node, edge, load)
            case Extended(extend):
                found = here.makers.get(extend.edge)
                if found is not None:
                    id = MarkId(extend.number, text_of(extend.initiator))
                    found[0].checkpoints.extended(found[1].label, id, extend.wait)
                    self._decide(found[0])
            case ReaderRestored(edge, _):
                if edge in here.carriers:
                    here.carriers[edge].reader_restored()
                found = here.makers.get(edge)
                if found is not None:
                    maker, spec = found
                    term = maker.term if isinstance(maker, Instance) else 0
                    for mark in maker.checkpoints.marks_to_send(spec.label):
                        self._calling.send_mark(spec, term, mark, now)
            case BitmapArrived(bitmap):
                try:
                    if not self._rows.bitmap(node, bitmap, now):
                        self._lane.bitmap(node, bitmap, now)
                except PeerError as error:
                    here.refuse(error)
            case HintArrived(hint):
                if here.coordinates(node):
                    self._cutting.order(hint.cuts, now)
            case PlanArrived(_, plan):
                if here.coordinates(node):
                    self._following.try_deploy(plan, now)
            case DeploymentArrived(message):
                if message.deployment and here.coordinates(node):
                    self._following.deploy_from(message, now)
                elif here.memory.signature and here.coordinates(node):
                    self._calling.senders[node].show(self._following.followed(), now)
            case Disconnected() | Reconnected() if node not in self._calling.needed():
                pass  # a node that was called with news, and asks for them itself at its next poll
            case Disconnected(_, code):
                here.events.append(PeerLost(node, code))
                self._returning.lost(node, now, spent=code == SPENT)
            case Reconnected():
                here.events.append(PeerBack(node))
            case _:
                here.events.append(event)

    def _receipted(self, node: str, edge: EdgeId, load: int) -> None:
        here = self._here
        if edge in here.state_edges:
            self._snapshots.receipted(here.state_edges[edge], node, load)
            return
        if edge in here.carriers:
            self._taking.follow(here.carriers[edge])
            return
        found = here.makers.get(edge)
        if found is None:
            return
        maker, spec = found
        self._loads[edge, node] = load
        total = sum(self._loads.get((edge, reader), 0) for reader in spec.readers)
        maker.checkpoints.receipt(spec.label, here.outbox.through(edge), total)
        self._decide(maker)
        if isinstance(maker, Source):
            maker.receipted(here.outbox.through(edge))
            for mark in maker.more_marks():
                self._calling.send_mark(spec, 0, mark, here.now)

    def _decide(self, maker: Instance | Source) -> None:
        if isinstance(maker, Instance):
            self._snapshots.checkpoint(maker)
        else:
            maker.settle()
