"""When to snapshot a vertex, when that is permanent, what its neighbours may forget: one machine for all rows.

There is one `Checkpoints` per running vertex (the paper's pending checkpoint log). It knows positions, never bytes
of state, and does no IO. Whoever runs the vertex, the *driver*, asks it and does what it answers.

**Words.** An edge carries numbered elements; a position p stands for "everything below p". The *head* of an output
is the position after what the vertex has produced on it. `through` is what a reader's receipt says: the position up
to which it will never ask again. A snapshot is *pending* from its freeze until its keepers have it, then
*permanent*; only the newest permanent one is kept. A vertex that restarts knows its permanent snapshot and nothing
else.

**How a driver uses it.**

* `elements(count, edge=, size=)` after every batch it took from an input (a source: produced). A Freeze in answer
  means: snapshot now.
* `mark(edge, mark)` when a mark has its turn: after all elements below its position. The answer is `Freeze`
  (snapshot now), `Extend` (send it back on the reply that took the mark), `Hold` (take nothing more from this edge
  until the freeze of its id, or a mark of a later one; then all edges that were held for it go on) or `Covered`
  (nothing). A mark that comes again is answered again.
* `hand_over()` when the vertex shall move: a Freeze in answer, whatever the row. That snapshot takes along all that
  the outputs retain and waits for no reader; until `keep_on()` nothing that came behind it is given up upstream.
* `request(id)` at sources when a coordinator wants a snapshot; a Freeze as above.
* `froze(id, inputs, outputs, size)` right after a Freeze, before anything else is asked: the positions taken from
  every input and the head of every output at that moment. It returns the marks to send, in their place among the
  elements. Keep the frozen state under its id while the id is in `pending`.
* `receipt(edge, through, load)` and `extended(edge, id, wait)` when a reader's answer came. Where an output has
  several readers, `through` is the least of them and `load` their sum; an Extend of any of them counts.
* `events()` afterwards. `Store(id, extension, recorded)`: send that snapshot to its keepers, together with the named
  ranges of the outputs' spools (copy them at once: a later receipt trims them) and of recorded inputs. When all
  keepers have it: `stored(id)`. `Permanent` follows, and `through(edge)` has risen: answer it upstream. Under a row
  that commits by region `region_complete(id)` comes between. Where they can never have it: `unstorable(id)`.
* `marks_to_send(edge)` when a reader's term changed: it has forgotten what was pending, so the marks go again.
* `Checkpoints(..., permanent=p)` when the vertex starts from snapshot p. Its outputs begin again at `p.heads`; their
  spools hold the ranges [p.starts[e], p.heads[e]) that were stored with it.

**Why nothing is lost.** On every edge x -> y: y's through never passes what y's permanent snapshot has taken, and
x's permanent snapshot can produce or still has everything from its `starts` on, which is at most that. So any set of
vertices may go back to their permanent snapshots, and every reader finds what it lacks. Where only sources keep
elements (`keep` SOURCES) nobody goes back alone: all take the same cut, at which every edge is empty or recorded, and
inner edges are given up as they are taken. A snapshot is stored when
each reader's permanent snapshot has all that was sent before the freeze (`commit` READERS), or when it takes along
what they lack (STATE_AND_TRANSFER, and extensions).

**Why nobody waits for ever.** An instance freezes once for an id. A snapshot waits only for snapshots of readers
that took its mark. Without cycles that order ends at the sinks. On a cycle the answer to an id that is already
pending waits for nothing but what is permanent, and an extension for the sake of cost is to an older id only.
`tests/shared/recovery/test_small_graphs.py` tries every schedule on every small graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from shared.errors import BrokenInvariant, UsageError
from shared.recovery.marks import Answer, Covered, Extend, Freeze, Hold, Mark, MarkId
from shared.recovery.strategies.row import Align, Commit, Include, Keep, Row, Trigger
from shared.recovery.strategies.strategy import Strategy

__all__ = [
    "Answer", "Checkpoints", "Covered", "Event", "Extend", "Freeze", "Hold", "Mark", "MarkId", "Pending", "Permanent",
    "Store",
]  # fmt: skip

MOST_PENDING = 8  # of them a vertex begins no more by itself: while a reader is away, states would pile up in memory
NEVER = 1 << 62  # elements
MOST_INITIATORS = 1024  # whose last id is remembered; a restarted initiator is a new one
SMOOTHING = 4  # a new snapshot's size moves the average by one part in so many

Range: TypeAlias = tuple[int, int]  # positions [lo, hi)


@dataclass(slots=True)
class Pending:
    """A snapshot that is frozen and not permanent."""

    id: MarkId
    inputs: Mapping[str, int]  # taken from every input
    heads: Mapping[str, int]  # produced on every output
    received: Mapping[str, int]  # bytes taken from every input since the vertex started
    waits: dict[str, int] = field(default_factory=dict)  # output -> the least that readers ask to wait for
    recording: set[str] = field(default_factory=set)  # inputs whose elements belong to it until their mark comes
    recorded: dict[str, Range] = field(default_factory=dict)
    starts: Mapping[str, int] = field(default_factory=dict)  # of what is stored with it, from then on
    in_store: bool = False  # its keepers have it; the region has not said that it is complete
    alone: bool = False  # it is complete by itself: with what the outputs retain, no reader need follow


@dataclass(frozen=True, slots=True)
class Store:
    """Send the frozen state of this id to the keepers, with these ranges of its outputs and inputs."""

    id: MarkId
    extension: Mapping[str, Range]
    recorded: Mapping[str, Range]


@dataclass(frozen=True, slots=True)
class Permanent:
    """The snapshot that a restart begins with: the vertex's time context. Stored beside its state."""

    id: MarkId | None  # None: the vertex starts from nothing
    inputs: Mapping[str, int]
    heads: Mapping[str, int]
    starts: Mapping[str, int]  # output -> where its stored range begins; the head when nothing was stored with it
    recorded: Mapping[str, Range] = field(default_factory=dict)


Event: TypeAlias = Store | Permanent


class Checkpoints:
    """One running vertex's snapshots under one row."""

    def __init__(
        self,
        row: Row,
        inputs: Sequence[str],
        outputs: Sequence[str],
        back: frozenset[str],
        every: int,
        *,
        name: str,
        random: Random,
        term: int = 0,
        permanent: Permanent | None = None,
        source: bool | None = None,
        initiator: str = "",
        void: int = 0,
    ) -> None:
        """`back` are the edges that lie on a cycle, `every` is c in elements. `outputs` are those to other vertices:
        what leaves the plan is not waited for. `initiator` is how all nodes write this instance in ids, where that is
        not its name and term. `source`: whether this vertex begins snapshots that others follow; if
        not said, one without inputs does. `void`: marks up to this number are of snapshots that were completed or given
        up before it began."""
        if row.align is Align.EPOCH or row.commit is Commit.STABLE:
            raise UsageError(f"strategy {row.name} is for a job's vertices, not for nodes", code="strategy-needs-job")
        if row.commit is Commit.READERS and not row.extends and back & {*inputs, *outputs}:
            raise UsageError(
                f"strategy {row.name} would wait for ever: {min(back & {*inputs, *outputs})!r} lies on a cycle",
                code="strategy-needs-acyclic",
            )
        self.row = row
        self._strategy = Strategy(row)
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.back = back
        self.permanent = permanent or Permanent(
            None, dict.fromkeys(inputs, 0), dict.fromkeys(outputs, 0), dict.fromkeys(outputs, 0)
        )
        self._initiator = initiator or f"{name}@{term}"
        self._random = random
        self._every = max(1, every)
        self._begins = row.trigger in {Trigger.EVERY, Trigger.JITTERED} and (
            row.commit is Commit.AT_ONCE or (not inputs if source is None else source)
        )
        self._since = 0  # elements since the last snapshot that this vertex began
        self._goal = self._next_goal()
        self._greatest = self.permanent.id.number if self.permanent.id else 0
        self.void = self.aligned = void  # `aligned`: the greatest number of a mark so far
        self.stored_cut = 0  # the greatest number that its keepers have, of a cut through a region
        self._done: dict[str, int] = {}  # initiator -> greatest number whose snapshot was made permanent or passed over
        self._pending: list[Pending] = []  # in the order of their freezes
        self._storing: Pending | None = None
        self._freezing: Freeze | None = None
        self._handing: MarkId | None = None  # the snapshot that is handed over
        self._held: Mapping[str, int] | None = None  # where that stands: a row without snapshots keeps from there on
        self._arrived: dict[MarkId, set[str]] = {}  # where marks are aligned: inputs whose mark came
        self._taken = dict(self.permanent.inputs)
        self._received = dict.fromkeys(inputs, 0)
        self._through = dict(self.permanent.starts)
        self._own_load = 0.0
        self._load_of: dict[str, int] = {}
        self._events: list[Event] = []

    # What the driver tells.

    def elements(self, count: int, *, edge: str | None = None, size: int = 0) -> Freeze | None:
        """So many elements, of so many bytes, were taken from an input (without an edge: produced by a source)."""
        self._in_turn()
        if edge is not None:
            self._taken[edge] += count
            self._received[edge] += size
        if not self._begins:
            return None
        self._since += count
        if self._since < self._goal or not self.may_begin:
            return None
        self._since, self._goal = 0, self._next_goal()
        return self._begin(Freeze(self.own_id()))

    def request(self, id: MarkId) -> Freeze | None:
        """A coordinator wants a snapshot to begin here; asked again, nothing happens."""
        self._in_turn()
        self._greatest = max(self._greatest, id.number)
        return self._begin(Freeze(id, self.unmarked(id))) if self.is_new(id) else None

    def hand_over(self) -> Freeze:
        """The vertex shall go on elsewhere, from a snapshot taken now."""
        self._in_turn()
        freeze = self._begin(Freeze(self.own_id()))
        self._handing = freeze.id
        return freeze

    def keep_on(self) -> None:
        """It stays here after all."""
        self._handing = self._held = None

    def mark(self, edge: str, mark: Mark) -> Answer:
        """A mark has its turn on this input."""
        self._in_turn()
        self._greatest = max(self._greatest, mark.id.number)
        if self.row.align is not Align.NONE:
            self._note(edge, mark)
        answer = self._strategy.answer(mark, edge, self)
        self.aligned = max(self.aligned, mark.id.number)
        return self._begin(answer) if isinstance(answer, Freeze) else answer

    def froze(
        self, id: MarkId, inputs: Mapping[str, int], outputs: Mapping[str, int], size: int
    ) -> list[tuple[str, Mark]]:
        """The snapshot was taken at these positions and has so many bytes. Returns the marks to send now."""
        freeze = self._freezing
        if freeze is None or freeze.id != id:
            raise BrokenInvariant(f"nobody asked for snapshot {id}", code="checkpoint-turn")
        if any(inputs[edge] < self.permanent.inputs[edge] for edge in self.inputs):
            raise BrokenInvariant(f"snapshot {id} has taken less than the permanent one", code="checkpoint-position")
        self._freezing = None
        self._own_load += (size - self._own_load) / (SMOOTHING if self._own_load else 1)
        alone = id == self._handing
        if alone:
            self._held = dict(inputs)
        self._pending.append(
            Pending(id, dict(inputs), dict(outputs), dict(self._received), recording=set(freeze.record), alone=alone)
        )
        if not alone:
            self._arrived = {other: edges for other, edges in self._arrived.items() if other > id}
        self._settle()
        if alone or self.row.commit is Commit.AT_ONCE:
            return []
        return [(edge, Mark(id, outputs[edge])) for edge in self.outputs]

    def receipt(self, edge: str, through: int, load: int = 0) -> None:
        """The readers of an output have permanent snapshots of everything below `through`."""
        self._through[edge] = max(self._through[edge], through)
        self._load_of[edge] = load
        self._settle()

    def extended(self, edge: str, id: MarkId, wait: int) -> None:
        """A reader asks to extend. For a snapshot that is no longer pending it comes too late, and is not needed."""
        pending = self.find(id)
        if pending is not None:
            pending.waits[edge] = min(wait, pending.waits.get(edge, wait))
            self._settle()

    def stored(self, id: MarkId) -> None:
        """All keepers have it. Said again, nothing happens."""
        pending = self._storing
        if pending is None or pending.id != id:
            return
        self._storing = None
        pending.in_store = True
        if pending.alone or self.row.commit is not Commit.REGION:
            self._make_permanent(pending)
        else:
            self.stored_cut = max(self.stored_cut, id.number)
        self._settle()

    def unstorable(self, id: MarkId) -> None:
        """Its keepers cannot be given it. The permanent one stays as it is, until a later one can be stored."""
        pending = self._storing
        if pending is None or pending.id != id:
            return
        self._storing = None
        self._pending.remove(pending)
        self._done[id.initiator] = max(self._done.pop(id.initiator, 0), id.number)
        self._settle()

    def region_complete(self, id: MarkId) -> None:
        """Everybody in the region has stored this id."""
        pending = self.find(id)
        if pending is not None and pending.in_store:
            self._make_permanent(pending)
            self._settle()

    def events(self) -> list[Event]:
        """What became possible since the last call, in order."""
        events, self._events = self._events, []
        return events

    # What the driver asks.

    @property
    def pending(self) -> tuple[MarkId, ...]:
        """Ids whose frozen state must be kept, oldest first."""
        return tuple(pending.id for pending in self._pending)

    @property
    def may_begin(self) -> bool:
        """Whether so few are pending that this vertex may begin another one."""
        return len(self._pending) < MOST_PENDING

    @property
    def elements_left(self) -> int:
        """After so many more elements this vertex begins a snapshot, if it ever does."""
        return max(1, self._goal - self._since) if self._begins else NEVER

    @property
    def load(self) -> int:
        """What one more coordinated snapshot costs in bytes, here and downstream: goes upstream on receipts. Edges on a
        cycle are left out, else the number would grow each time round."""
        downstream = sum(load for edge, load in self._load_of.items() if edge not in self.back)
        return round(self._own_load) + downstream

    def through(self, edge: str) -> int:
        """What to answer upstream: nothing below it will be asked for again."""
        if self.row.include is not Include.NOTHING and self.row.keep is not Keep.SOURCES:
            return self.permanent.inputs[edge]
        return self._taken[edge] if self._held is None else self._held[edge]

    def marks_to_send(self, edge: str) -> list[Mark]:
        """The marks that a reader of this output must get when it is new, in order."""
        if self.row.commit is Commit.AT_ONCE:
            return []
        return [
            Mark(pending.id, pending.heads[edge])
            for pending in self._pending
            if not pending.alone and pending is not self._storing and not self._is_acknowledged(pending, edge)
        ]

    # What an answer to a mark is decided by.

    def find(self, id: MarkId) -> Pending | None:
        return next((pending for pending in self._pending if pending.id == id), None)

    def is_new(self, id: MarkId) -> bool:
        """Whether this instance has not frozen for the id, nor for a later one of the same initiator."""
        return self.find(id) is None and id.number > self._done.get(id.initiator, 0)

    def own_id(self) -> MarkId:
        return MarkId(self._greatest + 1, self._initiator)

    def covers(self, edge: str, position: int) -> bool:
        """Whether a snapshot that is there has taken everything below the position."""
        taken = [self.permanent.inputs[edge], *(pending.inputs[edge] for pending in self._pending)]
        return max(taken) >= position

    def newest_before(self, id: MarkId) -> Pending | None:
        """The newest pending snapshot of a smaller id."""
        return next((pending for pending in reversed(self._pending) if pending.id < id), None)

    def bytes_since(self, pending: Pending, edge: str) -> int:
        return self._received[edge] - pending.received[edge]

    def awaited(self, id: MarkId) -> bool:
        """Whether an edge that may be held still lacks its mark."""
        held = self.inputs if self.row.align is Align.BLOCK else ()
        return bool({edge for edge in held if edge not in self.back} - self._arrived.get(id, set()))

    def unmarked(self, id: MarkId) -> tuple[str, ...]:
        """Inputs whose mark is still to come."""
        return tuple(edge for edge in self.inputs if edge not in self._arrived.get(id, ()))

    # Inside.

    def _next_goal(self) -> int:
        if self.row.trigger is not Trigger.JITTERED:
            return self._every
        return self._random.randint(-(-self._every // 2), max(1, 3 * self._every // 2))

    def _in_turn(self) -> None:
        if self._freezing is not None:
            raise BrokenInvariant(f"snapshot {self._freezing.id} was asked for and not taken", code="checkpoint-turn")

    def _begin(self, freeze: Freeze) -> Freeze:
        self._greatest = max(self._greatest, freeze.id.number)
        self._freezing = freeze
        return freeze

    def _note(self, edge: str, mark: Mark) -> None:
        """A mark among those that are aligned: it ends the recording of its edge, or counts as arrived."""
        pending = self.find(mark.id)
        if pending is None:
            # Of two, the later one counts: whoever asked for it has given the other up.
            self._arrived = {id: edges for id, edges in self._arrived.items() if id >= mark.id}
            self._arrived.setdefault(mark.id, set()).add(edge)
        elif edge in pending.recording:
            pending.recording.remove(edge)
            pending.recorded[edge] = (pending.inputs[edge], mark.position)
            self._settle()

    def _is_acknowledged(self, pending: Pending, edge: str) -> bool:
        head = pending.heads[edge]
        return self._through[edge] >= min(head, pending.waits.get(edge, head))

    def _may_be_stored(self, pending: Pending) -> bool:
        if self.row.commit is Commit.READERS and not pending.alone:
            return all(self._is_acknowledged(pending, edge) for edge in self.outputs)
        return not pending.recording and not pending.in_store

    def _settle(self) -> None:
        """Store the newest snapshot that may be; the older ones have nothing that it lacks."""
        if self._storing is not None:
            return
        pending = next((each for each in reversed(self._pending) if self._may_be_stored(each)), None)
        if pending is not None:
            self._storing = pending
            pending.starts = self._starts(pending)
            extension = {
                edge: (start, pending.heads[edge])
                for edge, start in pending.starts.items()
                if start < pending.heads[edge]
            }
            self._events.append(Store(pending.id, extension, dict(pending.recorded)))

    def _starts(self, pending: Pending) -> dict[str, int]:
        """Where the stored range of each output begins: at what its readers will never ask for again."""
        if pending.alone or self.row.extends or self.row.include is Include.STATE_AND_TRANSFER:
            return {edge: min(self._through[edge], head) for edge, head in pending.heads.items()}
        return dict(pending.heads)

    def _make_permanent(self, pending: Pending) -> None:
        place = self._pending.index(pending)
        for passed in self._pending[: place + 1]:
            number = self._done.pop(passed.id.initiator, 0)
            self._done[passed.id.initiator] = max(number, passed.id.number)
        while len(self._done) > MOST_INITIATORS:
            del self._done[next(iter(self._done))]
        del self._pending[: place + 1]
        self.permanent = Permanent(pending.id, pending.inputs, pending.heads, pending.starts, dict(pending.recorded))
        self._events.append(self.permanent)
