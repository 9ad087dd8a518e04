"""What a node that hosts others' vertices has on disk: these bytes are read for as long as there are such nodes."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from shared.hosting.kept_snapshot import TAKES_CHANGES, KeptSnapshot, pieces
from shared.hosting.sink import sink_file
from shared.hosting.store import Memory
from shared.identity import EdgeId
from shared.recovery.checkpoints import Permanent
from shared.recovery.marks import MarkId
from shared.spool.entry import SpooledBatch
from shared.spool.memory import MemoryDisk

SNAPSHOT = KeptSnapshot(
    "heart", 1, "qrs", 2,
    Permanent(MarkId(4, "s@1"), {"in": 10}, {"out": 5}, {"out": 3}, {"in": (8, 10)}),
    b"state", {"out": [SpooledBatch(EdgeId(9), 3, 5, 2, 1, 0, 44, 0, b"rows")]},
)  # fmt: skip
KEPT = (
    "525373740100af682b986c0c0000006901000000000000007305000000686561727469010000000000000073030000007172"
    "736902000000000000006c02000000690400000000000000730300000073403164010000007302000000696e690a00000000"
    "000000640100000073030000006f7574690500000000000000640100000073030000006f7574690300000000000000640100"
    "00007302000000696e6c02000000690800000000000000690a00000000000000620500000073746174656401000000730300"
    "00006f75746c010000006c090000006909000000000000006903000000000000006905000000000000006902000000000000"
    "00690100000000000000690000000000000000692c000000000000006900000000000000006204000000726f7773"
)
CHANGES = (
    "52537374010072d9cbf46c0d0000006902000000000000007305000000686561727469010000000000000073030000007172"
    "736902000000000000006c02000000690400000000000000730300000073403164010000007302000000696e690a00000000"
    "000000640100000073030000006f7574690500000000000000640100000073030000006f7574690300000000000000640100"
    "00007302000000696e6c02000000690800000000000000690a000000000000006c0200000062070000006265747765656e62"
    "040000006d6f7265640100000073030000006f75746c010000006c0900000069090000000000000069030000000000000069"
    "0500000000000000690200000000000000690100000000000000690000000000000000692c00000000000000690000000000"
    "0000006204000000726f77736220000000000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
)
PIECE = "2e0bc15b6c43527627ab9d1153bb6b8f1738bcd8b743de371131ec5acfed3f19"  # SHA-256 of the only piece
MEMORY = (
    b'{"begun": {"heart/1/qrs": 2}, "boot": 3, "deployment": "{}", "format": 1, "lease": 1, "version": 8}'
)  # fmt: skip
MEMORY_SIGNED = (
    b'{"begun": {"heart/1/qrs": 2}, "boot": 3, "coordinator": "' + b"6b" * 32 + b'", "deployment": "{}", "format": 1, '
    b'"lease": 1, "signature": "' + b"73" * 64 + b'", "version": 8}'
)


def test_a_kept_snapshot() -> None:
    assert SNAPSHOT.encode().hex() == KEPT
    assert KeptSnapshot.decode(bytes.fromhex(KEPT)) == SNAPSHOT


def test_a_kept_snapshot_that_says_what_changed() -> None:
    changes = replace(SNAPSHOT, state=b"more", onto=(b"between",), after=bytes(range(32)))
    assert changes.encode().hex() == CHANGES
    assert KeptSnapshot.decode(bytes.fromhex(CHANGES)) == changes
    assert TAKES_CHANGES == 1


def test_its_pieces_on_the_state_edge() -> None:
    (piece,) = pieces(SNAPSHOT.encode())
    assert hashlib.sha256(piece).hexdigest() == PIECE


def test_what_a_host_remembers() -> None:
    assert Memory(3, b"{}", 8, 1, {"heart/1/qrs": 2}).encode() == MEMORY


def test_what_a_host_remembers_of_a_signed_deployment() -> None:
    memory = Memory(3, b"{}", 8, 1, {"heart/1/qrs": 2}, b"s" * 64, b"k" * 32)
    assert memory.encode() == MEMORY_SIGNED
    disk = MemoryDisk()
    for stored, expected in ((MEMORY_SIGNED, memory), (MEMORY, Memory(3, b"{}", 8, 1, {"heart/1/qrs": 2}))):
        disk.replace("hosting", stored)
        assert Memory.read(disk) == expected


def test_the_name_of_a_sink_s_file() -> None:
    assert sink_file("heart", "beats", 1) == "sink-0b52eced71526f3e5b881b39c8c85c9d"
