"""The sending end: drains the spool to the gateway, one exchange at a time, and forgets nothing unacknowledged.

Theory of operation. Whatever is appended goes to the spool first. An exchange carries, per edge and strictly in
order, the oldest entries the spool holds; there is no cursor beside the spool that could go wrong. The reply
brings receipts, and only a receipt trims. So after a lost reply, a crash or a week offline the next exchange
simply starts at the oldest entry again, and the gateway, which knows every high water, keeps what it lacks.

        idle --due--> GREETING --WELCOME--> idle (session open) --due--> EXCHANGING --reply--> idle
                        |                                                   |
                        +-- refused, timeout, link failed --> backing off <-+

One exchange is outstanding at a time and each sending has a new number, so a late reply to an earlier sending is
recognised and dropped. Between nodes several may be under way (`Pacing.window`) while there is a backlog, or enough
came meanwhile to be worth another: each goes on where the one before it ends. The reader takes nothing behind a gap. So
when one is lost or not taken whole, no more are sent until the others are answered, and then it goes on from what the
reader has.

**Nothing is sent before it is durable here**: a number that the gateway has seen and a crash here has forgotten would
be given to another element, and that one dropped as a duplicate. Hence a step asks for the spool to be synced before
the step that sends, and the spool shows only what is durable. Results are applied by the driver's store, with their
number, in one durable write; the next exchange tells the gateway.

The first thing said of an edge is a question: how much of it do you have? More than this spool had numbered when
it was opened means that the spool is an old copy (a restored backup): its new elements carry used numbers, and
would be acknowledged as duplicates and dropped. So nothing numbered goes before the answer. `reaches` may carry
that limit over from an earlier process that never got an answer; StoreContact says when it is no longer needed.

A batch the gateway will never take (poison) must not block its edge: after a refusal that names the batch as the
fault, entries go one at a time, and the one that is refused alone is given up in the ledger as quarantined.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random

from shared.batch import NO_FRONTIER
from shared.errors import BrokenInvariant, PeerError, UsageError
from shared.identity import EdgeId, EdgeKey, edge_id
from shared.language.schema import Schema
from shared.spool.entry import DataEntry, Entry, Reason, SpooledBatch
from shared.spool.evict import Evict
from shared.spool.ring import Spool
from shared.sync.composer import Composer, EdgePolicy, OutgoingEdge, Outstanding
from shared.sync.events import (
    BitmapArrived,
    DeploymentArrived,
    Disconnected,
    Extended,
    HintArrived,
    PassArrived,
    PlanArrived,
    PlanWasWithheld,
    ReaderRestored,
    ReceiptReceived,
    Reconnected,
    Refused,
    ResultArrived,
)
from shared.sync.newest import Newest
from shared.sync.outbox import Reading
from shared.sync.pacing import Conditions, Pacing, stretch
from shared.sync.persist import Persist, StoreContact, StoreEdge, StorePlan, StoreResults, SyncSpool
from shared.sync.session import DeviceSession
from shared.sync.sharers import speaks_for
from shared.sync.signed_runs import SignedRun
from shared.sync.step import Step
from shared.wire.broadcast import Bitmap
from shared.wire.envelope import ENVELOPE_BYTES, envelope_session, is_envelope
from shared.wire.frame import HEADER_BYTES, Frame, FrameType, Parts, decode_all, decode_one, encode
from shared.wire.messages import (
    DeploymentMessage,
    Extend,
    Hint,
    MarkMessage,
    PeerReceipt,
    PlanMessage,
    PlanWithheld,
    Receipt,
    Refusal,
    Result,
    ResultReceipt,
    Status,
)
from shared.wire.packed_deployment import PACKED, PackedDeployment
from shared.wire.passed import PassMessage
from shared.wire.status import DeviceStatus

REOPEN = frozenset({"session-unknown", "session-expired"})  # say HELLO again, nothing is wrong with us
# Anybody on the way can write a bare REFUSAL: it may delay the next try this long, jitter included, and no longer.
UNSEALED_DELAY_S_MAX = 60.0
OVERTAKEN = "session-overtaken"
WIDENED_AFTER = 2
POLL_BUSY_S_MIN = 5.0
ANSWERS_MEASURED = 8  # exchanges of which the quickest counts
UNANSWERED_MAX = 2  # counts of failures that a node which does not answer yet is waited for
POLL_BUSY_FACTOR = 2.0  # of how long the rows of an edge may wait here
FOR_OTHERS_BYTES_MAX = 4 << 20  # beside an exchange's own batches, of which one has 1 MB
SHOWN_AGAIN_S = 60.0  # what is newest goes ahead of the rows at most this often
_TOLD = frozenset({FrameType.PLAN, FrameType.WITHHELD, FrameType.DEPLOYMENT, FrameType.HINT, FrameType.REFUSAL})
POISON = frozenset({"message-data", "message-tombstone", "frame-bounds", "sync-quarantine"})


class Sender:
    """A node's end of all its edges to one reader: the gateway, or another node."""

    def __init__(
        self,
        spool: Spool | Reading,
        session: DeviceSession,
        *,
        pacing: Pacing,
        rng: Random,
        edges: Iterable[tuple[str, Schema]] = (),
        results_through: int = 0,
        plan_version: int = -1,
        reaches: Mapping[EdgeId, int] | None = None,
        now: float = 0.0,
    ) -> None:
        """`edges`, `results_through` and `plan_version` are what StoreEdge, StoreResults and StorePlan stored.

        `reaches`: what the gateway may have of an edge at most, at the first contact; else the spool's head now.
        """
        self._reaches = {} if reaches is None else dict(reaches)
        self._spool = spool
        self._newest = Newest(spool) if isinstance(spool, Spool) else None  # nodes need no glimpse of what follows
        self._session = session
        self._pacing = pacing
        self._rng = rng
        self._edges: dict[EdgeId, OutgoingEdge] = {}
        self._results_through = results_through
        self._plan_version = plan_version
        self._conditions = Conditions()
        self._status, self._follows = DeviceStatus(), b""
        self._status_sent: DeviceStatus | None = None
        self._shown: DeploymentMessage | None = None  # to be sent once: who wants it again asks again
        self._said_once: list[bytes] = []  # with the next exchange; who wants it again says it again
        self._for_others: deque[bytes] = deque()  # frames for other nodes that the gateway passes on, the same
        self.control_sent = self.control_received = 0  # bytes of exchanges that were about no edge
        self._receipt_sent = -1
        self._under_way: list[Outstanding] = []  # not answered yet, oldest first
        self._draining = False  # the reader did not take all of one: wait for the others before the next
        self._window = 1  # how many may be under way now
        self._grown = 1  # how many times as much as usual goes into each
        self._answered = 0  # exchanges in a row that all went well
        self._hurried = False  # since the last exchange was sent
        self._persist: list[Persist] = []
        self._events: list[object] = []
        self._failures = 0
        self._not_before = now
        self._next_poll = now
        self._busy_until = now  # it counts as in use until then
        self._busy_poll_s = self._pacing.poll_s
        self._unsynced_since: float | None = None
        self._disconnected_at: float | None = None
        self.disconnected = False  # the same, for those who ask at every turn
        self._answer_times: deque[float] = deque(maxlen=ANSWERS_MEASURED)
        self.answered_at = -math.inf  # when the other side last took an exchange
        self.chased = False  # something waits for an answer, also where there are no rows for it
        self._probes_until = 0.0
        self._met = False
        self._showed_at = -math.inf  # when an exchange without rows, for what is newest, was answered
        self._taken_since = True  # rows, since then
        self._composer = Composer(session, self._under_way, self._events, to_node=isinstance(spool, Reading))
        if isinstance(spool, Reading):
            spool.ahead.clear()  # of a sender before this one
        for name, schema in edges:
            edge = self._edge(name)
            edge.schemas[schema.id] = schema
        for edge in self._edges.values():
            first = next(iter(spool.pending(edge.number)), None)
            edge.acknowledged = spool.head(edge.number) if first is None else first.lo
            if first is not None:
                edge.waiting_since = now - self._patience_s(edge)

    # --- what the program says ---------------------------------------------------------------------------

    def declare(self, name: str, schema: Schema, policy: EdgePolicy | None = None) -> EdgeId:
        """Make an edge known, before anything is appended to it. Saying it again changes only the policy."""
        edge = self._edge(name)
        if policy is not None:
            edge.policy = policy
            if isinstance(self._spool, Spool):
                self._spool.protect(edge.number, policy.evict is Evict.BLOCK)
                self._spool.promise(edge.number, policy.kept_min)
        if edge.schemas.get(schema.id, schema) != schema:
            raise UsageError(
                f"edge {name!r} had another schema with the same number; rename a column", code="sync-schema-number"
            )
        if schema.id not in edge.schemas:
            edge.schemas[schema.id] = schema
            self._persist.append(StoreEdge(name, schema))
        return edge.number

    def carry(
        self,
        name: str,
        schemas: Mapping[int, Schema],
        key: EdgeKey,
        *,
        term: int,
        read: int,
        within_s: float,
        rows: int = 0,
        reading: Reading | None = None,
        alone: bool = False,
    ) -> EdgeId:
        """Make known an edge of an outbox that this reader reads. A new term starts it anew: the reader says where. So
        does another value of `read`: something begins to read it there, or begins again. `reading` is given to a sender
        that has a spool of its own: what the gateway reads of the outbox goes with what this device says itself, and
        under its signature if it is `alone` in making it: of what two make, the log may have the other's batches."""
        edge = self._edge(name, reading)
        edge.schemas.update(schemas)
        edge.policy = EdgePolicy(within_s=within_s, rows=rows)
        signs = reading is not None and alone
        if not signs:
            edge.run = None
        if (edge.origin, edge.incarnation, edge.term) != (key.device, key.incarnation, term):
            if signs:
                signer = self._session.device
                edge.run = SignedRun(key.device, key.incarnation, edge.number, signer=signer, term=term)
            edge.origin, edge.incarnation, edge.term = key.device, key.incarnation, term
            edge.met, edge.frontier_us, edge.frontier_sent_us = False, NO_FRONTIER, NO_FRONTIER
            edge.marks.clear()
            self._composer.forgotten.pop(edge.number, None)
            self._expect_nothing_of(edge.number)
        if edge.read != read:
            edge.read, edge.met, edge.frontier_sent_us = read, False, NO_FRONTIER
            self._expect_nothing_of(edge.number)
        return edge.number

    def begin_again(self, edge: EdgeId) -> None:
        """An edge that is only passed on here goes on elsewhere: what was promised on it may be too much now."""
        known = self._edges[edge]
        known.frontier_us, known.frontier_sent_us = NO_FRONTIER, NO_FRONTIER
        known.marks.clear()
        self._expect_nothing_of(edge)

    def _expect_nothing_of(self, edge: EdgeId) -> None:
        """What is under way of an edge was for whoever read it before: its answer says nothing of who does now."""
        for outstanding in self._under_way:
            outstanding.frontiers.pop(edge, None)
            outstanding.reached.pop(edge, None)
            outstanding.asked.discard(edge)
        known = self._edges.get(edge)
        if known is not None and isinstance(known.store, Reading):
            known.store.ahead.pop(edge, None)

    def carried(self) -> tuple[str, ...]:
        """The edges of an outbox that this reader reads, by name."""
        return tuple(edge.name for edge in self._edges.values() if isinstance(edge.store, Reading))

    def owns(self, name: str) -> bool:
        """Whether this device has an edge of its own of this name."""
        edge = self._edges.get(edge_id(name))
        return edge is not None and isinstance(edge.store, Spool)

    def drop(self, name: str) -> None:
        """This reader reads the edge no more."""
        self._expect_nothing_of(edge_id(name))
        self._edges.pop(edge_id(name), None)

    def append(self, batch: SpooledBatch, now: float) -> Entry:
        """Spool a batch, as `Spool.append` does. Durable once the SyncSpool of a later step is done."""
        edge = self._edges[batch.edge]
        if not isinstance(self._spool, Spool):
            raise BrokenInvariant("what a reader is sent goes through its outbox", code="sender-append")
        entry = self._spool.append(batch, edge.policy.evict)
        if self._unsynced_since is None:
            self._unsynced_since = now
        self.appended(batch, now)
        return entry

    def appended(self, batch: SpooledBatch, now: float) -> None:
        """There is something new to send on an edge."""
        edge = self._edges[batch.edge]
        edge.waiting_rows += batch.rows
        edge.waiting_bytes += len(batch.payload)
        if edge.waiting_since is None:
            edge.waiting_since = now

    def mark(self, mark: MarkMessage, now: float) -> None:
        """Send a mark in its place on an edge; it goes at once, with what is before it."""
        edge = self._edges[mark.edge]
        if mark not in edge.marks:
            edge.marks.append(mark)
            edge.marks.sort(key=lambda mark: mark.position)
            self.hurry(now)

    def frontier(self, edge: EdgeId, frontier_us: int, now: float) -> None:
        """No element of this edge with an earlier event time will be appended."""
        known = self._edges[edge]
        if frontier_us > known.frontier_us:
            known.frontier_us = frontier_us
            if known.waiting_since is None:
                known.waiting_since = now

    def status(self, status: DeviceStatus, follows: bytes = b"") -> None:
        """What the fleet page should know; rides on the next exchange if it changed. The sender adds what it knows.
        `follows` is the deployment whose digest is in the status: the next one may say only what differs."""
        self._status, self._follows = status, follows

    def pace(self, pacing: Pacing) -> None:
        """How often to speak from now on."""
        self._pacing, self._busy_poll_s = pacing, pacing.poll_s

    def runs(self, plan_version: int) -> None:
        """What this node runs by now, by its number; the next exchange says so."""
        self._plan_version = max(self._plan_version, plan_version)

    def show(self, message: DeploymentMessage, now: float) -> None:
        """Tell the coordinator, with the next exchange, which deployment this node follows."""
        self._shown = message
        self.hurry(now)

    def look(self, edge: EdgeId, now: float) -> None:
        """There may be something to send on an edge that was held."""
        known = self._edges.get(edge)
        if known is not None and known.waiting_since is None and self._has_more(known):
            known.waiting_since = now - self._patience_s(known)

    def say(self, frames: Iterable[bytes], now: float) -> None:
        """Put these into the next exchange, once. A node that does not answer is told nothing."""
        if self._disconnected_at is None:
            self._said_once += frames
            self.hurry(now)

    def pass_on(self, message: PassMessage, now: float) -> None:
        """Have the gateway pass this on to another node, with the next exchange. Of more than fits one the oldest goes:
        its answer would come too late. Whoever wants it again says it again."""
        if self._disconnected_at is not None:
            return
        self._for_others.append(encode(message.frame()))
        while sum(map(len, self._for_others)) > FOR_OTHERS_BYTES_MAX and len(self._for_others) > 1:
            self._for_others.popleft()
        self.hurry(now)

    def conditions(self, conditions: Conditions) -> None:
        self._conditions = conditions

    def hurry(self, now: float) -> None:
        """Somebody is watching, or the link came back: do not wait for the next due time."""
        self._hurried = True
        self._next_poll = now
        self._not_before = min(self._not_before, now)

    def chase(self, now: float) -> None:
        """The network has changed: who did not answer may do so now."""
        if self._disconnected_at is not None:
            self.fail(now)
            self._probes_until = now + self._pacing.probe_for_s
            self.hurry(now)

    def marks(self, edge: EdgeId) -> Sequence[MarkMessage]:
        """Those that the other side has not answered, by position."""
        known = self._edges.get(edge)
        return () if known is None else known.marks

    def takes(self, edge: EdgeId) -> bool:
        """Whether the other side answers, has said where an edge goes on there, and has room for more of it."""
        known = self._edges.get(edge)
        return self.reached and known is not None and known.met and known.credit != 0

    @property
    def under_way(self) -> int:
        """How many exchanges are not answered yet."""
        return len(self._under_way)

    def wait_for_news(self, now: float) -> bytes | None:
        """What to ask with to hear at once of a result; None while the gateway is not reached."""
        return self._session.wait(self._results_through, now) if self.reached else None

    @property
    def answer_s(self) -> float | None:
        """How soon the other side answers, of late: the quickest of some. None before it did."""
        return min(self._answer_times, default=None)

    @property
    def reached(self) -> bool:
        """Whether the other side has answered, and still does."""
        return self._met and not self.disconnected

    # --- the five calls ------------------------------------------------------------------------------------

    def receive(self, message: bytes | memoryview, now: float) -> None:
        """Take the reply to what earlier steps sent. Anything else is dropped."""
        if not self._under_way:
            return
        try:
            if not is_envelope(message):
                self._bare(decode_one(message)[0], self._under_way[0], now)
                return
            counters = [outstanding.counter for outstanding in self._under_way]
            _, counter = envelope_session(message)
            if counter not in counters or (frames := self._session.open(message, counter)) is None:
                return
            if before := counters.index(
                counter
            ):  # whatever became of those: what they said beside numbers is said again
                del self._under_way[:before]
                self._hurried = True
            self._reply(list(decode_all(frames)), self._under_way[0], now)
        except PeerError as error:
            self._events.append(Refused(error.code, error.message))
            self.fail(now, error.code)

    def fail(self, now: float, code: str = "link-failed") -> None:
        """What earlier steps sent will not be answered: the link failed, or it took too long."""
        if not self._under_way:
            return
        self._under_way.clear()
        self._for_others.clear()
        self._go_on_from_taken()
        self._widen(well=False)
        for edge in self._edges.values():
            if edge.waiting_since is None and self._has_more(edge):
                edge.waiting_since = now - self._patience_s(edge)
        self._failures += 1
        if self._disconnected_at is None:
            self._disconnected_at, self.disconnected = now, True
            self._probes_until = now + self._pacing.probe_for_s
            self._events.append(Disconnected(now, code))
        pause_s = self._pacing.backoff_s(self._failures, self._rng)
        probes = self._probes() and now < self._probes_until
        self._not_before = now + (min(pause_s, self._pacing.probe_s) if probes else pause_s)

    def _probes(self) -> bool:
        """Whether it should soon be known that the other side answers again: something waits for that."""
        if self._disconnected_at is None or not self._pacing.probe_s:
            return False
        return self.chased or any(self._has_more(edge) for edge in self._edges.values())

    def _go_on_from_taken(self) -> None:
        """Nothing is under way: the next exchange begins with what the reader has not taken."""
        self._draining = False
        for edge in self._edges.values():
            if isinstance(edge.store, Reading):
                edge.store.ahead.pop(edge.number, None)

    def _widen(self, *, well: bool) -> None:
        """One more may be under way after some that went well; one alone after any that did not."""
        self._answered = self._answered + 1 if well else 0
        self._window = min(self._pacing.window, 1 + self._answered // WIDENED_AFTER)
        widest = well and self._window == self._pacing.window
        self._grown = self._pacing.grown(self._grown, self._answer_times[-1]) if widest else 1

    def wake(self, now: float) -> None:
        if self._under_way and now >= self._under_way[0].deadline:
            self.fail(now, "link-timeout")

    def next_wake(self) -> float:
        times = [self._due()]
        if self._under_way:
            times = [self._under_way[0].deadline, self._due_behind()]
        if self._unsynced_since is not None:
            times.append(self._unsynced_since + self._pacing.sync_within_s)
        return min(times)

    def step(self, now: float) -> Step[Persist, bytes]:
        """What to store now and, when it is time, the one body to send after that."""
        send: tuple[bytes, ...] = ()
        due = now >= (self._due_behind() if self._under_way else self._due())
        if due and self._under_way and not self._session.is_open(now):
            due = False  # first the answers of this session, then another
        if self._unsynced_since is not None and (due or now >= self._unsynced_since + self._pacing.sync_within_s):
            self._persist.append(SyncSpool())
            self._unsynced_since = None
        elif due:
            send = (self._speak(now),)
        persist, self._persist = tuple(self._persist), []
        return Step(persist, send)

    def events(self) -> list[object]:
        if not self._events:
            return []
        events = list(self._events)
        self._events.clear()  # the composer writes into the same list
        return events

    # --- sending -------------------------------------------------------------------------------------------

    def _edge(self, name: str, reading: Reading | None = None) -> OutgoingEdge:
        number = edge_id(name)
        edge, store = self._edges.get(number), reading or self._spool
        if edge is None:
            device, incarnation = self._session.device, self._session.incarnation
            edge = self._edges[number] = OutgoingEdge(number, name, EdgePolicy(), device, incarnation, store)
            edge.run = SignedRun(device, incarnation, number)
            edge.reach = self._reaches.get(number, store.head(number)) if reading is None else store.head(number)
        if edge.store is not store:
            raise UsageError(
                f"this device has a stream {name!r} of its own, and carries one of a query; rename one",
                code="sync-carried",
            )
        return edge

    def _has_more(self, edge: OutgoingEdge) -> bool:
        return edge.frontier_us > edge.frontier_sent_us or any(True for _ in edge.store.pending(edge.number))

    def _patience_s(self, edge: OutgoingEdge) -> float:
        """How long this edge's oldest entry may wait here just now."""
        return edge.policy.within_s * stretch(self._conditions)

    def _due(self) -> float:
        """When the next exchange should happen."""
        due = self._next_poll
        gathered = 0
        for edge in self._edges.values():
            if edge.waiting_since is not None and edge.credit != 0 and not _waits(edge):
                gathered += edge.waiting_bytes
                enough = 0 < edge.policy.rows <= edge.waiting_rows
                due = min(due, edge.waiting_since if enough else edge.waiting_since + self._patience_s(edge))
                if gathered >= self._pacing.gather_bytes:
                    due = min(due, edge.waiting_since)
        return max(due, self._not_before)

    def _due_behind(self) -> float:
        """When one more exchange should follow those under way: at once while there is a backlog, or as much has come
        since as is worth one; else never."""
        last = self._under_way[-1]
        if self._probes() and not last.hello:  # a greeting counts alone: its answer is to the last one only
            probe_at = last.sent_at + self._pacing.probe_s
            return probe_at if probe_at < self._probes_until else math.inf
        waits = self._draining or self._failures or self._composer.one_at_a_time or self._composer.forgotten
        if last.hello or waits or len(self._under_way) >= self._window:
            return math.inf
        if not all(edge.met for edge in self._edges.values()):
            return math.inf
        behind = any(self._edges[edge].credit != 0 for edge in last.left if edge in self._edges)
        enough = self._gathered() >= self._pacing.budget(self._conditions) // 2
        return self._not_before if behind or enough else math.inf

    def _gathered(self) -> int:
        """Bytes that may go and are in no exchange yet."""
        edges = [edge for edge in self._edges.values() if edge.waiting_since is not None and edge.credit != 0]
        return sum(edge.waiting_bytes for edge in edges if not _waits(edge))

    def _speak(self, now: float) -> bytes:
        outstanding = Outstanding(deadline=now + self._pacing.timeout_s, sent_at=now)
        self._hurried = False
        if not self._session.is_open(now):
            outstanding.hello = True
            self._composer.declared.clear()
            self._status_sent = None
            self._receipt_sent = -1
            self._under_way.append(outstanding)
            return self._session.hello()
        body = self._session.seal(self._exchange(outstanding, now))
        outstanding.counter = self._session.counter
        self._under_way.append(outstanding)
        return body

    def _hold_young(self, now: float) -> list[tuple[OutgoingEdge, float]]:
        """Edges whose last batch may still grow, as its oldest row has not waited long enough."""
        young = []
        for edge in self._edges.values():
            if isinstance(edge.store, Reading) and edge.store.merges(edge.number):
                since = edge.waiting_since
                grows = since is not None and now < since + self._patience_s(edge)
                edge.store.hold(edge.number, grows)
                if since is not None and grows:
                    young.append((edge, since))
        return young

    def _exchange(self, outstanding: Outstanding, now: float) -> list[bytes | Parts]:
        """The frames of the next exchange, oldest entries first within an edge, dearer edges first."""
        reports: list[bytes] = []
        device = self._session.device
        outstanding.results_through = self._results_through
        probes = self._disconnected_at is not None and self._pacing.probe_s
        budget = self._pacing.budget(self._conditions, self._grown)
        more = isinstance(self._spool, Spool) and self._spool.used_bytes > budget  # than one exchange takes
        outstanding.shows = more and self._shows_first(now)
        if probes or outstanding.shows:
            budget = 0
        young = self._hold_young(now)
        frames = self._composer.compose(self._edges.values(), outstanding, budget)
        for edge, since in young:
            if rows := edge.store.held_rows(edge.number) if isinstance(edge.store, Reading) else 0:
                edge.waiting_since, edge.waiting_rows = since, rows
        outstanding.poll_s = self._poll_s(outstanding, now)
        live = self._newest.of(self._edges.values(), outstanding) if self._newest is not None and more else ()
        status = replace(self._status, plan=self._plan_version, poll_s=outstanding.poll_s, live=live)
        if status != next((other.status for other in reversed(self._under_way) if other.status), self._status_sent):
            reports.append(encode(Status(device, status).frame()))
            outstanding.status = status
        if self._shown is not None:
            reports.append(encode(self._shown.frame()))
            self._shown = None
        if self._results_through != self._receipt_sent and not self._under_way:
            reports.append(encode(ResultReceipt(device, self._results_through).frame()))
        if outstanding.damaged and self._unsynced_since is None:
            self._unsynced_since = now  # a batch became a tombstone, to be durable before it is sent
        self.control_sent += ENVELOPE_BYTES + sum(map(len, reports))
        said, self._said_once = self._said_once, []
        for_others, self._for_others = self._for_others, deque()
        return [*reports, *said, *for_others, *frames]

    def _shows_first(self, now: float) -> bool:
        """Whether the first exchange after an outage goes without rows: on a slow link one that is full of them takes
        long, and people should see where the device is now before it is through with where it was. On a link that
        carries one exchange and breaks, rows must come through nevertheless: so not again before some did."""
        away = self._disconnected_at is not None
        return away and self._taken_since and now >= self._showed_at + SHOWN_AGAIN_S

    def _poll_s(self, outstanding: Outstanding, now: float) -> float:
        """How soon the next exchange comes at the latest, which the STATUS of this one announces.

        Soon after one that carried rows or frontiers: so a phone in use is missed quickly, and one that becomes idle
        says so before it is silent for long. An exchange in between, for results that came, changes nothing.
        """
        busy = {frame.edge for frame, _ in outstanding.numbered} | set(outstanding.frontiers)
        if busy:
            patience_s = min(self._patience_s(self._edges[edge]) for edge in busy)
            self._busy_poll_s = min(self._pacing.poll_s, max(POLL_BUSY_S_MIN, POLL_BUSY_FACTOR * patience_s))
            self._busy_until = now + self._busy_poll_s
        return self._busy_poll_s if now < self._busy_until else self._pacing.poll_s

    # --- receiving -----------------------------------------------------------------------------------------

    def _bare(self, frame: Frame, outstanding: Outstanding, now: float) -> None:
        """WELCOME, or a REFUSAL from somebody who has no session with us."""
        if frame.type is FrameType.WELCOME and not outstanding.hello:
            return  # a second copy of the one that opened this session
        if frame.type is FrameType.WELCOME:
            if self._session.welcome(frame, now):
                self._met = True
                self._under_way.clear()
                self._next_poll = now  # a session was wanted for something
            return
        if frame.type is not FrameType.REFUSAL:
            raise PeerError(f"a bare {frame.type.name} frame answers nothing", code="session-unexpected")
        refusal = Refusal.of(frame)
        if refusal.code in REOPEN and not outstanding.hello:
            # Not a failure of the link: greet again soon, but not in step with everybody else.
            self._session.close()
            self._under_way.clear()
            self._go_on_from_taken()
            self._not_before = now + self._pacing.backoff_s_min * self._rng.random()
            self._next_poll = self._not_before
            return
        self._session.close()
        self._refused(refusal, now, delay_s_max=UNSEALED_DELAY_S_MAX)

    def _refused(self, refusal: Refusal, now: float, *, delay_s_max: float = math.inf) -> None:
        self._events.append(Refused(refusal.code, refusal.text))
        self.fail(now, refusal.code)
        if refusal.retry_after_s is not None:
            delay_s = refusal.retry_after_s * (1.0 + 0.25 * self._rng.random())
            self._not_before = max(self._not_before, now + min(delay_s, delay_s_max))

    def _reply(self, frames: list[Frame], outstanding: Outstanding, now: float) -> None:
        told = [frame for frame in frames if frame.type in _TOLD]
        self.control_received += ENVELOPE_BYTES + sum(HEADER_BYTES + len(frame.payload) for frame in told)
        refusals = [Refusal.of(frame) for frame in frames if frame.type is FrameType.REFUSAL]
        if refusals:
            self._refused_inside(refusals[0], outstanding, now)
            return
        self._composer.one_at_a_time = False
        self._answer_times.append(now + self._pacing.timeout_s - outstanding.deadline)
        self.answered_at = now
        del self._under_way[0]
        failing = self._draining  # one before this was not taken whole, so this was not either
        if not failing:
            self._not_before = now
        self._next_poll = now if self._hurried else now + outstanding.poll_s
        if self._disconnected_at is not None:
            self._events.append(Reconnected(now, now - self._disconnected_at))
            self._disconnected_at, self.disconnected = None, False
        self._acknowledge(outstanding)
        before = sum(edge.acknowledged for edge in self._edges.values())
        if not self._under_way:
            self._go_on_from_taken()
        self._receipts([Receipt.of(frame) for frame in frames if frame.type is FrameType.RECEIPT], outstanding, now)
        mine = {edge.number for edge in self._edges.values() if edge.store is self._spool}
        self._ask_again(outstanding, frames)
        unanswered = any(not self._edges[number].met for number in outstanding.asked & mine)
        taken = sum(edge.acknowledged for edge in self._edges.values()) > before
        if outstanding.shows:
            self._showed_at, self._taken_since = now, False
        self._taken_since = self._taken_since or taken
        sent = any(frame.edge in mine for frame, _ in outstanding.numbered)
        if (unanswered or (sent and not taken)) and not failing:
            # It took nothing of what it was sent. Whatever the reason, asking again at once would not help.
            self._failures += 1
            # A node that passes rows on answers once it knows where its own reader is, which is soon.
            between_nodes = unanswered and isinstance(self._spool, Reading)
            failures = min(self._failures, UNANSWERED_MAX) if between_nodes else self._failures
            self._not_before = now + self._pacing.backoff_s(failures, self._rng)
            self._next_poll = min(self._next_poll, self._not_before) if between_nodes else self._next_poll
        elif not failing:
            self._failures = 0
            self._widen(well=True)
        self._answers(frames)
        self._downlink(frames, now)

    def _ask_again(self, outstanding: Outstanding, frames: list[Frame]) -> None:
        """The gateway says nothing of an edge that this node carries when another one should, as far as it knows. Both
        hear of it soon; until then it is asked with every exchange, and what this device says itself does not wait."""
        told = {frame.edge for frame in frames if frame.type is FrameType.RECEIPT}
        for number in {frame.edge for frame, _ in outstanding.numbered} - told:
            edge = self._edges.get(number)
            if edge is not None and edge.store is not self._spool:
                edge.met, edge.waiting_since = False, None

    def _answers(self, frames: list[Frame]) -> None:
        for frame in frames:
            if frame.type is FrameType.EXTEND:
                self._events.append(Extended(Extend.of(frame)))
            elif frame.type is FrameType.BITMAP:
                self._events.append(BitmapArrived(Bitmap.of(frame)))

    def _refused_inside(self, refusal: Refusal, outstanding: Outstanding, now: float) -> None:
        """The session stands, the exchange was refused: find out what in it was wrong."""
        if refusal.code == OVERTAKEN:  # nothing is: it comes again, and with nothing behind it that could come first
            self.fail(now, refusal.code)
            self._failures, self._not_before = 0, now
            return
        if refusal.code == "sync-undeclared":
            self._composer.declared.clear()
        if refusal.code == "message-length":  # an older gateway takes no signatures of nodes over a query's batches
            for edge in self._edges.values():
                edge.run = None if edge.run is not None and edge.run.of_query else edge.run
        if refusal.code in POISON:
            if self._composer.one_at_a_time and len(outstanding.numbered) == 1:
                self._quarantine(outstanding.numbered[0][0], now)
            self._composer.one_at_a_time = True
            for edge in self._edges.values():
                if isinstance(edge.store, Reading):
                    edge.store.merge(edge.number, None)  # joined with others, those would be given up as well
        self._refused(refusal, now)

    def _quarantine(self, frame: Frame, now: float) -> None:
        edge = self._edges.get(frame.edge)
        if edge is None:
            return
        first = next(iter(edge.store.pending(frame.edge)), None)
        if isinstance(first, DataEntry) and first.lo == frame.seq:
            edge.store.give_up(frame.edge, first.lo, first.hi, Reason.QUARANTINED)
            if self._unsynced_since is None:
                self._unsynced_since = now

    def _acknowledge(self, outstanding: Outstanding) -> None:
        self._composer.declared.update(outstanding.declared)
        if outstanding.status is not None:
            self._status_sent = outstanding.status
        self._receipt_sent = outstanding.results_through
        for number, frontier_us in outstanding.frontiers.items():
            self._edges[number].frontier_sent_us = frontier_us

    def _receipts(self, receipts: list[Receipt | PeerReceipt], outstanding: Outstanding, now: float) -> None:
        for receipt in receipts:
            self._receipt(receipt, outstanding)
        sent = {frame.edge: frame.seq + frame.count for frame, _ in outstanding.numbered} | outstanding.reached
        for edge in self._edges.values():
            first = next(iter(edge.store.pending(edge.number)), None)
            # A backlog goes on at once, and so does what was sent but not taken; newer entries wait their turn.
            goes_on = first is not None and (edge.number in outstanding.left or first.lo < sent.get(edge.number, 0))
            goes_on = goes_on and edge.credit != 0  # its reader has no room: ask again at the next poll
            answered = edge.met or edge.store is self._spool  # else it is asked again at the next poll, too
            if answered and (goes_on or (edge.number in outstanding.asked and self._has_more(edge))):
                edge.waiting_since = now - self._patience_s(edge)
            elif _has_all(edge):
                edge.waiting_since, edge.waiting_rows, edge.waiting_bytes = None, 0, 0  # it came another way

    def _receipt(self, receipt: Receipt | PeerReceipt, outstanding: Outstanding) -> None:
        edge = self._edges.get(receipt.edge)
        if edge is None or (receipt.device, receipt.incarnation) != (edge.origin, edge.incarnation):
            return
        if isinstance(edge.store, Reading):
            self._reader_receipt(receipt, edge, edge.store, outstanding)
            return
        if isinstance(receipt, PeerReceipt):
            raise PeerError("a node's receipt for an edge that the gateway reads", code="sync-direction")
        most = edge.store.head(edge.number) if edge.met else edge.reach
        if receipt.through > most:
            # The gateway has numbers this spool never gave: it was restored from an older copy. Going on would
            # give new elements the numbers of old ones.
            raise PeerError(
                f"the gateway has edge {edge.name!r} up to {receipt.through}, this spool only numbered up to "
                f"{most}; it lost its memory, pair the device again",
                code="sync-sequence-behind",
            )
        if not edge.met:
            edge.met = True
            self._persist.append(StoreContact(edge.number))
        if edge.run is not None:
            edge.run.advance([sent for sent in outstanding.numbered if sent[0].edge == edge.number], receipt.through)
        if receipt.through:
            edge.store.trim(edge.number, receipt.through)
        self._composer.forgotten.pop(edge.number, None)
        if receipt.through < edge.acknowledged:
            # Acknowledged once and gone here: only a gateway that lost its log asks for it. Say so in the ledger,
            # or the edge would wait for it forever.
            self._composer.forgotten[edge.number] = (receipt.through, edge.acknowledged)
            text = f"the gateway lost [{receipt.through}, {edge.acknowledged}) of {edge.name!r}"
            self._events.append(Refused("sync-gateway-forgot", text))
        edge.acknowledged = max(edge.acknowledged, receipt.through)
        self._events.append(ReceiptReceived(edge.number, receipt.through))

    def _reader_receipt(
        self, told: Receipt | PeerReceipt, edge: OutgoingEdge, reading: Reading, outstanding: Outstanding
    ) -> None:
        """Who reads an edge of the outbox says where it goes on, and what it will not ask for again. The gateway never
        asks again for what it has, and has room."""
        receipt = told if isinstance(told, PeerReceipt) else PeerReceipt(
            told.device, told.incarnation, told.edge, told.through, told.through, 0, 0, 0
        )  # fmt: skip
        overtaken = edge.met and receipt.term == edge.reader_term and receipt.taken < reading.taken.get(edge.number, 0)
        if overtaken and told is receipt:  # by a newer one; of the gateway there is one at a time: it lost its log
            return
        if not edge.term and receipt.taken > reading.head(edge.number):
            raise PeerError(
                f"edge {edge.name!r} was taken up to {receipt.taken}, here are numbers up to "
                f"{reading.head(edge.number)} only; this node lost its memory, pair it again",
                code="sync-sequence-behind",
            )
        if edge.run is not None:
            edge.run.advance([sent for sent in outstanding.numbered if sent[0].edge == edge.number], receipt.taken)
        restored = not edge.met or receipt.term != edge.reader_term  # or it is a reader that moved here
        edge.met, edge.reader_term, edge.credit = True, receipt.term, receipt.credit if told is receipt else None
        reading.go_on(edge.number, receipt.taken)
        # Else one that reads there by now has not spoken yet.
        if speaks_for(edge.read, receipt.term, receipt.readers, receipt.carried):
            reading.trim(edge.number, receipt.through)
        answered = [mark for mark in outstanding.marks if mark.edge == edge.number and mark.position <= receipt.taken]
        edge.marks = [mark for mark in edge.marks if mark not in answered]
        _, buried = self._composer.forgotten.pop(edge.number, (0, 0))
        gone = reading.gone(edge.number, receipt.taken)
        if receipt.taken < gone:
            self._composer.forgotten[edge.number] = (receipt.taken, gone)
        edge.acknowledged = receipt.taken
        self._events.append(ReceiptReceived(edge.number, receipt.through, receipt.load))
        if restored or receipt.taken < max(buried, outstanding.reached.get(edge.number, 0)):
            edge.frontier_sent_us = NO_FRONTIER  # it stood behind what was not taken
            self._draining = bool(self._under_way)
            self._widen(well=False)
        if restored:
            self._events.append(ReaderRestored(edge.number, receipt.term))

    def _downlink(self, frames: list[Frame], now: float) -> None:
        results: list[Result] = []
        for frame in frames:
            if frame.type is FrameType.RESULT and frame.seq > self._results_through:
                result = Result.of(frame)
                results.append(result)
                self._results_through = result.seq
                self._events.append(ResultArrived(result))
            elif frame.type is FrameType.PLAN and frame.seq > self._plan_version:
                self._plan(PlanMessage.of(frame))
            elif frame.type is FrameType.WITHHELD and frame.seq > self._plan_version:
                self._events.append(PlanWasWithheld(PlanWithheld.of(frame)))
            elif frame.type is FrameType.DEPLOYMENT:
                self._deployment(frame)
            elif frame.type is FrameType.HINT:
                self._hint(Hint.of(frame))
            elif frame.type is FrameType.PASS:
                self._events.append(PassArrived(PassMessage.of(frame)))
        if results:
            self._persist.append(StoreResults(self._results_through, tuple(results)))
            self._next_poll = now  # tell the gateway, and ask for more

    def _deployment(self, frame: Frame) -> None:
        """The host stores it: the next STATUS says that it follows it."""
        try:
            packed = frame.codec == PACKED
            message = PackedDeployment.of(frame).whole(self._follows) if packed else DeploymentMessage.of(frame)
        except PeerError as error:  # what else the exchange says is good, and a whole one follows
            self._events.append(Refused(error.code, error.message))
            return
        signed = DeploymentMessage.signed(message.lease, message.version, message.deployment)
        if message.deployment and not self._session.keys.verify_gateway(signed, message.signature):
            raise PeerError("the deployment is not signed by this node's coordinator", code="sync-deployment-signature")
        self._events.append(DeploymentArrived(message))

    def _hint(self, hint: Hint) -> None:
        signed = Hint.signed(self._session.device, hint.moves)
        if hint.moves and not self._session.keys.verify_gateway(signed, hint.signature):
            raise PeerError("a request to move is not signed by this device's gateway", code="sync-move-signature")
        self._events.append(HintArrived(hint))

    def _plan(self, message: PlanMessage) -> None:
        if not self._session.keys.verify_gateway(PlanMessage.signed(message.version, message.plan), message.signature):
            raise PeerError("the plan is not signed by this device's gateway", code="sync-plan-signature")
        self._plan_version = message.version
        self._persist.append(StorePlan(message.version, message.plan))
        self._events.append(PlanArrived(message.version, message.plan))


def _waits(edge: OutgoingEdge) -> bool:
    """Whether what is next on an edge comes to its reader another way."""
    return isinstance(edge.store, Reading) and edge.store.waits(edge.number)


def _has_all(edge: OutgoingEdge) -> bool:
    """Whether a node that reads an edge has taken everything, and has been told what stands behind it."""
    told = not edge.marks and edge.frontier_us <= edge.frontier_sent_us
    store = edge.store
    return told and isinstance(store, Reading) and store.taken.get(edge.number) == store.head(edge.number)
