"""Runs the device's part of the plan: takes a new plan over, computes it, and tries a failed one again.

A plan that arrives is stored at once and takes over between two turns of the loop, after everything of the old one is
spooled. A plan whose own code raises is let go; the disk is then as after a kill at that moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mobile_app.node.computation import Computation, OperatorFailed
from mobile_app.node.plans import Plans
from mobile_app.node.retry import Retry
from mobile_app.node.stores import Stores
from mobile_app.sensors.access import SensorAccess
from mobile_app.sensors.source import Source
from mobile_app.spool.spooler import Outgoing, Spooler, spool_leftovers
from shared.batch import Batch
from shared.errors import UsageError
from shared.identity import edge_id
from shared.language.registry import references
from shared.plan.encoding import decode_plan, encode_plan
from shared.plan.graph import Plan
from shared.plan.placement import ON_DEVICE, check_unhosted
from shared.plan.wellformed import check_activation
from shared.spool.ring import SpoolFull

TRY_MISSING_S = 10.0
STEP_US, STEP_US_MIN = 1_000_000, 10_000  # of readings at once, where there is more to read than there is time for

OnOutput = Callable[[str, Batch], None]
Refuse = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PlanBegun:
    """A plan runs from now on: the program's own, a stored one, or one that a gateway sent."""

    plan: Plan


class PlanRunner:
    """At most one computation at a time. `refuse` hears why a plan cannot run, `on_failure` when its code raised."""

    def __init__(
        self,
        stores: Stores,
        access: SensorAccess,
        sender: Outgoing,
        *,
        first: Plan | None,
        new_spooler: Callable[[Computation], Spooler],
        on_output: OnOutput | None,
        refuse: Refuse,
        on_begun: Callable[[PlanBegun], None] = lambda _: None,
        on_failure: Callable[[OperatorFailed], None],
    ) -> None:
        self._stores = stores
        self._access = access
        self._sender = sender
        self._new_spooler = new_spooler
        self._on_output = on_output
        self._refuse = refuse
        self._on_begun = on_begun
        self._on_failure = on_failure
        self._next: Plan | None = first
        self._retry = Retry()
        self._shares: Mapping[str, float] = {}
        self._try_missing_at = 0.0
        self._step_us = STEP_US
        self.behind = False  # there was more to read than there was time for
        self.computation: Computation | None = None
        self.spooler: Spooler | None = None

    @property
    def plan(self) -> Plan | None:
        """What runs here, or would if its code had not failed."""
        return self._retry.plan if self.computation is None else self.computation.plan

    @property
    def failure(self) -> str:
        """Why the plan is not computed now."""
        return self._retry.why

    @property
    def blocked(self) -> bool:
        return self.spooler is not None and self.spooler.blocked

    def arrive(self, encoded: bytes) -> None:
        self._next = decode(encoded, self._refuse) or self._next

    def begin_again(self) -> None:
        """Begin the plan anew between two turns, with what may be read now."""
        if self._next is None:
            self._next = self.plan

    def take_over(self, now: float) -> None:
        """Begin the plan that waits, if there is one and the old one can end."""
        if (failed := self._retry.due(now)) is not None and self._next is None:
            self._next = failed
        if self._next is None or self.blocked:
            return
        plan, self._next = self._next, None
        try:
            self._adopt(plan, now)
        except SpoolFull:  # no room yet for what the old plan left: exchange first
            self._next = plan

    def _adopt(self, plan: Plan, now: float) -> None:
        """Run this plan from now on; what the old one still held is in the spool when this returns."""
        stores, from_us = self._stores, self._access.from_us(plan)
        self._retry.adopting(now)
        self._try_missing_at = now + TRY_MISSING_S
        begun = False

        def open_source(sensor: str, every_us: int) -> Source:
            """All sensors of a plan are read from one moment on; one that turns up later, from when it does."""
            return self._access.open_for(plan, sensor, every_us, None if begun else from_us)

        try:
            computation = Computation(
                plan, stores.device.hex(), open_source, from_us=from_us,
                read_results=stores.results.since, results_from=stores.results.through + 1,
            )  # fmt: skip
        except UsageError as error:  # it needs an operator that is not installed here: the old plan goes on
            self._refuse(str(error))
            return
        begun = True
        try:
            self.spool_everything()
            snapshot = stores.snapshots.fitting(lambda name: stores.spool.head(edge_id(name)))
            resumed = snapshot is not None and computation.resume(snapshot)
            if snapshot is not None and not resumed:
                spool_leftovers(snapshot, self._sender, from_us, now)
        except SpoolFull:
            computation.close()
            raise
        except OperatorFailed as error:  # its saved state is not for this code
            computation.close()
            self._fail(plan, error)
            return
        spooler = self._new_spooler(computation)
        if snapshot is not None and resumed:
            spooler.resume(snapshot)
        self.close()
        self.computation, self.spooler, self._shares = computation, spooler, {}
        self._retry.succeeded()
        self._on_begun(PlanBegun(plan))

    def _fail(self, plan: Plan, error: OperatorFailed) -> None:
        """The plan's own code raised: let go of its sensors and go on without it.

        Nothing of it is saved, because what came out before the failure and the state behind it no longer belong
        together. A kill leaves the same behind, so adopting a plan again, this one or another, goes on from the newest
        snapshot that fits the spool, as a start of the process does.
        """
        self.close()
        self.computation = self.spooler = None
        self._retry.failed(plan, error.message, time.monotonic())
        self._on_failure(error)

    def read(self, until_us: int, now: float, within_s: float | None = None) -> None:
        """Read the plan's sensors up to this moment, compute, and spool what is due. With `within_s` not for much
        longer than that: on a device that is slower than its sensors each turn would else take longer than the one
        before, and nothing would be sent meanwhile."""
        end = time.monotonic() + (within_s or 0.0)
        self.behind = False
        while (computation := self.computation) is not None and (spooler := self.spooler) is not None:
            began = time.monotonic()
            at_us = until_us if within_s is None else min(until_us, computation.reached_us + self._step_us)
            try:
                self._read_to(computation, spooler, at_us, now, until_us)
            except OperatorFailed as error:
                self._fail(computation.plan, error)
                return
            self.behind = within_s is not None and not spooler.blocked and computation.reached_us < until_us
            if self.behind and within_s is not None:
                self._pace(time.monotonic() - began, within_s)
            if not self.behind or time.monotonic() >= end:
                return

    def _pace(self, took_s: float, within_s: float) -> None:
        """How much is read at once follows what the last time took."""
        if took_s > within_s / 2:
            self._step_us = max(STEP_US_MIN, self._step_us // 2)
        elif took_s < within_s / 8:
            self._step_us *= 2

    def _read_to(self, computation: Computation, spooler: Spooler, at_us: int, now: float, now_us: int) -> None:
        if not spooler.blocked:
            outputs = computation.read(at_us)
            spooler.take(outputs, read_until_us=at_us, now=now)
            for name, batch in outputs:
                if self._on_output is not None and computation.kinds.get(name) == "subscribe" and len(batch):
                    self._on_output(name, batch)
        if not self._nothing_yet():
            spooler.commit(now, now_us)
            self._access.first_start = False  # the first commit saves, whatever there is

    def upkeep(self, now: float, now_us: int) -> None:
        """Every few seconds: give up what is past its deadline, and look again for sensors that were missing."""
        if self.spooler is not None:
            self.spooler.expire(now_us)
        if self.computation is not None and self.computation.missing and now >= self._try_missing_at:
            self._try_missing_at = now + TRY_MISSING_S
            self.computation.try_missing()

    def lacking(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Sensors of the plan that cannot be read, and those whose source lacks columns."""
        computation = self.computation
        return ((), ()) if computation is None else (tuple(computation.missing), tuple(computation.empty_columns))

    def why_nothing_is_read(self) -> str:
        """Why none of the plan's inputs can be read here; empty while one can."""
        computation = self.computation
        if computation is None or not computation.plan.sensors or computation.readings():
            return ""
        return "; ".join(f"{sensor}: {why}" for sensor, why in computation.missing.items())

    def _nothing_yet(self) -> bool:
        """None of its sensors was ever read, so there is nothing to go on from: a source that is put right begins with
        its first reading, as at a first start."""
        return self._access.first_start and bool(self.why_nothing_is_read())

    def slow_down(self, shares: Mapping[str, float]) -> None:
        """Read each sensor at this share of the plan's rate."""
        if shares != self._shares and self.computation is not None:
            self._shares = shares
            self.computation.slow_down(shares)

    def append(self, stream: str, row: Mapping[str, object]) -> None:
        if self.computation is None:
            why = "the plan's code failed" if self._retry.why else "there is no plan yet"
            raise UsageError(f"{why}, so there is no stream {stream!r} to append to", code="append-stream")
        self.computation.append(stream, self._stores.clock.now_us(), row)

    def settle(self, now: float) -> None:
        """Before the processor may sleep: what was read is durable."""
        if self.computation is None or self.spooler is None:
            return
        try:
            self.spooler.settle(now, self._stores.clock.now_us())
        except OperatorFailed as error:
            self._fail(self.computation.plan, error)

    def spool_everything(self) -> None:
        if self.computation is None or self.spooler is None or self._nothing_yet():
            return
        try:
            self.spooler.commit(time.monotonic(), self._stores.clock.now_us(), everything=True)
        except OperatorFailed as error:  # what is not in the spool or a snapshot by now is lost, as by a kill
            self._fail(self.computation.plan, error)

    def pause(self) -> None:
        """Stop reading for a while; `begin_again` goes on."""
        self.spool_everything()
        self.close()

    def close(self) -> None:
        """Let go of the sensors."""
        if self.computation is not None:
            self.computation.close()


def choose_plan(plans: Plans, own: Plan | None, refuse: Refuse) -> Plan | None:
    """The stored plan, or the program's own unless the stored one is newer."""
    kept = plans.load()
    if own is not None:
        check_unhosted(own)
    if own is not None and (kept is None or own.version >= kept[0]):
        plans.store(own.version, encode_plan(own))
        return own
    return None if kept is None else decode(kept[1], refuse)


def decode(encoded: bytes, refuse: Refuse) -> Plan | None:
    try:
        plan = decode_plan(encoded)
        check_activation(plan, {ON_DEVICE: references()})
        check_unhosted(plan)
    except UsageError as error:  # of a newer version, say: what runs goes on
        refuse(str(error))
        return None
    return plan
