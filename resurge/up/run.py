"""Plays the whole product on one machine: gateway, Spark, a relay, phones that lose and regain the network.

Nothing here is a stand-in: every process is started by the command a person would type, phones pair by link, and
the relay, the gateway and Spark know nothing of this file. At the end the phones are stopped, Spark gets time
to finish what the log holds, everything is stopped, and only then is counted (account.py, expected.py).
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from cloud_backend.coordinator.queries import sinks_of
from cloud_backend.coordinator.roster import Roster
from cloud_backend.log.reader import Reader
from cloud_backend.results.store import ResultRow, Results, digest_of
from mobile_app.results import Results as PhoneResults
from mobile_app.spools import spool_cipher
from resurge.up.account import Account, count, open_spool
from resurge.up.expected import expected_digest
from resurge.up.processes import Fleet, Process, wait_until
from resurge.up.scenario import RESTART_AFTER_S, Kill, PhoneStory, kills, phone_stories
from resurge.up.stage import Stage
from shared.plan.graph import Plan

GATEWAY_TIMEOUT_S = 30.0
DRAIN_TIMEOUT_S = 180.0
TICK_S = 0.25
SPARK_READY = '"ready": true'


class Audience(Protocol):
    """Who is told what happens: a terminal, or a test."""

    def begin(self, what: str) -> None:
        """A step of the start or the end begins, and the one before it is done."""
        ...

    def say(self, line: str) -> None:
        """Something worth a line of its own happened."""
        ...

    def tick(self, stage: Stage, remaining_s: float | None) -> None:
        """Another moment of the run has passed."""
        ...


@dataclass(frozen=True, slots=True)
class Options:
    length_s: float | None = None
    phones: int = 3
    chaos: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    account: Account
    outages: int
    results: int
    results_on_phones: int  # of those, how many had come back to the phone they are about before it stopped
    results_digest: str
    expected_digest: str  # empty when log and manifest no longer reach back to their start, and cannot say
    dashboard: str
    kills: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        value = asdict(self)
        account: dict[str, Any] = value.pop("account")
        return account | value

    def problems(self) -> list[str]:
        """What is wrong, in words; empty when the run kept every promise."""
        wrong: list[str] = []
        found = self.account
        if not found.adds_up:
            missing = found.produced - found.delivered - found.spooled - found.ledgered
            wrong.append(f"the account does not add up: {missing} elements have no place, {found.duplicates} have two")
        if not found.delivered:
            wrong.append("nothing was delivered")
        if not self.results:
            wrong.append("no result was published; a longer --for lets windows close")
        if self.expected_digest and self.results_digest != self.expected_digest:
            wrong.append(
                f"Spark's results ({self.results_digest[:12]}) differ from what the log says they should be "
                f"({self.expected_digest[:12]})"
            )
        return wrong


class Interrupted(Exception):
    """Somebody asked us to end: Ctrl-C or SIGTERM."""


def play(stage: Stage, plan: Plan, options: Options, audience: Audience) -> Outcome:
    """Run it all and return what came out. Every process it started has ended when this returns or raises."""
    with Fleet() as fleet, _interruptible():
        show = _Show(stage, options, audience, fleet)
        show.start()
        with contextlib.suppress(Interrupted):
            show.run()
        show.finish(plan)
    return outcome(stage, plan, show)


class _Show:
    def __init__(self, stage: Stage, options: Options, audience: Audience, fleet: Fleet) -> None:
        self.stage = stage
        self.options = options
        self.audience = audience
        self.fleet = fleet
        self.stories: list[PhoneStory] = phone_stories(options.phones, options.length_s)
        self.gateway = stage.gateway()
        self.relay = stage.relay()
        self.spark = stage.spark()
        self.phones: dict[str, Process] = {}
        self.links: dict[str, str] = {}
        self.kills: list[dict[str, Any]] = []
        self.outages_before_kills = 0
        self.spark_ready = False
        self.began = 0.0

    def start(self) -> None:
        self.audience.begin("Starting the gateway")
        self.fleet.start(self.gateway)
        self._await_gateway()
        # Spark takes ten to fifteen seconds to start; phones do not wait for it, the log keeps what they send.
        self.audience.begin("Starting Spark (ten to fifteen seconds) while the phones already record")
        self.fleet.start(self.spark)
        self.fleet.start(self.relay)
        for story in self.stories:
            self.stage.prepare_phone(story)
            self.links[story.name] = self.stage.pairing_link(time.time_ns() // 1000)
            self.phones[story.name] = self.fleet.start(self.stage.phone(story, self.links[story.name]))
        self.began = time.monotonic()
        self.audience.say(f"Dashboard  {self.stage.dashboard_link(time.time_ns() // 1000)}  (signs you in, once)")

    def run(self) -> None:
        """Until the time is over or somebody asks to end; kills and restarts on the way."""
        pending = kills(self.options.length_s) if self.options.chaos else []
        while (remaining := self._remaining()) is None or remaining > 0:
            for kill in [kill for kill in pending if kill.due(self._elapsed(), results_so_far(self.stage))]:
                pending.remove(kill)
                self._strike(kill)
            for process in self.fleet.processes:
                process.ensure_running()
            self._notice_spark()
            self.audience.tick(self.stage, remaining)
            time.sleep(TICK_S)

    def finish(self, plan: Plan) -> None:
        self.audience.begin("Stopping the phones")
        for process in [*self.phones.values(), self.relay]:
            process.stop()
        self.audience.begin("Letting Spark finish what the log holds")
        expected = expected_of(self.stage, plan)
        results = Results(self.stage.results)
        try:
            self._await_drained(lambda: digest_of(rows_of(results, plan)), expected)
        finally:
            results.close()
        self.audience.begin("Stopping Spark and the gateway")
        self.spark.stop()
        self.gateway.stop()
        self.audience.begin("Counting")

    def _await_drained(self, digest: Callable[[], str], expected: str) -> None:
        end = time.monotonic() + DRAIN_TIMEOUT_S
        while digest() != expected if expected else not self._has_read_all():
            self.spark.ensure_running()
            if self._parked() or time.monotonic() > end:
                return  # the two digests will say so
            time.sleep(TICK_S)

    def _has_read_all(self) -> bool:
        """Whether the job has committed everything the log holds."""
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
            read = json.loads((self.stage.spark_store / "stable.json").read_bytes())["read"]
            return bool(read >= Reader(self.stage.log).valid_end())
        return False

    def _parked(self) -> bool:
        """Whether the job has given up on a vertex; no amount of waiting helps then."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            parked = json.loads((self.stage.spark_store / "status.json").read_bytes())["parked"]
            for vertex, reason in parked.items():
                self.audience.say(f"Spark has parked {vertex}: {reason.splitlines()[0]} ({self.spark.output})")
            return bool(parked)
        return False

    def _notice_spark(self) -> None:
        if not self.spark_ready and SPARK_READY in self.spark.tail():
            self.spark_ready = True
            self.audience.say(f"Spark is ready after {self._elapsed():.0f} s")

    def _strike(self, kill: Kill) -> None:
        """kill -9, a moment of absence, and the same command again."""
        name, process = self._target(kill.target)
        at_s = self._elapsed()
        if kill.target == "phone":
            self.outages_before_kills += outages_of(self.stage.phone_home(name))
        pid = process.kill()
        self.audience.say(f"kill -9  {name} (pid {pid}) at {at_s:.1f} s")
        time.sleep(RESTART_AFTER_S)
        if kill.target == "phone":
            story = next(story for story in self.stories if story.name == name)
            process.command = self.stage.phone(story, self.links[name], already_ran_s=self._elapsed()).command
        process.start()
        self.audience.say(f"restart  {name} (pid {process.pid}) at {self._elapsed():.1f} s")
        self.kills.append({"target": name, "pid": pid, "at_s": round(at_s, 1), "restarted_pid": process.pid})

    def _target(self, target: str) -> tuple[str, Process]:
        if target == "phone":
            story = self.stories[0]
            return story.name, self.phones[story.name]
        return target, {"relay": self.relay, "gateway": self.gateway, "spark": self.spark}[target]

    def _await_gateway(self) -> None:
        wait_until(
            lambda: _answers(f"{self.stage.address}/healthz"), what="the gateway's first answer",
            timeout_s=GATEWAY_TIMEOUT_S, processes=[self.gateway],
        )  # fmt: skip

    def _elapsed(self) -> float:
        return time.monotonic() - self.began

    def _remaining(self) -> float | None:
        return None if self.options.length_s is None else self.options.length_s - self._elapsed()


def outcome(stage: Stage, plan: Plan, show: _Show) -> Outcome:
    """Count, with nothing running any more."""
    homes = [stage.phone_home(story.name) for story in show.stories]
    spools = [open_spool(home / "spool", spool_cipher(home)) for home in homes]
    try:
        account = count(stage.log, spools)
    finally:
        for spool in spools:
            spool.close()
    results = Results(stage.results)
    try:
        rows = rows_of(results, plan)
    finally:
        results.close()
    return Outcome(
        account=account,
        outages=show.outages_before_kills + sum(outages_of(stage.phone_home(story.name)) for story in show.stories),
        results=len(rows),
        results_on_phones=sum(results_of(stage.phone_home(story.name)) for story in show.stories),
        results_digest=digest_of(rows),
        expected_digest=expected_of(stage, plan),
        dashboard=f"{stage.address}/",
        kills=show.kills,
    )


def expected_of(stage: Stage, plan: Plan) -> str:
    """The digest that the log's own readings give; empty once somebody deleted some, or the beginning was trimmed."""
    roster = Roster(stage.gateway_home / "roster.sqlite")
    try:
        if roster.deletions():
            return ""
    finally:
        roster.close()
    return expected_digest(plan, stage.log, stage.spark_store)


def rows_of(results: Results, plan: Plan) -> list[ResultRow]:
    """What the program's own sinks say now; what people asked beside it is not part of its account."""
    sinks = set(sinks_of(plan))
    return [row for row in results.current() if row.sink in sinks]


def results_so_far(stage: Stage) -> int:
    """How many rows the job has published up to now."""
    results = Results(stage.results)
    try:
        return sum(results.sinks().values())
    finally:
        results.close()


def outages_of(home: Path) -> int:
    """How often the phone of this home lost its way to the gateway since its process began, as it told others."""
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
        return int(json.loads((home / "status.json").read_bytes())["disconnections"])
    return 0


def results_of(home: Path) -> int:
    """How many results the phone of this home holds."""
    kept = PhoneResults(home)
    try:
        return kept.count()
    finally:
        kept.close()


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into an orderly end, once; a second one ends at once."""

    def interrupt(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise Interrupted

    previous = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _answers(address: str) -> bool:
    with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(address, timeout=2) as answer:  # noqa: S310
        return bool(answer.status == 200)
    return False
