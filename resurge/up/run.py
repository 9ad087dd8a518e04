"""Plays the whole product on one machine: gateway, Spark, a relay, phones that lose and regain the network.

Nothing here is a stand-in: every process is started by the command a person would type, phones pair by link, and
the relay, the gateway and Spark know nothing of this file. At the end the phones are stopped, Spark gets time
to finish what the log holds, everything is stopped, and only then is counted (account.py, expected_results.py).
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from cloud_backend.coordinator.queries import sinks_of
from cloud_backend.coordinator.roster import Roster
from cloud_backend.results.store import ResultRow, Results, digest_of
from cloud_backend.spark.job import FENCED_EXIT
from mobile_app.node.results import Results as PhoneResults
from mobile_app.spool.opening import spool_cipher
from resurge.up.account import count, open_spool
from resurge.up.expected_results import Expected, expected_digest, programs_run
from resurge.up.home import UpHome
from resurge.up.outcome import Outcome
from resurge.up.processes import Fleet, Keeper, Process, wait_until
from resurge.up.scenario import RESTART_AFTER_S, Kill, PhoneStory, kills, phone_stories
from resurge.up.terminal import Terminal
from shared.plan.graph import Plan

GATEWAY_TIMEOUT_S = 30.0
PHONES_TIMEOUT_S = 60.0
DRAIN_TIMEOUT_S = 180.0  # without Spark coming any further
TICK_S = 0.25
SPARK_READY = '"ready": true'


@dataclass(frozen=True, slots=True)
class Options:
    length_s: float | None = None
    phones: int = 3
    chaos: bool = False


class Interrupted(Exception):
    """Somebody asked us to end: Ctrl-C or SIGTERM."""


def play(stage: UpHome, plan: Plan, options: Options, terminal: Terminal) -> Outcome:
    """Run it all and return what came out. Every process it started has ended when this returns or raises."""
    with Fleet() as fleet, _interruptible():
        show = _Show(stage, options, terminal, fleet)
        show.start()
        with contextlib.suppress(Interrupted):
            show.run()
        show.finish(plan)
    return outcome(stage, plan, show)


class _Show:
    def __init__(self, stage: UpHome, options: Options, terminal: Terminal, fleet: Fleet) -> None:
        self.stage = stage
        self.options = options
        self.terminal = terminal
        self.fleet = fleet
        self.stories: list[PhoneStory] = phone_stories(max(options.phones, len(stage.phone_homes())), options.length_s)
        self.gateway = stage.gateway()
        self.spark = stage.spark()
        self.relay: Process | None = None
        self.keeper = Keeper(terminal.say, final={self.spark.name: FENCED_EXIT})
        self.phones: dict[str, Process] = {}
        self.links: dict[str, str] = {}
        self.kills: list[dict[str, Any]] = []
        self.outages_before_kills = 0
        self.spark_ready = 0  # the pid that was
        self.started = 0.0  # by the clock of files
        self.began = 0.0

    def start(self) -> None:
        self.terminal.begin("Starting the gateway")
        self.fleet.start(self.gateway)
        self._await_gateway()
        # Spark takes ten to fifteen seconds to start; phones do not wait for it, the log keeps what they send.
        self.terminal.begin("Starting Spark (ten to fifteen seconds) while the phones already record")
        self.fleet.start(self.spark)
        self.started = time.time()
        self.relay = self.fleet.start(self.stage.relay())
        for story in self.stories:
            self.stage.prepare_phone(story)
            self.links[story.name] = self.stage.pairing_link(time.time_ns() // 1000)
            self.phones[story.name] = self.fleet.start(self.stage.phone(story, self.links[story.name]))
        self.began = time.monotonic()
        self.terminal.say(f"Dashboard  {self.stage.dashboard_link(time.time_ns() // 1000)}  (signs you in, once)")
        self.terminal.say(f"Pair a device  resurge device pair --home {self.stage.gateway_home}")

    def run(self) -> None:
        """Until the time is over or somebody asks to end; kills and restarts on the way."""
        self._await_phones()
        pending = kills(self.options.length_s) if self.options.chaos else []
        while (remaining := self._remaining()) is None or remaining > 0:
            for kill in [kill for kill in pending if kill.due(self._elapsed(), self.stage.results_so_far())]:
                pending.remove(kill)
                self._strike(kill)
            self._keep(self.fleet.processes)
            self._notice_spark()
            self.terminal.tick(self.stage, remaining)
            time.sleep(TICK_S)

    def _await_phones(self) -> None:
        """The time of a run counts from when every phone was heard: on a busy machine starting them takes long."""
        end = self.began + PHONES_TIMEOUT_S
        while (
            not all(self.stage.was_heard(name, since=self.started) for name in self.phones) and time.monotonic() < end
        ):
            self._keep(self.fleet.processes)
            self.terminal.tick(self.stage, self.options.length_s)
            time.sleep(TICK_S)
        self.began = time.monotonic()

    def _keep(self, processes: Sequence[Process]) -> None:
        """Start again what ended."""
        for process in self.keeper.due(processes):
            if process.name in self.phones:
                self.outages_before_kills += outages_of(self.stage.phone_home(process.name))
                self._rewrite(process)
            process.start()
            self.terminal.say(f"{process.name} runs again (pid {process.pid})")

    def _rewrite(self, phone: Process) -> None:
        """A phone's command with what is left of its outages."""
        story = next(story for story in self.stories if story.name == phone.name)
        link = self.links[phone.name]
        phone.command = self.stage.phone(story, link, already_ran_s=self._elapsed()).command

    def finish(self, plan: Plan) -> None:
        self.terminal.begin("Stopping the phones")
        for process in self.fleet.processes:
            if process not in (self.gateway, self.spark):
                process.stop()
        self.terminal.begin("Letting Spark finish what the log holds")
        expected = expected_of(self.stage, plan).digest
        results = Results(self.stage.results)
        try:
            self._await_drained(lambda: digest_of(rows_of(results, plan)), expected)
        finally:
            results.close()
        self.terminal.begin("Stopping Spark and the gateway")
        self.spark.stop()
        self.gateway.stop()
        self.terminal.begin("Counting")

    def _await_drained(self, digest: Callable[[], str], expected: str | None) -> None:
        moved_at, read = time.monotonic(), self.stage.spark_read()
        while digest() != expected if expected else not self.stage.has_read_all():
            self._keep([self.gateway, self.spark])
            if (now_read := self.stage.spark_read()) != read:  # a busy machine is slow, and no failure
                moved_at, read = time.monotonic(), now_read
            if self._parked() or time.monotonic() > moved_at + DRAIN_TIMEOUT_S:
                return  # the outcome says so
            time.sleep(TICK_S)

    def _parked(self) -> bool:
        """Whether the job has given up on a vertex; no amount of waiting helps then."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            parked = json.loads((self.stage.spark_store / "status.json").read_bytes())["parked"]
            for vertex, reason in parked.items():
                self.terminal.say(f"Spark has parked {vertex}: {reason.splitlines()[0]} ({self.spark.output})")
            return bool(parked)
        return False

    def _notice_spark(self) -> None:
        if self.spark_ready != self.spark.pid and SPARK_READY in self.spark.tail():
            again, self.spark_ready = self.spark_ready != 0, self.spark.pid
            self.terminal.say("Spark is ready again" if again else f"Spark is ready after {self._elapsed():.0f} s")

    def _strike(self, kill: Kill) -> None:
        """kill -9, a moment of absence, and the same command again."""
        name, process = self._target(kill.target)
        at_s = self._elapsed()
        if kill.target == "phone":
            self.outages_before_kills += outages_of(self.stage.phone_home(name))
        pid = process.kill()
        self.terminal.say(f"kill -9  {name} (pid {pid}) at {at_s:.1f} s")
        time.sleep(RESTART_AFTER_S)
        if kill.target == "phone":
            self._rewrite(process)
        process.start()
        self.terminal.say(f"restart  {name} (pid {process.pid}) at {self._elapsed():.1f} s")
        self.kills.append({"target": name, "pid": pid, "at_s": round(at_s, 1), "restarted_pid": process.pid})

    def _target(self, target: str) -> tuple[str, Process]:
        if target == "phone":
            story = self.stories[0]
            return story.name, self.phones[story.name]
        return target, next(process for process in self.fleet.processes if process.name == target)

    def _await_gateway(self) -> None:
        wait_until(
            lambda: self.stage.answers(self.gateway.pid), what="the gateway's first answer",
            timeout_s=GATEWAY_TIMEOUT_S, processes=[self.gateway],
        )  # fmt: skip

    def _elapsed(self) -> float:
        return time.monotonic() - self.began

    def _remaining(self) -> float | None:
        return None if self.options.length_s is None else self.options.length_s - self._elapsed()


def outcome(stage: UpHome, plan: Plan, show: _Show) -> Outcome:
    """Count, with nothing running any more."""
    homes = stage.phone_homes()
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
    expected = expected_of(stage, plan)
    return Outcome(
        account=account,
        outages=show.outages_before_kills + sum(map(outages_of, homes)),
        results=len(rows),
        results_on_phones=sum(map(results_of, homes)),
        results_digest=digest_of(rows),
        expected_digest=expected.digest,
        dashboard=f"{stage.address}/",
        kills=show.kills,
        unchecked=expected.unknown,
        read_all=stage.has_read_all(),
    )


def expected_of(stage: UpHome, plan: Plan) -> Expected:
    """What the log's own readings give; nothing once somebody deleted some, the beginning was trimmed, or another
    program ran before."""
    roster = Roster(stage.gateway_home / "roster.sqlite")
    try:
        if roster.deletions():
            return Expected(None, "readings were deleted from the log")
    finally:
        roster.close()
    if programs_run(stage.spark_store) > 1:
        return Expected(None, "another program ran before, or a rollback replaced it")
    return expected_digest(plan, stage.log, stage.spark_store)


def rows_of(results: Results, plan: Plan) -> list[ResultRow]:
    """What the program's own sinks say now; what people asked beside it is not part of its account."""
    sinks = set(sinks_of(plan))
    return [row for row in results.current() if row.sink in sinks]


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
