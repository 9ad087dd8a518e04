"""Base and deltas, and a cache that catches up instead of loading again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cloud_backend.spark.control.driver import JobSettings
from cloud_backend.spark.storage.file_names import piece_in
from cloud_backend.spark.storage.store import Store
from cloud_backend.spark.task import state
from shared.errors import DamagedData
from tests.spark.worlds import World, trips_plan


class Counters:
    """A pipeline reduced to what the cache sees of one: a map, its snapshot and its changes."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.dirty: set[str] = set()

    def add(self, key: str) -> None:
        self.values[key] = self.values.get(key, 0) + 1
        self.dirty.add(key)

    def snapshot(self) -> bytes:
        self.dirty.clear()
        return json.dumps(self.values).encode()

    def restore(self, data: bytes) -> None:
        self.values = json.loads(data)

    def changes_since_snapshot(self) -> bytes:
        changes = {key: self.values[key] for key in sorted(self.dirty)}
        self.dirty.clear()
        return json.dumps(changes).encode()

    def piece(self, part: int, parts: int) -> bytes:
        self.dirty |= {*[*self.values][part::parts]}
        return self.changes_since_snapshot()

    def apply_changes(self, data: bytes) -> None:
        self.values |= json.loads(data)


KEY = ("store", "vertex", "0-1024")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    state.forget_all()
    store = Store(tmp_path)
    store.create()
    return store


def epoch(
    store: Store, chain: tuple[str, ...], sizes: tuple[int, ...], key: str
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    loaded = state.load(store, KEY, chain, Counters)
    loaded.pipeline.add(key)  # type: ignore[attr-defined]
    chain, sizes = state.save(store, "v", loaded.pipeline, chain, sizes)
    state.keep(KEY, chain, loaded.pipeline)
    return chain, sizes


def test_a_worker_that_missed_epochs_applies_only_their_deltas(store: Store) -> None:
    chain: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    for key in "aab":
        chain, sizes = epoch(store, chain, sizes, key)
    mine = state._cache[KEY]
    for key in "bc":  # another worker goes on
        state.forget_all()
        chain, sizes = epoch(store, chain, sizes, key)
    state._cache[KEY] = mine
    loaded = state.load(store, KEY, chain, Counters)
    assert loaded.how == "caught-up"
    assert loaded.bytes_read == sum(sizes[-2:])
    assert loaded.pipeline.values == {"a": 2, "b": 2, "c": 1}  # type: ignore[attr-defined]


def test_what_an_uncommitted_attempt_left_never_matches(store: Store) -> None:
    chain, sizes = epoch(store, (), (), "a")
    epoch(store, chain, sizes, "zombie")
    loaded = state.load(store, KEY, chain, Counters)
    assert loaded.how == "loaded"
    assert loaded.pipeline.values == {"a": 1}  # type: ignore[attr-defined]


def test_a_pipeline_that_was_interrupted_is_not_met_again(store: Store) -> None:
    chain, _ = epoch(store, (), (), "a")
    assert state.load(store, KEY, chain, Counters).how == "hit"
    assert state.load(store, KEY, chain, Counters).how == "loaded"  # nobody called keep


def test_deltas_are_compacted_once_they_outweigh_the_base(store: Store) -> None:
    chain: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    lengths = []
    for number in range(60):
        chain, sizes = epoch(store, chain, sizes, f"key{number % 5}")
        lengths.append(len(chain))
    assert max(lengths) <= state.DELTAS_MIN + 2
    state.forget_all()
    assert state.load(store, KEY, chain, Counters).pipeline.values == {f"key{i}": 12 for i in range(5)}  # type: ignore[attr-defined]


@pytest.mark.covers("SO-26")
def test_a_large_base_is_written_in_pieces_and_every_state_on_the_way_can_be_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "PIECE_BYTES", 500)
    keys = [f"key{number}" for number in range(200)]
    loaded = state.load(store, KEY, (), Counters)
    loaded.pipeline.values = dict.fromkeys(keys, 0)  # type: ignore[attr-defined]
    chain, sizes = state.save(store, "v", loaded.pipeline, (), ())
    state.keep(KEY, chain, loaded.pipeline)
    (base,) = sizes
    wanted = dict.fromkeys(keys, 0)
    began_with, written = set(), []
    for number in range(120):
        chain, sizes = epoch(store, chain, sizes, keys[number * 7 % 200])
        wanted[keys[number * 7 % 200]] += 1
        written.append(sizes[-1])
        began_with.add(chain[0])
        fresh = Counters()
        state.restore(store, fresh, chain)  # type: ignore[arg-type]
        assert fresh.values == wanted
        assert state._cache[KEY].pipeline.values == wanted  # type: ignore[attr-defined]
    assert len(began_with) >= 3
    assert max(written) < base / 3
    assert len(chain) < 32 + 2 * state.PIECES_MAX


def test_a_worker_that_was_behind_when_the_last_piece_came_applies_only_what_it_misses(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "PIECE_BYTES", 20)
    chain: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    piece = None
    for number in range(60):
        mine, behind = (state._cache[KEY], chain) if chain else (None, chain)
        state._cache.clear()
        chain, sizes = epoch(store, chain, sizes, f"key{number % 5}")
        piece = piece_in(chain[-1])
        if behind and chain[0] in behind[1:]:
            break
    assert piece is not None
    assert piece[0] == piece[1] - 1
    assert mine is not None
    state._cache[KEY] = mine
    loaded = state.load(store, KEY, chain, Counters)
    assert (loaded.how, loaded.bytes_read) == ("caught-up", sizes[-1])


@pytest.mark.parametrize("damage", ["flip", "remove"])
def test_a_damaged_or_missing_state_file_is_found(store: Store, damage: str) -> None:
    chain, sizes = epoch(store, (), (), "a")
    chain, sizes = epoch(store, chain, sizes, "b")
    path = store.files / chain[1]
    if damage == "flip":
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    else:
        path.unlink()
    state.forget_all()
    with pytest.raises(DamagedData, match=chain[1]):
        state.load(store, KEY, chain, Counters)


def test_a_job_keeps_its_snapshots_as_short_as_its_settings_say(tmp_path: Path) -> None:
    settings = JobSettings(epoch_s=0.0, balance=False, chain_max=2)
    world = World(tmp_path, trips_plan(), devices=2, settings=settings)
    driver = world.driver()
    for _ in range(4):
        world.append(10, batches=1)
        driver.drain()
    commits = [each for lineage in driver.manifest.vertices["trips"].values() for each in lineage.commits.values()]
    lengths = {len(part.chain) for committed in commits for part in committed.state}
    assert lengths == {1, 2}
    world.check()
