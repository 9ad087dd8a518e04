"""State of a physical vertex: a base and deltas in files, and a cache in the worker that catches up.

A snapshot of epoch e is a chain of file names: a base, then one delta per epoch. A task writes only what changed
(O(change)); when the deltas outweigh the base, or the chain is long, it writes a new base instead. A chain is also how
much one damaged base takes with it, so collection keeps two that have no file in common.

The base of a large state is written in pieces, one with each delta: no epoch writes all of it. A piece is a delta that
also says a part of all keys, so it stands in the chain like any other. Once the last one is written the chain begins
with the first one.

The name of a file says for which slots it was written. A range that was split off starts from a base of more slots than
it owns: the task drops the other keys when it loads that state, and writes a base instead of a delta.

Spark reuses Python workers without affinity, so the pipeline a worker kept is often some epochs old. The cache
therefore holds, per physical vertex, the pipeline and the chain it stands for: when that chain is a prefix of the one
asked for, only the missing deltas are applied. It is keyed by file names, which are unique per attempt, so what an
uncommitted attempt left behind never matches. It lives at module level: inside a closure it would be pickled by value
and miss every time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cloud_backend.spark.storage.file_names import piece_in, piece_suffix, slots_in
from cloud_backend.spark.storage.store import Store
from shared.engine.pipeline import Pipeline

CACHE_PIPELINES_MAX = 64
DELTAS_MIN = 8  # below this a new base is not worth its bytes
PIECE_BYTES = 128 * 1024  # a chain of two and more of these is written anew in pieces
PIECES_MAX = 64


@dataclass(slots=True)
class Cached:
    chain: tuple[str, ...]
    pipeline: Pipeline


@dataclass(frozen=True, slots=True)
class Loaded:
    pipeline: Pipeline
    how: str  # new | hit | caught-up | loaded
    bytes_read: int


_cache: OrderedDict[tuple[str, str, str], Cached] = OrderedDict()
CacheKey = tuple[str, str, str]  # store, vertex with plan version, range


def load(store: Store, key: CacheKey, chain: Sequence[str], make: Callable[[], Pipeline]) -> Loaded:
    """The pipeline in the state that the chain stands for. It leaves the cache: `keep` puts it back when all went well,
    and a pipeline that an exception interrupted is never met again."""
    cached = _cache.pop(key, None)
    wanted = tuple(chain)
    if cached is not None and wanted and (known := _known(cached.chain, wanted)):
        read = _apply(store, cached.pipeline, wanted[known:])
        return Loaded(cached.pipeline, "caught-up" if len(wanted) > known else "hit", read)
    pipeline = make()
    if not wanted:
        return Loaded(pipeline, "new", 0)
    return Loaded(pipeline, "loaded", restore(store, pipeline, wanted))


def _known(chain: tuple[str, ...], wanted: tuple[str, ...]) -> int:
    """How many files of the chain that is wanted the other one ends with; 0 where it stands for no such state. Once its
    last piece is written, a chain begins with what was in the middle before."""
    first = chain.index(wanted[0]) if wanted[0] in chain else len(chain)
    known = len(chain) - first
    return known if chain[first:] == wanted[:known] else 0


def restore(store: Store, pipeline: Pipeline, chain: Sequence[str]) -> int:
    """Put the pipeline into the state that the chain stands for; returns how many bytes that took."""
    if piece_in(chain[0]) is not None:
        return _apply(store, pipeline, chain)  # what the pieces say is all there is
    base = store.read_file(chain[0])
    pipeline.restore(base)
    return len(base) + _apply(store, pipeline, chain[1:])


def keep(key: CacheKey, chain: Sequence[str], pipeline: Pipeline) -> None:
    _cache[key] = Cached(tuple(chain), pipeline)
    while len(_cache) > CACHE_PIPELINES_MAX:
        _cache.popitem(last=False)


def forget_all() -> None:
    """Empty the cache, as a fresh worker has it."""
    _cache.clear()


def save(
    store: Store,
    prefix: str,
    pipeline: Pipeline,
    chain: Sequence[str],
    sizes: Sequence[int],
    *,
    chain_max: int = 32,
    whole: bool = False,
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Write the snapshot of an epoch after the one `chain` stands for; returns the new chain and its file sizes.
    `whole`: a base, because something was taken out of the state, which no delta says."""
    narrowed = bool(chain) and slots_in(chain[0]) != slots_in(prefix)
    if not chain or whole or narrowed:
        return _base(store, prefix, pipeline)
    piece = _next_piece(chain, sizes, chain_max)
    if piece is None:
        data = pipeline.changes_since_snapshot()
        return (*chain, store.write_file(prefix, "delta", data)), (*sizes, len(data))
    part, parts = piece
    if parts == 1:
        return _base(store, prefix, pipeline)
    data = pipeline.piece(part, parts)
    chain = (*chain, store.write_file(prefix, piece_suffix(part, parts), data))
    sizes = (*sizes, len(data))
    first = len(chain) - parts if part == parts - 1 else 0  # one with each delta: they follow one another
    return chain[first:], sizes[first:]


def _base(store: Store, prefix: str, pipeline: Pipeline) -> tuple[tuple[str, ...], tuple[int, ...]]:
    data = pipeline.snapshot()
    return (store.write_file(prefix, "base", data),), (len(data),)


def _next_piece(chain: Sequence[str], sizes: Sequence[int], chain_max: int) -> tuple[int, int] | None:
    """Which piece of a new base is to be written now, and of how many; None where a delta does. One of one is a base as
    it always was."""
    last = piece_in(chain[-1])
    if last is not None and last[0] + 1 < last[1]:
        return last[0] + 1, last[1]
    first = piece_in(chain[0])
    of_base = 1 if first is None else first[1]
    base, deltas = sum(sizes[:of_base]), sum(sizes[of_base:])
    if len(chain) - of_base + 1 < chain_max and (len(chain) - of_base < DELTAS_MIN or deltas < base):
        return None
    return 0, max(1, min(PIECES_MAX, (base + deltas) // PIECE_BYTES))  # a base written early may be small


def _apply(store: Store, pipeline: Pipeline, deltas: Sequence[str]) -> int:
    read = 0
    for name in deltas:
        changes = store.read_file(name)
        pipeline.apply_changes(changes)
        read += len(changes)
    return read
