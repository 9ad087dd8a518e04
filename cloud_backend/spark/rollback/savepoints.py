"""Savepoints: epochs with a name, kept until somebody drops it. And which epoch a rollback means.

Like a rollback, naming one is an entry in the manifest by anyone who can write to the store; no driver has to run. The
epoch that gets the name is the newest one that every vertex has worked off, so nothing has to wait for it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from cloud_backend.spark.graph import job_graph
from cloud_backend.spark.job_facts import counted_snapshots
from cloud_backend.spark.manifest.entries import Savepoint
from cloud_backend.spark.manifest.manifest import Manifest, ManifestLog
from cloud_backend.spark.manifest.plans import stored_plan
from cloud_backend.spark.rollback.roll_back import OTHER_WRITERS_MAX
from cloud_backend.spark.storage.store import Store
from shared.errors import UsageError

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")  # no epoch and no time looks like it
SAVEPOINTS_MAX = 50  # each keeps the log from it on


def check_savepoint(store_dir: Path | str, name: str) -> None:
    """UsageError when no savepoint of this name can be made now."""
    store = Store(store_dir)
    _named(ManifestLog(store).state, store, name)


def create_savepoint(store_dir: Path | str, name: str) -> Savepoint:
    """Name the newest epoch that every vertex has worked off; it is kept until the name is dropped."""
    store = Store(store_dir)
    log = ManifestLog(store)
    for _ in range(OTHER_WRITERS_MAX):
        log.catch_up()
        entry = _named(log.state, store, name)
        if log.try_append(entry, term=log.state.term) is not None:
            return entry
    raise UsageError("the manifest changes too fast to append to it; try again", code="job-busy")


def _named(manifest: Manifest, store: Store, name: str) -> Savepoint:
    if NAME.fullmatch(name) is None:
        raise UsageError(
            f"a savepoint cannot be called {name!r}; begin with a letter, and use up to 40 letters, digits, '-', '_' "
            "and '.'",
            code="savepoint-name",
        )
    if name in manifest.savepoints:
        epoch = manifest.savepoints[name].epoch
        raise UsageError(
            f"there is a savepoint {name!r} already, at epoch {epoch}; drop it first, or choose another name",
            code="savepoint-exists",
        )
    if len(manifest.savepoints) >= SAVEPOINTS_MAX:
        raise UsageError(
            f"there are {SAVEPOINTS_MAX} savepoints, and each keeps the log from it on; drop one first",
            code="savepoint-many",
        )
    graph = job_graph(stored_plan(store, manifest.plan)) if manifest.plan else None
    epoch = counted_snapshots(manifest, graph).stable_everywhere() if graph else 0
    if not epoch:
        raise UsageError("no epoch was worked off by every vertex yet; try again later", code="savepoint-too-early")
    return Savepoint(name, epoch, manifest.cuts[epoch].at_ms)


def drop_savepoint(store_dir: Path | str, name: str) -> Savepoint:
    """Let the epoch go with the next collection, unless it is kept for another reason; returns what it was."""
    log = ManifestLog(Store(store_dir))
    for _ in range(OTHER_WRITERS_MAX):
        log.catch_up()
        found = _savepoint(log.state, name)
        if log.try_append(Savepoint(name, None, found.at_ms), term=log.state.term) is not None:
            return found
    raise UsageError("the manifest changes too fast to append to it; try again", code="job-busy")


def savepoints(store_dir: Path | str) -> list[Savepoint]:
    """Every savepoint, the oldest first."""
    found = ManifestLog(Store(store_dir)).state.savepoints.values()
    return sorted(found, key=lambda each: (each.epoch or 0, each.name))


def _savepoint(manifest: Manifest, name: str) -> Savepoint:
    if name not in manifest.savepoints:
        names = ", ".join(sorted(manifest.savepoints)) or "none"
        raise UsageError(f"there is no savepoint {name!r} (have: {names})", code="savepoint-unknown")
    return manifest.savepoints[name]


def epoch_meant(store_dir: Path | str, text: str) -> int:
    """The epoch that somebody means by a number, a savepoint's name or a time: of a time, the newest kept one that was
    cut by then."""
    if text.isascii() and text.isdigit():
        return int(text)
    manifest = ManifestLog(Store(store_dir)).state
    if text[:1].isalpha():
        return _savepoint(manifest, text).epoch or 0
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is no epoch, no savepoint and no time; give a number, a name, or a time such as "
            "2026-05-01T14:30 (UTC, unless it says otherwise)",
            code="rollback-to",
        ) from None
    at_ms = (given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1000
    kept = {epoch for lineages in manifest.vertices.values() for each in lineages.values() for epoch in each.commits}
    epochs = [epoch for epoch in kept if epoch in manifest.cuts and 0 < manifest.cuts[epoch].at_ms <= at_ms]
    if not epochs:
        raise UsageError(
            f"nothing of what was cut by {text} is kept; resurge job show says how far back a rollback can go",
            code="rollback-beyond-horizon",
        )
    return max(epochs)
