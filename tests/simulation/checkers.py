"""Independent observers. Each watches one promise after every event and knows nothing of how it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.identity import EdgeKey, edge_id
from shared.spool.entry import DataEntry
from shared.sync.exchange import StatusReceived
from shared.sync.ranges import RangeSet
from shared.sync.receiver import ExchangeApplied
from shared.wire.frame import FrameType
from tests.simulation.facts import EdgeFacts, Logged

if TYPE_CHECKING:
    from tests.simulation.phone import SimulatedPhone
    from tests.simulation.world import World


class Violation(Exception):
    """A promise was broken; the name says which."""

    def __init__(self, checker: str, text: str) -> None:
        super().__init__(f"{checker}: {text}")
        self.checker = checker
        self.text = text


class Checker:
    """Override what there is to see."""

    def fail(self, text: str) -> None:
        raise Violation(type(self).__name__, text)

    def logged(self, key: EdgeKey, facts: EdgeFacts, record: Logged) -> None:
        """A numbered record became durable in the log; `facts.logged` does not hold it yet."""

    def log_read(self, world: World, before: dict[EdgeKey, list[Logged]]) -> None:
        """The log was opened anew and read whole; `before` is what it was known to hold."""

    def observed(self, event: object) -> None:
        """The receiver reported something."""

    def phone_changed(self, world: World, phone: SimulatedPhone) -> None:
        """A phone that is up may have changed."""

    def finished(self, world: World) -> None:
        """Everything healed and nothing moves any more."""


class AcknowledgedIsDurable(Checker):
    """What a phone was told is durable is in the log, also after the log was read again from the disk."""

    def log_read(self, world: World, before: dict[EdgeKey, list[Logged]]) -> None:
        for key, facts in world.facts.edges.items():
            self._check(key, facts)

    def phone_changed(self, world: World, phone: SimulatedPhone) -> None:
        for key in phone.keys_of_edges:
            self._check(key, world.facts.edge(key))

    def _check(self, key: EdgeKey, facts: EdgeFacts) -> None:
        mark = facts.logged[-1].hi if facts.logged else 0
        if facts.acknowledged > mark:
            self.fail(f"edge {key.edge % 1000}: acknowledged {facts.acknowledged}, the log has {mark}")


class CommittedIsDurable(Checker):
    """What the log called committed is there, unchanged, when it is read again."""

    def log_read(self, world: World, before: dict[EdgeKey, list[Logged]]) -> None:
        for key, records in before.items():
            now = world.facts.edge(key).logged
            if now[: len(records)] != records:
                self.fail(f"edge {key.edge % 1000}: {len(records)} records were committed, {len(now)} are there")


class NoElementTwice(Checker):
    """Each sequence number is in the log at most once: a set is not enough, multiplicity counts."""

    def __init__(self) -> None:
        self._seen: dict[EdgeKey, RangeSet] = {}

    def log_read(self, world: World, before: dict[EdgeKey, list[Logged]]) -> None:
        self._seen = {}
        for key, facts in world.facts.edges.items():
            for record in facts.logged:
                self.logged(key, facts, record)

    def logged(self, key: EdgeKey, facts: EdgeFacts, record: Logged) -> None:
        if self._seen.setdefault(key, RangeSet()).add(record.lo, record.hi) != record.hi - record.lo:
            self.fail(f"edge {key.edge % 1000}: an element of [{record.lo}, {record.hi}) is in the log already")


class OrderWithinEdge(Checker):
    """Elements of an edge are in the log in ascending order and without a gap."""

    def logged(self, key: EdgeKey, facts: EdgeFacts, record: Logged) -> None:
        mark = facts.logged[-1].hi if facts.logged else 0
        if record.lo != mark:
            self.fail(f"edge {key.edge % 1000}: [{record.lo}, {record.hi}) follows {mark}")


class DeliveredAsProduced(Checker):
    """A number in the log means the element that first durably had it, bit for bit, in the same batch."""

    def logged(self, key: EdgeKey, facts: EdgeFacts, record: Logged) -> None:
        if record.kind is not FrameType.DATA:
            return
        produced = facts.produced.get(record.lo) or facts.tentative.get(record.lo)
        if produced != (record.hi, record.columns):
            self.fail(f"edge {key.edge % 1000}: [{record.lo}, {record.hi}) is not what was produced under that number")


class ConservationOfElements(Checker):
    """produced = delivered + spooled + ledgered, on sets: every number has a disposition."""

    def phone_changed(self, world: World, phone: SimulatedPhone) -> None:
        if not phone.spool.dirty:
            self._check(world, phone)

    def finished(self, world: World) -> None:
        for phone in world.phones:
            phone.spool.sync()
            self._check(world, phone)

    def _check(self, world: World, phone: SimulatedPhone) -> None:
        for name, key in zip(phone.edge_names, phone.keys_of_edges, strict=True):
            edge, facts = key.edge, world.facts.edge(key)
            covered = (
                facts.logged[-1].hi if facts.logged else 0
            )  # OrderWithinEdge: [0, covered) is delivered or ledgered
            for entry in phone.spool.pending(edge):
                if entry.hi <= covered:
                    continue
                if entry.lo > covered:
                    self.fail(f"{phone.name} {name}: [{covered}, {entry.lo}) is neither in the log nor in the spool")
                covered = entry.hi
            if covered < facts.head:
                self.fail(f"{phone.name} {name}: [{covered}, {facts.head}) is neither in the log nor in the spool")


class LossIsDeclared(Checker):
    """What is given up is in the ledger with its reason, and nothing is called lost that was not given up."""

    def finished(self, world: World) -> None:
        for phone in world.phones:
            declared: dict[int, RangeSet] = {}
            for given_up in phone.spool.ledger:
                declared.setdefault(given_up.edge, RangeSet()).add(given_up.lo, given_up.hi)
            for name, key in zip(phone.edge_names, phone.keys_of_edges, strict=True):
                edge, facts = key.edge, world.facts.edge(key)
                for record in facts.logged:
                    if record.kind is FrameType.TOMBSTONE and not declared.get(edge, RangeSet()).covers(
                        record.lo, record.hi
                    ):
                        self.fail(f"{phone.name} {name}: [{record.lo}, {record.hi}) {record.reason} is in no ledger")
                delivered = {record.lo for record in facts.logged if record.kind is FrameType.DATA}
                for lo, (hi, _) in facts.produced.items():
                    if lo not in delivered and not declared.get(edge, RangeSet()).covers(lo, hi):
                        self.fail(f"{phone.name} {name}: [{lo}, {hi}) was not delivered and is in no ledger")


class SequenceNeverReset(Checker):
    """A number that was durable once is never given again."""

    def phone_changed(self, world: World, phone: SimulatedPhone) -> None:
        for name, key in zip(phone.edge_names, phone.keys_of_edges, strict=True):
            edge, facts = key.edge, world.facts.edge(key)
            head = phone.spool.head(edge)
            mark = facts.logged[-1].hi if facts.logged else 0
            if head < max(facts.head, mark):
                self.fail(f"{phone.name} {name}: next number {head}, but {max(facts.head, mark)} were given")


class SpoolWithinBound(Checker):
    """The spool never takes more than its capacity, nor more of the disk than it reserved at the start."""

    def __init__(self) -> None:
        self._reserved: dict[int, int] = {}

    def phone_changed(self, world: World, phone: SimulatedPhone) -> None:
        used = phone.spool._contents.used_bytes  # statistics() counts everything anew, here it runs after every event
        if used > phone.settings.capacity_bytes:
            self.fail(f"{phone.name}: {used} bytes in a spool of {phone.settings.capacity_bytes}")
        size = phone.disk.open("spool").size()
        if size != self._reserved.setdefault(phone.number, size):
            self.fail(f"{phone.name}: the spool grew from {self._reserved[phone.number]} to {size} bytes of disk")


class ResultAppliedOnce(Checker):
    """A phone's durable results are those of its downlink, each once, in order."""

    def phone_changed(self, world: World, phone: SimulatedPhone) -> None:
        applied = phone.store.applied
        if applied != list(range(1, len(applied) + 1)):
            self.fail(f"{phone.name} applied {applied[-12:]}")


class PlanNeverGoesBack(Checker):
    def __init__(self) -> None:
        self._plans: dict[tuple[int, int], int] = {}

    def phone_changed(self, world: World, phone: SimulatedPhone) -> None:
        identity = (phone.number, phone.incarnation)
        before = self._plans.get(identity, -1)
        if phone.store.plan < before:
            self.fail(f"{phone.name} went from plan {before} to {phone.store.plan}")
        self._plans[identity] = phone.store.plan


class ExchangeAppliedOnce(Checker):
    """No exchange is applied twice, whoever repeats it."""

    def __init__(self) -> None:
        self._counters: dict[bytes, int] = {}

    def observed(self, event: object) -> None:
        if isinstance(event, ExchangeApplied):
            if event.counter <= self._counters.get(event.session, 0):
                self.fail(f"exchange {event.counter} of a session was applied after {self._counters[event.session]}")
            self._counters[event.session] = event.counter


class NewestSessionOnly(Checker):
    """Once a device has used a newer session, nothing of an older one is applied."""

    def __init__(self) -> None:
        self._order: dict[tuple[bytes, int], list[bytes]] = {}

    def observed(self, event: object) -> None:
        if isinstance(event, ExchangeApplied):
            order = self._order.setdefault((event.device, event.incarnation), [])
            if event.session not in order:
                order.append(event.session)
            elif order[-1] != event.session:
                self.fail("an exchange of a session that a newer one had replaced was applied")


class StatusNeverGoesBack(Checker):
    """What the fleet page shows of an installation of a device only gets newer."""

    def __init__(self) -> None:
        self._ticks: dict[tuple[bytes, int], int] = {}

    def observed(self, event: object) -> None:
        if isinstance(event, StatusReceived):
            identity = (event.device, event.incarnation)
            tick = event.status.overruns  # the phone counts there how often it spoke
            if tick < self._ticks.get(identity, 0):
                self.fail(f"status {tick} after {self._ticks.get(identity)}")
            self._ticks[identity] = tick


class OpensAfterCrash(Checker):
    """A crash, however the disk treats unsynced writes, never leaves a log or a spool that calls itself damaged.

    There is nothing to watch: the world reports the DamagedData that opening raised under this name.
    """


class ConvergesAfterHeal(Checker):
    """Everything spooled is in the log, and every result on its phone, within a minute of the last fault."""

    WITHIN_S = 60.0

    def overdue(self, world: World) -> None:
        late = []
        for phone in world.phones:
            waiting = {
                name: sum(1 for e in phone.spool.pending(edge_id(name)) if isinstance(e, DataEntry))
                for name in phone.edge_names
            }
            late.append(f"{phone.name} up={phone.up} waiting={waiting} results={phone.store.through}")
        self.fail(f"not drained {self.WITHIN_S:.0f} s after healing: {'; '.join(late)}")


CHECKERS: tuple[type[Checker], ...] = (
    AcknowledgedIsDurable,
    CommittedIsDurable,
    NoElementTwice,
    OrderWithinEdge,
    DeliveredAsProduced,
    SequenceNeverReset,
    ConservationOfElements,
    LossIsDeclared,
    SpoolWithinBound,
    ResultAppliedOnce,
    PlanNeverGoesBack,
    ExchangeAppliedOnce,
    NewestSessionOnly,
    StatusNeverGoesBack,
    OpensAfterCrash,
    ConvergesAfterHeal,
)
