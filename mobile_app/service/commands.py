"""What a screen may ask of the service, and how it gets to the loop that owns everything.

Theory of operation. Screens speak from the threads of `connection.py`; spool, results and recordings belong to the
loop's thread. So a command becomes a job with a place for its answer: most jobs are done by the loop at its next turn
(`attend`); a few need the home to themselves (pairing, deletion) and are done between two nodes (`between`), for which
the loop is asked to end. The view state and the newest readings are there for any thread to take. A job that nobody
does in time is refused, never done later: `claim` decides who was first.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from mobile_app.home.consents import Consent
from mobile_app.home.erasure import cloud_has, erase
from mobile_app.links.pairing import Pairing
from mobile_app.node.loop import Node
from mobile_app.node.view_state import ledger_view, plan_view
from mobile_app.recordings.export import export
from mobile_app.recordings.store import MARKERS
from mobile_app.sensors.capture import every_us
from mobile_app.sensors.device_sensors import available
from mobile_app.service.diagnostics import write_diagnostics
from mobile_app.settings import change_policies, policies, recorded_sensors
from shared.errors import UsageError
from shared.moves import MoveRequest

DONE_WITHIN_S = 20.0
RESULTS_MAX = 500

T = TypeVar("T")


class _Job(Generic[T]):
    def __init__(self, work: Callable[..., T]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._claimed = False
        self._finished = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None

    def claim(self) -> bool:
        with self._lock:
            first, self._claimed = not self._claimed, True
            return first

    def run(self, *arguments: Any) -> None:
        if not self.claim():
            return
        try:
            self._value = self._work(*arguments)
        except OSError as error:  # the loop meets a failing disk by itself, in its own writes
            self._error = UsageError(f"the disk refused: {error}; see health", code="service-disk")
        except Exception as error:  # it belongs to whoever asked
            self._error = error
        finally:
            self._finished.set()

    def answer(self) -> T:
        if not self._finished.wait(DONE_WITHIN_S) and self.claim():
            raise UsageError("the service is busy; try again", code="service-busy")
        self._finished.wait()
        if self._error is not None:
            raise self._error
        return cast(T, self._value)


class Commands:
    """One service's, over all the nodes it opens and closes. `handle` is the handler of a ServiceServer."""

    def __init__(self, home: Path, stop: threading.Event) -> None:
        self._home = home
        self._stop_asked = stop
        self._jobs: deque[_Job[Any]] = deque()
        self._closed_jobs: deque[_Job[Any]] = deque()
        self._node: Node | None = None
        self._view: dict[str, Any] = {"running": False, "health": []}
        self.pairing = Pairing(home)
        self.reopen = threading.Event()  # the loop should end, so that the home is free for a moment

    # --- the loop's side -------------------------------------------------------------------------------------------

    def attend(self, node: Node) -> None:
        """Do what was asked since the last turn."""
        self._node = node
        while self._jobs:
            self._jobs.popleft().run(node)

    def published(self, view: dict[str, Any]) -> None:
        self._view = view | {"pairing": self.pairing.state()}

    def closed(self, health: list[dict[str, Any]] | None = None) -> None:
        """The node is gone; with its last words on why, when it had to."""
        self._node = None
        self._view = self._view | {"running": False} | ({} if health is None else {"health": health})

    def between(self) -> None:
        """No node is open: do what needs the home to itself."""
        self.reopen.clear()
        while self._closed_jobs:
            self._closed_jobs.popleft().run()

    # --- the screens' side -----------------------------------------------------------------------------------------

    def handle(self, call: str, arguments: Mapping[str, Any]) -> Any:
        known: dict[str, Callable[..., Any]] = {
            "view": self._current_view, "samples": self._samples, "results": self._results, "plan": self._plan,
            "ledger": self._ledger, "health": lambda: self._current_view()["health"], "do": self._do,
        }  # fmt: skip
        if call not in known:
            raise UsageError(f"no call {call!r}; there are {', '.join(known)}", code="service-call")
        return _apply(call, known[call], arguments)

    def _do(self, name: str, arguments: Mapping[str, Any]) -> Any:
        if name not in ACTS:
            raise UsageError(f"the service cannot {name!r}; it can {', '.join(ACTS)}", code="service-call")
        return _apply(name, getattr(self, f"_{name}"), arguments)

    def _in_loop(self, work: Callable[[Node], T]) -> T:
        job = _Job(work)
        self._jobs.append(job)
        node = self._node
        if node is not None:
            node.uplink.wake()
        return job.answer()

    def _with_home(self, work: Callable[[], T]) -> T:
        job = _Job(work)
        self._closed_jobs.append(job)
        self.reopen.set()
        node = self._node
        if node is not None:
            node.uplink.wake()
        return job.answer()

    def _current_view(self) -> dict[str, Any]:
        node = self._node
        if node is not None:
            if not node.schedule.watched:  # what was published may be some seconds old
                node.schedule.watch()
                self._in_loop(Node.publish)
            node.schedule.watch()
        return self._view | {"pairing": self.pairing.state()}

    def _samples(self, sensor: str, after: int = 0) -> dict[str, Any]:
        node = self._node
        if node is None:
            raise UsageError("no sensor is read just now; see health", code="service-busy")
        node.access.capture.look(sensor)
        node.schedule.watch()
        return node.access.readings.newest(sensor, after)

    def _results(self, after: int = 0) -> list[dict[str, Any]]:
        return self._in_loop(
            lambda node: [
                {"number": number, **asdict(row)} for number, row in node.stores.results.after(after, limit=RESULTS_MAX)
            ]
        )

    def _plan(self) -> dict[str, Any]:
        return self._in_loop(_planned)

    def _ledger(self, limit: int = 100) -> list[dict[str, Any]]:
        return self._in_loop(lambda node: ledger_view(node, limit))

    def _start_recording(self, name: str = "", sensors: list[str] | None = None) -> dict[str, Any]:
        def start(node: Node) -> dict[str, Any]:
            access = node.access
            asked = sensors or recorded_sensors(node.settings) or access.to_record(())
            missing = {
                sensor: why for sensor, why in available().items()
                if why and sensor in asked and sensor not in access.chosen
            }  # fmt: skip
            missing |= {each: "its person has not allowed it" for each in asked if not access.consents.allows(each)}
            wanted = {sensor: every_us(sensor) for sensor in asked if sensor not in missing}
            if why := node.stores.recordings.room(node.settings.recordings_mb, node.settings.free_mb):
                raise UsageError(f"{why}; make room first", code="recording-room")
            about = node.stores.recordings.start(name, wanted, node.stores.clock.now_us())
            return {"id": about.id, "name": about.name, "missing": missing}

        return self._in_loop(start)

    def _stop_recording(self) -> dict[str, Any]:
        def end(node: Node) -> dict[str, Any]:
            if node.stores.recordings.running is not None:
                node.catch_up()  # the last moments belong to it
            return node.stores.recordings.stop(node.stores.clock.now_us())

        return self._in_loop(end)

    def _marker(self, label: str = "") -> dict[str, Any]:
        def add_marker(node: Node) -> dict[str, Any]:
            made = node.stores.recordings.marker(label, node.stores.clock.now_us())
            if node.runner.computation is not None and node.runner.computation.takes(MARKERS, ("label",)):
                node.append(MARKERS, label=made["label"])  # a plan that wants markers gets them, too
            return made

        return self._in_loop(add_marker)

    def _recordings(self) -> list[dict[str, Any]]:
        return self._in_loop(lambda node: node.stores.recordings.summaries())

    def _rename_recording(self, recording: str, name: str) -> dict[str, Any]:
        return self._in_loop(lambda node: node.stores.recordings.rename(recording, name))

    def _delete_recording(self, recording: str) -> None:
        self._in_loop(lambda node: node.stores.recordings.delete(recording))

    def _export(self, kind: str, recording: str) -> dict[str, str]:
        return self._in_loop(lambda node: {"path": str(export(self._home, node.stores.recordings, recording, kind))})

    def _pair(self, link: str) -> dict[str, str]:
        return self.pairing.ask(link)  # some seconds of network, beside the loop

    def _confirm_pair(self, yes: bool) -> dict[str, bool]:
        if not yes:
            return {"paired": self.pairing.confirm(yes=False)}
        return self._with_home(lambda: {"paired": self.pairing.confirm(yes=True)})

    def _gateway_changed(self) -> None:
        """Another process has enrolled this home: the next node speaks with the gateway that it wrote down."""
        self._with_home(lambda: None)

    def _unpair(self) -> dict[str, str]:
        gateway = self._with_home(self.pairing.forget)
        remedy = "its operator still lists this device, and has what was delivered; ask them to revoke or delete it"
        return {"gateway": gateway, "remedy": remedy}

    def _consent(self, sensor: str, allow: bool | str) -> dict[str, Consent]:
        def decide(node: Node) -> dict[str, Consent]:
            node.decide(sensor, allow=allow)
            node.publish()
            return node.access.consents.states([sensor])

        return self._in_loop(decide)

    def _policy(self, **changes: Any) -> dict[str, Any]:
        if isinstance(changes.get("record"), list):
            changes["record"] = ", ".join(str(sensor) for sensor in changes["record"])

        def change(node: Node) -> dict[str, Any]:
            before, node.settings = node.settings, change_policies(self._home, changes)
            if node.settings.hosting != before.hosting:
                self.reopen.set()  # the next node takes part in its fleet, or does not
            node.publish()
            return policies(node.settings)

        return self._in_loop(change)

    def _dismiss(self, code: str) -> None:
        def dismiss(node: Node) -> None:
            node.stores.health.dismiss(code)
            node.publish()

        self._in_loop(dismiss)

    def _delete_my_data(self) -> dict[str, Any]:
        kept = cloud_has(self._view)
        deleted = self._with_home(lambda: erase(self._home))
        remedy = ""
        if kept["delivered"]:
            remedy = f"ask the operator of {kept['gateway']} to delete the data of device {kept['device']}"
        return {"deleted": deleted, "cloud_has": kept, "remedy": remedy}

    def _diagnostics(self) -> dict[str, str]:
        def write(node: Node) -> dict[str, str]:
            path = write_diagnostics(self._home, node.view(), node.stores.health.entries(), _planned(node))
            return {"path": str(path)}

        return self._in_loop(write)

    def _coordinate(self, call: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        def ask(node: Node) -> dict[str, Any]:
            if node.hosting is None:
                raise UsageError("this node is of no fleet; start it with --fleet FILE", code="fleet-home")
            return node.hosting.ask(call, arguments, node.rest.now())

        return self._in_loop(ask)

    def _sensors(self) -> dict[str, dict[str, Any]]:
        node = self._node
        named = () if node is None else node.access.chosen
        return {
            sensor: {"available": not why, "why": why, "hz": round(1e6 / every_us(sensor), 3)}
            for sensor, why in (available() | dict.fromkeys(named, "")).items()
        }

    def _move(self, query: str, vertex: str, to: str, leaving: str = "", dry_run: bool = False) -> dict[str, Any]:
        def move(node: Node) -> dict[str, Any]:
            if node.hosting is None:
                raise UsageError("this node is in no fleet; start it with --fleet FILE", code="fleet-home")
            request = MoveRequest(str(query), str(vertex), str(to), str(leaving), bool(dry_run))
            return node.hosting.move(request, node.rest.now())

        return self._in_loop(move)

    def _stop(self) -> None:
        self._stop_asked.set()
        node = self._node
        if node is not None:
            node.uplink.wake()


ACTS = (
    "start_recording", "stop_recording", "marker", "recordings", "rename_recording", "delete_recording", "export",
    "pair", "confirm_pair", "unpair", "consent", "policy", "dismiss", "delete_my_data", "diagnostics", "sensors",
    "gateway_changed", "coordinate", "move", "stop",
)  # fmt: skip


def _planned(node: Node) -> dict[str, Any]:
    plan, computation = node.runner.plan, node.runner.computation
    missing = {} if computation is None else computation.troubles()
    return {} if plan is None else plan_view(plan) | {"missing": missing}


def _apply(name: str, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    try:
        return function(**arguments)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # the call itself did not fit
            raise UsageError(f"{name!r} does not take these arguments: {error}", code="service-call") from None
        raise
