"""Several jobs in one Spark process: what is wanted is files, and one process follows them.

A directory holds a folder per job. Whoever wants a job started, stopped or dropped (gateway, dashboard, CLI) writes
what is *wanted* there and needs no JVM; the Spark process compares it with what runs and says in `state.json` what came
of it. So a request made while no Spark process runs is carried out by the next one, asking twice changes nothing, and
after a restart every job that was wanted runs again.

    NAME/wanted.json      {"running": true, "plan": DIGEST}, or {"dropped": true}
    NAME/DIGEST.plan      the encoded plan
    NAME/state.json       what the Spark process says: state, since, error
    NAME/store/           the job's store: manifest, records, snapshots

Each job is a thread with a job manager of its own; Spark shares its executors fairly among them. A job that fails is
tried again after a pause and harms no other. Rolling back needs none of this: it is an entry in the job's store.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloud_backend.log.partitions import LogReader, open_log
from cloud_backend.results.store import Results
from cloud_backend.spark.control.collection import log_places
from cloud_backend.spark.control.driver import JobManager, JobSettings, Runner
from cloud_backend.spark.control.log_needs import LogUse, Use
from cloud_backend.spark.manifest.manifest import Fenced, ManifestLog
from cloud_backend.spark.storage.store import Store
from shared.errors import ResurgeError, UsageError
from shared.plan.encoding import decode_plan, encode_plan
from shared.plan.graph import Plan

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
RETRY_S_FIRST = 5.0
RETRY_S_MAX = 60.0
FOLLOW_EVERY_S = 0.2


class JobDirectory:
    """What is wanted, and what was said about it. Any number of processes may use it at once."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    def start(self, name: str, plan: Plan) -> None:
        """Want this plan to run under this name; a running job of that name goes on with the new plan."""
        if NAME.fullmatch(name) is None:
            raise UsageError(
                f"a job cannot be called {name!r}; use up to 40 small letters, digits, '-' and '_'", code="job-name"
            )
        if self.wanted(name).get("dropped"):
            raise UsageError(f"job {name!r} is being dropped; choose another name, or wait", code="job-dropping")
        encoded = encode_plan(plan)
        digest = hashlib.blake2b(encoded, digest_size=10).hexdigest()
        (self.root / name).mkdir(parents=True, exist_ok=True)
        _replace(self.root / name / f"{digest}.plan", encoded)
        self._want(name, {"running": True, "plan": digest})

    def stop(self, name: str) -> None:
        """Want it stopped after the round at hand. It keeps its store and its place in the log."""
        self._want(name, self._known(name) | {"running": False})

    def drop(self, name: str) -> None:
        """Want it gone: its store is deleted and it no longer holds the log. What it published stays."""
        self._known(name)
        self._want(name, {"dropped": True})

    def names(self) -> list[str]:
        """Every job that is not dropped, running or not."""
        return [name for name in self.folders() if not self.wanted(name).get("dropped")]

    def folders(self) -> list[str]:
        if not self.root.is_dir():
            return []
        return sorted(path.name for path in self.root.iterdir() if (path / "wanted.json").exists())

    def status(self) -> dict[str, dict[str, Any]]:
        """Per job what is wanted and what the Spark process last said."""
        return {
            name: {"state": "starting", "since": None, "error": ""}
            | _read(self.root / name / "state.json")
            | {"wanted": "running" if self.wanted(name).get("running") else "stopped"}
            for name in self.names()
        }

    def store(self, name: str) -> Path:
        return self.root / name / "store"

    def plan(self, name: str) -> Plan:
        return decode_plan((self.root / name / f"{self._known(name)['plan']}.plan").read_bytes())

    def wanted(self, name: str) -> dict[str, Any]:
        return _read(self.root / name / "wanted.json")

    def say(self, name: str, **state: Any) -> None:
        _replace(self.root / name / "state.json", json.dumps(state).encode())

    def _known(self, name: str) -> dict[str, Any]:
        wanted = self.wanted(name)
        if not wanted or wanted.get("dropped"):
            raise UsageError(f"no job {name!r} (have: {', '.join(self.names()) or 'none'})", code="job-unknown")
        return wanted

    def _want(self, name: str, wanted: dict[str, Any]) -> None:
        _replace(self.root / name / "wanted.json", json.dumps(wanted).encode())


@dataclass(slots=True)
class _Running:
    """A job's thread, and when to try again after it failed."""

    plan: str
    thread: threading.Thread
    stopping: threading.Event
    failures: int = 0
    retry_at: float = field(default=float("-inf"))
    fenced: bool = False


class JobsRunner:
    """Follows a job directory inside the Spark process."""

    def __init__(
        self,
        directory: JobDirectory,
        log_dir: Path | str,
        *,
        results: Results,
        runner: Runner,
        log_use: LogUse,
        reader: LogReader | None = None,
        settings: JobSettings | None = None,
        clock: Callable[[], float] = time.time,
        gone: Callable[[], Mapping[str, int]] = dict,
        deleted: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self.directory = directory
        self._log_dir = log_dir
        self._reader = reader or open_log(log_dir)
        self._results = results
        self._runner = runner
        self._log_use = log_use
        self._settings = settings or JobSettings()
        self._clock = clock
        self._gone = gone
        self._deleted = deleted
        self._erased: dict[str, dict[str, int]] = {}  # of stopped jobs, what was erased from their stores
        self._running: dict[str, _Running] = {}
        self.managers: dict[str, JobManager] = {}
        for name in directory.names():  # before any job speaks, so that none is trimmed past
            log_use.know(name, self._use_of(name))

    def start(self, name: str, plan: Plan) -> None:
        self.directory.start(name, plan)
        self.follow()

    def stop(self, name: str) -> None:
        """Stop a job and wait until its round at hand is done."""
        self.directory.stop(name)
        self.follow()
        if name in self._running:
            self._running[name].thread.join()
            self.follow()

    def status(self) -> dict[str, dict[str, Any]]:
        return self.directory.status()

    def follow(self) -> None:
        """One comparison of what is wanted with what runs."""
        for name in self.directory.folders():
            wanted = self.directory.wanted(name)
            running = self._running.get(name)
            if running is None or not running.thread.is_alive():
                self._follow_stopped(name, wanted, running)
            elif not wanted.get("running") or wanted.get("plan") != running.plan:
                running.stopping.set()

    def run(self, stop: Callable[[], bool]) -> None:
        """Follow until told to stop, then stop every job; what is wanted stays wanted for the next process."""
        while not stop():
            self.follow()
            time.sleep(FOLLOW_EVERY_S)
        self.close()

    def close(self) -> None:
        for running in self._running.values():
            running.stopping.set()
        for running in self._running.values():
            running.thread.join()
        self._running.clear()

    def _follow_stopped(self, name: str, wanted: dict[str, Any], running: _Running | None) -> None:
        if wanted.get("dropped"):
            self._running.pop(name, None)
            self._log_use.forget(name)
            shutil.rmtree(self.directory.root / name, ignore_errors=True)
        elif not wanted.get("running"):
            if running is not None or self.directory.status()[name]["state"] not in ("stopped", "failed", "fenced"):
                self._running.pop(name, None)
                self._log_use.pause(name)
                self.directory.say(name, state="stopped", since=self._clock(), error="")
            self._erase_stopped(name)
        elif running is None or running.plan != wanted["plan"]:
            self._launch(name, wanted["plan"], failures=0)
        elif not running.fenced and self._clock() >= running.retry_at:
            self._launch(name, wanted["plan"], failures=running.failures)

    def _launch(self, name: str, plan: str, *, failures: int) -> None:
        self._log_use.know(name, self._use_of(name))
        self.directory.say(name, state="starting", since=self._clock(), error="")
        thread = threading.Thread(target=self._work, args=(name,), name=f"job {name}", daemon=True)
        self._running[name] = _Running(plan, thread, threading.Event(), failures)
        thread.start()

    def _work(self, name: str) -> None:
        """A job's thread. The one broad except of this file: a job that fails must not take the process with it."""
        running = self._running[name]
        try:
            manager = self._open(name)
            self.managers[name] = manager
            self.directory.say(name, state="running", since=self._clock(), error="", epoch=manager.manifest.last_cut)
            manager.run(stop=running.stopping.is_set)
        except Fenced as fenced:
            running.fenced = True
            self.directory.say(name, state="fenced", since=self._clock(), error=fenced.message)
        except Exception as error:
            running.failures += 1
            running.retry_at = self._clock() + min(RETRY_S_MAX, RETRY_S_FIRST * 2 ** (running.failures - 1))
            problem = f"{type(error).__name__}: {error}"[:500]
            self.directory.say(name, state="failed", since=self._clock(), error=problem, failures=running.failures)
        finally:
            self.managers.pop(name, None)

    def _open(self, name: str) -> JobManager:
        return JobManager(
            self._log_dir, self.directory.store(name), self.directory.plan(name), results=self._results,
            runner=self._runner, settings=self._settings, name=name, log_use=self._log_use, reader=self._reader,
            clock=self._clock, gone=self._gone, deleted=self._deleted,
        )  # fmt: skip

    def _erase_stopped(self, name: str) -> None:
        """A job that is stopped keeps its store, and in it nothing of devices that were deleted."""
        deleted = dict(self._deleted())
        store = Store(self.directory.store(name))
        if deleted == self._erased.get(name, {}) or not store.exists():
            return
        try:
            if {*deleted.items()} - {*ManifestLog(store).state.erased.items()}:
                self._open(name).erase_and_stop()
                self._log_use.pause(name)
        except Exception as error:  # as in `_work`: one job must not take the process with it
            state = self.directory.status()[name]["state"]
            self.directory.say(name, state=state, since=self._clock(), error=f"{type(error).__name__}: {error}"[:500])
        self._erased[name] = deleted

    def _use_of(self, name: str) -> Use:
        """What a job that is not running needs of the log: its place in it, or all of it before its first epoch."""
        store = Store(self.directory.store(name))
        try:
            places = log_places(ManifestLog(store).state) if store.exists() else None
        except (OSError, ResurgeError):  # its own thread will say what is wrong; until then it holds the whole log
            places = None
        return Use(places[0] if places else self._reader.starts(), None)


def _read(path: Path) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return value


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    temporary.write_bytes(data)
    temporary.replace(path)
