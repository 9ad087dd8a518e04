"""What a node writes down: results, and what it must know after a restart."""

from __future__ import annotations

import pytest

from shared.errors import DamagedData
from shared.hosting.sink import Sink, read_sink
from shared.hosting.store import MEMORY, Memory, StoreMemory, persist
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.spool.evict import Evict
from shared.spool.memory import MemoryDisk
from shared.spool.ring import Spool
from shared.wire.frame import encode
from shared.wire.messages import FORGOTTEN, LostRange

KEY = EdgeKey(DeviceId(b"q" * 16), 1, EdgeId(7))


def frame(lo: int, hi: int) -> bytes:
    return encode(LostRange(KEY.device, KEY.incarnation, KEY.edge, lo, hi, FORGOTTEN, 1).frame())


def spool() -> Spool:
    return Spool.create(
        MemoryDisk(), capacity_bytes=1 << 16, device=KEY.device, incarnation=1, evict=Evict.BLOCK
    )  # fmt: skip


def test_a_sink_goes_on_behind_what_is_whole_and_writes_over_a_torn_tail() -> None:
    disk, sources = MemoryDisk(), spool()
    sink = Sink(disk, "q", "out", KEY)
    for lo, hi in ((0, 3), (3, 4)):
        persist(sink.take(frame(lo, hi), lo, hi, lost=True), disk, sources)
    assert (sink.taken, sink.lost) == (4, 4)
    file = disk.open(sink.name)
    whole = file.size()
    file.write(whole, frame(4, 9)[:-3])
    again = Sink(disk, "q", "out", KEY)
    assert again.taken == 4
    persist(again.take(frame(4, 5), 4, 5, lost=True), disk, sources)
    assert [(each.seq, each.seq + each.count) for each, _ in read_sink(disk, sink.name)] == [(0, 3), (3, 4), (4, 5)]
    assert disk.open(sink.name).size() == whole + len(frame(4, 5)), "nothing of the torn tail is left"


def test_a_host_remembers_what_it_began() -> None:
    disk = MemoryDisk()
    assert Memory.read(disk) == Memory()
    memory = Memory(3, b"{}", 8, 2, {"q/1/v": 5})
    persist(StoreMemory(memory.encode()), disk, spool())
    assert Memory.read(disk) == memory


@pytest.mark.parametrize("data", [b"", b"[]", b'{"format": 2}', b'{"format": 1}'])
def test_a_memory_that_cannot_be_read_is_damaged(data: bytes) -> None:
    disk = MemoryDisk()
    disk.replace(MEMORY, data)
    with pytest.raises(DamagedData):
        Memory.read(disk)
