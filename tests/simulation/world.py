"""The whole product in one thread: one event heap, one virtual clock, one seeded Random.

Phones and cloud run the production machines; only clock, network, disk and keys are simulated. After every event
each checker looks. After `duration_s` all faults stop and everything must be drained within a minute.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from shared.errors import DamagedData
from shared.identity import EdgeKey
from shared.spool.evict import Evict
from tests.simulation.checkers import CHECKERS, Checker, ConvergesAfterHeal, OpensAfterCrash, Violation
from tests.simulation.clock import Clock
from tests.simulation.cloud import Cloud
from tests.simulation.facts import Facts, Logged, numbered
from tests.simulation.faults import Fault, draw, inject
from tests.simulation.keys import ToyKeys
from tests.simulation.network import CLEAR, Network, Weather
from tests.simulation.phone import PhoneSettings, SimulatedPhone
from tests.simulation.transcript import Transcript


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that makes a world; a seed draws one, a scenario writes one down."""

    seed: int = 0
    phones: tuple[PhoneSettings, ...] = (PhoneSettings(),)
    duration_s: float = 90.0
    weather: Weather = CLEAR
    faults: tuple[Fault, ...] = ()
    session_lifetime_s: int = 3600


def settings_of(seed: int) -> Settings:
    """The world of a seed."""
    rng = Random(f"settings {seed}")
    phones = tuple(
        PhoneSettings(
            edges=rng.randint(1, 3),
            every_s=rng.choice((0.7, 1.5, 3.0)),
            capacity_bytes=rng.choice((4096, 8192, 32768)),
            evict=rng.choice(tuple(Evict)),
            payload_bytes_max=rng.choice((40, 300, 900)),
            within_s=rng.choice((0.5, 4.0, 10.0)),
        )
        for _ in range(rng.choice((1, 1, 2, 3)))
    )
    duration_s = rng.choice((60.0, 90.0, 150.0))
    weather = Weather(
        delay_s_max=rng.choice((0.05, 0.3, 1.5)),
        loss=rng.choice((0.0, 0.05, 0.3)),
        duplication=rng.choice((0.0, 0.05, 0.1)),
        late=rng.choice((0.0, 0.02, 0.1)),
    )
    faults = draw(rng, duration_s=duration_s, phones=len(phones), count=rng.randint(0, 14))
    return Settings(seed, phones, duration_s, weather, faults, rng.choice((40, 3600)))


@dataclass(slots=True)
class Outcome:
    seed: int
    violation: Violation | None = None
    events: int = 0
    elements: int = 0
    crashes: int = 0
    partitions: int = 0
    duplicates: int = 0
    replays: int = 0
    disk_faults: int = 0
    ledgered: int = 0
    results: int = 0
    drained_s: float = 0.0
    digest: str = ""
    lines: list[str] = field(default_factory=list)


class World:
    def __init__(self, settings: Settings, *, keep: bool = False) -> None:
        self.settings = settings
        self.rng = Random(f"world {settings.seed}")
        self.clock = Clock()
        self.facts = Facts()
        self.transcript = Transcript(keep=keep)
        self.checkers: list[Checker] = [checker() for checker in CHECKERS]
        self.network = Network(self.clock, self.rng, settings.weather)
        known: dict[bytes, bytes] = {}
        gateway_keys = ToyKeys(self.rng, known)
        self.phones: list[SimulatedPhone] = []
        self.cloud = Cloud(
            clock=self.clock, rng=self.rng, facts=self.facts, keys=gateway_keys,
            session_lifetime_s=settings.session_lifetime_s, send=self._down, tell=self.tell, observe=self._observe,
        )  # fmt: skip
        for number, phone_settings in enumerate(settings.phones):
            keys = ToyKeys(self.rng, known, gateway_key=gateway_keys.public_key)
            self.cloud.enrol(keys.public_key)
            phone = SimulatedPhone(
                number, clock=self.clock, rng=self.rng, facts=self.facts, keys=keys, settings=phone_settings,
                send=self._up, tell=self.tell,
            )  # fmt: skip
            self.phones.append(phone)
        for fault in settings.faults:
            self.clock.at(fault.at, inject, self, fault)

    def tell(self, who: str, what: str, details: str) -> None:
        self.transcript.line(self.clock.now, who, what, details)

    def mend(self, phone: int, direction: str) -> None:
        if self.clock.now <= self.settings.duration_s:
            self.network.mend(phone, direction)
            self.tell("network", "mend", f"phone{phone} {direction}")

    # --- running -----------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        outcome = Outcome(self.settings.seed)
        try:
            self._run(outcome)
        except Violation as violation:
            outcome.violation = violation
            self.tell("checker", "VIOLATION", str(violation))
        except DamagedData as error:
            outcome.violation = Violation(OpensAfterCrash.__name__, str(error))
            self.tell("checker", "VIOLATION", str(outcome.violation))
        except Exception as error:  # a machine must not raise, whatever happens around it
            outcome.violation = Violation("NothingBreaks", f"{type(error).__name__}: {error}")
            self.tell("checker", "VIOLATION", str(outcome.violation))
        return self._account(outcome)

    def _run(self, outcome: Outcome) -> None:
        while self.clock.run_one(self.settings.duration_s):
            self._check()
        self._heal()
        healed_at = self.settings.duration_s
        deadline = healed_at + ConvergesAfterHeal.WITHIN_S
        self.clock.at(healed_at, lambda: None)
        while not self._drained():
            if not self.clock.run_one(deadline):
                ConvergesAfterHeal().overdue(self)
            self._check()
        outcome.drained_s = self.clock.now - healed_at
        for checker in self.checkers:
            checker.finished(self)

    def _heal(self) -> None:
        self.clock.now = self.settings.duration_s
        self.tell("world", "heal", "")
        self.network.heal()
        self.cloud.disk.full = self.cloud.disk.sync_fails = False
        self.cloud.disk.disarm()
        self.cloud.start()
        for phone in self.phones:
            phone.sensing = False
            phone.disk.full = phone.disk.sync_fails = False
            phone.disk.disarm()
            phone.thaw()
            phone.start()

    def _drained(self) -> bool:
        return all(
            phone.drained
            and len(phone.store.applied) == len(self.cloud.downlink.rows.get(phone.device, ()))
            and phone.store.plan == max(self.cloud.downlink.version, 0)
            for phone in self.phones
        )

    # --- watching ----------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self.cloud.reread and self.cloud.up:
            self._read_log()
        for record in self.cloud.committed:
            self._logged(record.frame)
        self.cloud.committed.clear()
        for phone in self.phones:
            if phone.changed and phone.up:
                phone.changed = False
                for checker in self.checkers:
                    checker.phone_changed(self, phone)

    def _read_log(self) -> None:
        self.cloud.reread = False
        self.cloud.committed.clear()
        before = {key: facts.logged for key, facts in self.facts.edges.items() if facts.logged}
        for facts in self.facts.edges.values():
            facts.logged = []
        log = self.cloud.log
        for _, record in log.read(log.start, log.durable_end):
            found = numbered(record.frame)
            if found is not None:
                self.facts.edge(found[0]).logged.append(found[1])
        for checker in self.checkers:
            checker.log_read(self, before)

    def _logged(self, frame: bytes) -> None:
        found = numbered(frame)
        if found is None:
            return
        key, record = found
        facts = self.facts.edge(key)
        for checker in self.checkers:
            checker.logged(key, facts, record)
        facts.logged.append(record)

    def _observe(self, event: object) -> None:
        for checker in self.checkers:
            checker.observed(event)

    # --- carrying ----------------------------------------------------------------------------------------

    def _up(self, phone: int, body: bytes) -> None:
        fate = self.network.send(phone, "up", body, lambda arrived: self.cloud.deliver(phone, arrived))
        self.tell(f"phone{phone}", "send", f"{len(body)} bytes {fate}")

    def _down(self, phone: int, body: bytes) -> None:
        fate = self.network.send(phone, "down", body, self.phones[phone].deliver)
        self.tell("cloud", "reply", f"phone{phone} {len(body)} bytes {fate}")

    def _account(self, outcome: Outcome) -> Outcome:
        facts: dict[EdgeKey, list[Logged]] = {key: edge.logged for key, edge in self.facts.edges.items()}
        outcome.events = self.clock.events
        outcome.elements = sum(record.hi - record.lo for records in facts.values() for record in records)
        outcome.ledgered = sum(r.hi - r.lo for records in facts.values() for r in records if r.reason)
        outcome.crashes = self.facts.crashes
        outcome.partitions = self.facts.partitions
        outcome.disk_faults = self.facts.disk_faults
        outcome.duplicates = self.network.duplicated
        outcome.replays = self.network.replayed
        outcome.results = sum(len(phone.store.applied) for phone in self.phones)
        outcome.digest = self.transcript.digest()
        outcome.lines = self.transcript.lines
        return outcome


def run_seed(seed: int, *, keep: bool = False) -> Outcome:
    return World(settings_of(seed), keep=keep).run()
