"""Spools and columns written by version 1 are read for ever; a change of these files is a new version."""

from __future__ import annotations

import base64
import json
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from shared.batch import Batch
from shared.identity import EdgeId
from shared.language.schema import KINDS, Schema, dtype
from shared.spool.entry import DataEntry, Reason, SpooledBatch, Tombstone
from shared.spool.evict import Evict
from shared.spool.memory import MemoryDisk
from shared.spool.ring import Spool
from shared.wire import codecs
from shared.wire.columns import decode, encode
from shared.wire.uncompressed_rows import write_rows
from tests.shared.spool.story import DEVICE

# The same life in the same format: first with a tombstone for each batch given up, then with one that grew over them,
# then with one trim an edge in the list of what was given up, where there were two that said the same.
SPOOLS = [Path(__file__).with_name(f"spool_v1{name}.json") for name in ("", "_grown", "_one_trim")]
COLUMNS = Path(__file__).with_name("columns_v1.json")
EDGE = EdgeId(0x1122334455667788)


def write_spool() -> MemoryDisk:
    disk = MemoryDisk()
    spool = Spool.create(
        disk, capacity_bytes=4096, device=DEVICE, incarnation=3, evict=Evict.OLDEST, journal_bytes=4096
    )
    for turn in range(7):
        lo = spool.head(EDGE)
        payload = bytes(range(256)) * (turn + 1)
        spool.append(SpooledBatch(EDGE, lo, lo + 10, 9, 77, 2, 1000 + turn, 1, payload, turn, 5_000_000, 42))
        spool.sync()
    spool.trim(EDGE, next(iter(spool.pending(EDGE))).hi)
    spool.append(SpooledBatch(EDGE, 70, 75, 5, 77, 2, 2000, 1, b"last"))
    spool.sync()
    return disk


def all_kinds() -> Batch:
    rows = np.arange(40)
    columns: dict[str, np.ndarray] = {}
    for kind in KINDS:
        if kind == "str":
            columns[kind] = np.array([f"tram {n % 3}" for n in rows], dtype=dtype("str"))
        else:
            columns[kind] = ((rows * 37) % 101).astype(dtype(kind))
    columns["float32"] = (columns["float32"] * np.float32(0.01)).astype(np.float32)
    columns["float64"][3:5] = [np.nan, -0.0]
    schema = Schema.of({kind: kind for kind in KINDS})
    return Batch(schema, columns, 1_700_000_000_000_000 + rows * 20_000, rows * 2 + 100, 100, 200, 5, 3)


def pack(disk: MemoryDisk) -> dict[str, str]:
    return {name: base64.b64encode(zlib.compress(bytes(file.content), 9)).decode() for name, file in disk.files.items()}


def frozen_disk(path: Path) -> MemoryDisk:
    disk = MemoryDisk()
    for name, packed in json.loads(path.read_text()).items():
        disk.replace(name, zlib.decompress(base64.b64decode(packed)))
    return disk


@pytest.mark.covers("NB-5")
@pytest.mark.parametrize("path", SPOOLS, ids=lambda path: path.stem)
def test_a_spool_of_version_1_is_read(path: Path) -> None:
    spool = Spool.open(frozen_disk(path))
    assert (spool.device, spool.incarnation, spool.evict) == (DEVICE, 3, Evict.OLDEST)
    assert spool.head(EDGE) == 75
    assert spool.ledger.of(EDGE) == [Tombstone(EDGE, 0, 50, Reason.EVICTED)]
    entries = [entry for entry in spool.pending(EDGE) if isinstance(entry, DataEntry)]
    assert [(e.lo, e.hi, e.priority) for e in entries] == [(50, 60, 5), (60, 70, 6), (70, 75, 0)]
    last = spool.read(entries[-1])
    assert last == SpooledBatch(EDGE, 70, 75, 5, 77, 2, 2000, 1, b"last")


def test_the_same_life_writes_the_same_bytes() -> None:
    written, frozen = write_spool(), frozen_disk(SPOOLS[-1])
    assert written.names() == frozen.names()
    for name in frozen.names():
        assert written.files[name].content == frozen.files[name].content, name


def test_columns_of_version_1_are_read() -> None:
    frozen = json.loads(COLUMNS.read_text())
    expected = all_kinds()
    batch = decode(frozen["codec"], bytes.fromhex(frozen["payload"]), expected.schema, lo=100, hi=200)
    assert batch.seq.tolist() == expected.seq.tolist()
    assert batch.time_us.tolist() == expected.time_us.tolist()
    for name in expected.schema.names:
        ours, theirs = batch.columns[name], expected.columns[name]
        assert ours.tolist() == theirs.tolist() if name == "str" else ours.tobytes() == theirs.tobytes()


CODECS = Path(__file__).with_name("codecs_v1.json")


@pytest.mark.parametrize("codec", ["none", "deflate"])
def test_rows_of_every_codec_are_read(codec: str) -> None:
    frozen, expected = json.loads(CODECS.read_text())[codec], all_kinds()
    batch = codecs.decode(frozen["codec"], bytes.fromhex(frozen["payload"]), expected.schema, lo=100, hi=200)
    assert write_rows(batch) == write_rows(expected)


def test_plain_rows_are_written_as_ever() -> None:
    assert codecs.encode(all_kinds(), "none")[1].hex() == json.loads(CODECS.read_text())["none"]["payload"]


if __name__ == "__main__" and sys.argv[1:] == ["freeze"]:
    SPOOLS[-1].write_text(json.dumps(pack(write_spool()), indent=1) + "\n")
    packed = {name: codecs.encode(all_kinds(), name) for name in ("none", "deflate")}
    rows = {name: {"codec": number, "payload": payload.hex()} for name, (number, payload) in packed.items()}
    CODECS.write_text(json.dumps(rows, indent=1) + "\n")
    codec, payload = encode(all_kinds())
    COLUMNS.write_text(json.dumps({"codec": codec, "payload": payload.hex()}, indent=1) + "\n")
