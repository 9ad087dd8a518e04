"""The job's process: `python -m cloud_backend.spark.job --log DIR --store DIR --plan FILE --results FILE`.

With --jobs DIR it also runs every job that is wanted there (`cloud_backend.spark.control.jobs`), in the same session.
Prints one JSON line when it is ready and one when it stops. SIGTERM and SIGINT finish the round at hand and stop;
kill -9 at any point costs nothing but time. With --log-json all else it says, Spark included, is JSON as well, on
standard error (`cloud_backend.logging_setup`). Its last lines, Spark's among them, are kept where the gateway finds the
job's status, for the dashboard. With --standby it waits until the lease of the running driver has run out.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from cloud_backend.coordinator.roster import Roster
from cloud_backend.database import in_home, is_there, located, location
from cloud_backend.lease import Lease
from cloud_backend.log.partitions import open_log
from cloud_backend.logging_setup import children_logged, set_up_logging
from cloud_backend.results.store import Results
from cloud_backend.spark.control.driver import JobManager, JobSettings, Runner
from cloud_backend.spark.control.jobs import JobDirectory, JobsRunner
from cloud_backend.spark.control.log_needs import LogUse
from cloud_backend.spark.control.turns import Turns
from cloud_backend.spark.manifest.manifest import Fenced
from cloud_backend.spark.manifest.plans import PlanFile
from cloud_backend.spark.storage.files import is_uri
from cloud_backend.spark.storage.store import Store
from shared.errors import ResurgeError, UsageError
from shared.recovery.retention import Retention

FENCED_EXIT = 3
ROSTER = "roster.sqlite"
SERVER_PATIENCE_S = 60.0  # a PostgreSQL server that is away is waited for so long
LOG4J_JSON = Path(__file__).parent / "log4j2-json.properties"  # the same fields as `cloud_backend.logging_setup`
log = logging.getLogger("resurge.spark")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    keep = options.local or (None if is_uri(options.store) else Path(options.store))
    set_up_logging(as_json=options.log_json, keep=keep)
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    if options.standby:
        log.info("stands by until the lease of the running driver has run out")
        watched = Lease(Store(options.store), owner="standby", duration_s=0, now=time.time)
        while watched.holder() is not None and not stopping:
            time.sleep(0.2)
        if stopping:
            return 0
    settings = JobSettings(
        ranges=options.ranges,
        epoch_s=options.epoch_s or (5.0 if Store(options.store).counts_requests else 1.0),
        task_timeout_s=options.task_timeout_s,
        balance=options.balance,
        retention=Retention(hours=options.rollback_hours, bytes_max=round(options.rollback_gb * 1e9)),
    )
    roster = RosterFile(options.roster or _beside(options.log) / ROSTER)
    results = Results(options.results, patience_s=SERVER_PATIENCE_S)
    program = PlanFile(options.plan)
    local = options.local or _local(options.store)
    log_use = LogUse(local)
    reader = open_log(options.log)
    if options.log_json:
        os.environ["SPARK_SUBMIT_OPTS"] = (
            f"-Dlog4j2.configurationFile={LOG4J_JSON.as_uri()} {os.environ.get('SPARK_SUBMIT_OPTS', '')}"
        )
    with children_logged(log.name):
        manager = JobManager(
            options.log,
            options.store,
            program.read(),
            options.master,
            results=results,
            operator_modules=options.module,
            settings=settings,
            session_settings=dict(each.split("=", 1) for each in options.conf),
            local_dir=local,
            log_use=log_use,
            reader=reader,
            gone=roster.gone,
            deleted=roster.deleted,
        )
    signal.signal(signal.SIGINT, stop)  # again: a Spark session sets one of its own, which ends in a traceback
    _say({"ready": True, "owner": manager.owner, "term": manager.term, "epoch": manager.manifest.last_cut})
    log.info("drives the job in term %d, from epoch %d on", manager.term, manager.manifest.last_cut)
    others: list[threading.Thread] = []
    if options.jobs:
        manager.runner = Turns(manager.runner, cores(manager.runner))
        runner = JobsRunner(
            JobDirectory(options.jobs), options.log, results=results, runner=manager.runner, log_use=log_use,
            reader=reader, settings=settings, gone=roster.gone, deleted=roster.deleted,
        )  # fmt: skip
        others.append(threading.Thread(target=runner.run, args=(lambda: stopping,), name="jobs", daemon=True))
    try:
        for thread in others:
            thread.start()
        manager.run(stop=lambda: stopping, program=program)
        for thread in others:
            thread.join()
        if options.drain:
            manager.drain()
    except Fenced as fenced:
        _say({"fenced": True, "message": fenced.message})
        log.warning("ends: %s", fenced.message)
        return FENCED_EXIT
    _say({"stopped": True, **manager.status()})
    log.info("has stopped at epoch %d", manager.manifest.last_cut)
    return 0


def cores(runner: Runner) -> int:
    """How many tasks the session runs at once."""
    session = getattr(runner, "session", None)
    return 1 if session is None else int(session.sparkContext.defaultParallelism)


class RosterFile:
    """What a job needs to know of the gateway's roster: in a file of its home, or where the home or a URL says. Before
    there is one, nothing."""

    def __init__(self, where: Path | str) -> None:
        self._where = where
        self._roster: Roster | None = None

    def gone(self) -> dict[str, int]:
        """The devices that are refused, and since when."""
        roster = self._opened()
        return {} if roster is None else {device.hex(): at_us for device, at_us in roster.revocations().items()}

    def deleted(self) -> dict[str, int]:
        """The devices whose data is to be erased and of which the log holds nothing more, and when that was asked for.
        One that has paired again is a new incarnation, and what it says is kept."""
        roster = self._opened()
        if roster is None or not (done := [each for each in roster.deletions() if each.done_us is not None]):
            return {}
        gone = roster.revocations()
        return {each.device.hex(): each.asked_us for each in done if each.device in gone}

    def _opened(self) -> Roster | None:
        if self._roster is None:
            given = self._where
            where = in_home(given.parent, given.name) if isinstance(given, Path) else located(given, ROSTER)
            self._roster = Roster(where) if is_there(where) else None
        return self._roster


def _log(text: str) -> Path | str:
    return text if is_uri(text) else Path(text)


def _beside(log: Path | str) -> Path:
    """The gateway's home, which is made if this is started first."""
    if isinstance(log, str):
        raise UsageError(
            "--log is in Kafka: say with --roster where the gateway's home has its roster", code="spark-roster"
        )
    home = log.parent
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    return home


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m cloud_backend.spark.job", description=__doc__)
    parser.add_argument(
        "--log", type=_log, required=True, help="the ingest log: a directory, or kafka://HOST:PORT,HOST:PORT/NAME"
    )
    parser.add_argument(
        "--store",
        required=True,
        help="where manifest, records and state are kept: a directory, an object store (s3:, gs:, az:), or a URI that "
        "Hadoop knows",
    )
    parser.add_argument(
        "--local", type=Path, help="where the gateway finds stable.json and hints.json, when --store is a URI"
    )
    parser.add_argument(
        "--plan", type=Path, required=True, help="an encoded plan; followed when another one is deployed"
    )
    parser.add_argument(
        "--roster",
        type=location,
        help="the gateway's roster, to wait for nobody who was revoked (default: beside --log)",
    )
    parser.add_argument(
        "--results", type=location, required=True, help="the results store: a file, or a URL of PostgreSQL"
    )
    parser.add_argument("--jobs", type=Path, help="a directory of further jobs to start and stop as they are wanted")
    parser.add_argument("--master", default="local[*]", help="any Spark master")
    parser.add_argument("--conf", action="append", default=[], help="a Spark setting, as KEY=VALUE")
    parser.add_argument("--module", action="append", default=[], help="a module with users' operator types")
    parser.add_argument("--ranges", type=int, default=2, help="hash ranges of a vertex at its start")
    parser.add_argument(
        "--epoch-s", type=float, help="at most one epoch per this many seconds (default: 1, in an object store 5)"
    )
    parser.add_argument("--task-timeout-s", type=float, default=120.0, help="a task that takes longer counts as hung")
    parser.add_argument("--no-balance", dest="balance", action="store_false", help="never split or merge ranges")
    parser.add_argument(
        "--rollback-hours", type=float, default=Retention.hours, help="how far back a rollback can go at most"
    )
    parser.add_argument(
        "--rollback-gb",
        type=float,
        default=Retention.bytes_max / 1e9,
        help="what snapshots and the log may take for that, in gigabytes",
    )
    parser.add_argument("--drain", action="store_true", help="on SIGTERM, finish all of the log first")
    parser.add_argument("--log-json", action="store_true", help="one JSON object per line of output, for collectors")
    parser.add_argument("--standby", action="store_true", help="wait until the running driver's lease has run out")
    return parser.parse_args(arguments)


def _local(store: str) -> Path:
    if is_uri(store):
        raise UsageError(
            f"store {store!r} is not of this machine; give a directory for the gateway's files with --local",
            code="job-local",
        )
    return Path(store)


def _say(value: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ResurgeError as error:
        log.critical("%s", error)
        sys.exit(1)
