"""A snapshot in blocks of 1 KB that anybody may carry: those who gather it believe no block before its hash is right.

Blocks 0..m are the hash list, 16 bytes for every data block; together they must give the root that was announced. The
data blocks follow, and each is checked alone. Blocks that come before the list is whole wait, unbelieved; they take no
more room than was announced.
"""

from __future__ import annotations

import hashlib

from shared.errors import PeerError
from shared.wire.broadcast import BLOCK_BYTES, Announcement, Block

HASH_BYTES = 16


def layout(length: int) -> tuple[int, int]:
    """How many blocks the hash list of so many bytes has, and how many the bytes themselves."""
    data = -(-length // BLOCK_BYTES)
    return -(-data * HASH_BYTES // BLOCK_BYTES), data


def _hash(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=HASH_BYTES).digest()


def _split(data: bytes) -> list[bytes]:
    return [data[at : at + BLOCK_BYTES] for at in range(0, len(data), BLOCK_BYTES)]


class Blocks:
    """A snapshot that is here whole, as its blocks."""

    def __init__(self, data: bytes) -> None:
        parts = _split(data)
        hashes = b"".join(map(_hash, parts))
        self.length = len(data)
        self.root = hashlib.sha256(hashes).digest()
        self._parts = _split(hashes) + parts
        self.sizes = tuple(map(len, self._parts))

    def __len__(self) -> int:
        return len(self._parts)

    def block(self, id: bytes, index: int) -> Block:
        return Block(id, index, self._parts[index])


class Gathering:
    """The blocks of one announced snapshot that are here, as they come."""

    def __init__(self, announcement: Announcement) -> None:
        self.announcement = announcement
        self._list_blocks, self._data_blocks = layout(announcement.length)
        self.blocks = self._list_blocks + self._data_blocks
        self._hashes = b""  # once the list is whole
        self._here: dict[int, bytes] = {}
        self.bits = 0
        self.wrong = 0  # blocks that were not what was announced

    def _size(self, index: int) -> int:
        of_list = index < self._list_blocks
        whole = self._data_blocks * HASH_BYTES if of_list else self.announcement.length
        return min(BLOCK_BYTES, whole - BLOCK_BYTES * (index if of_list else index - self._list_blocks))

    def add(self, block: Block) -> None:
        """Take a block, unless it is here. PeerError where it is none of these, or not what was announced."""
        index, data = block.number, block.data
        if index >= self.blocks or len(data) != self._size(index):
            raise PeerError("a block that its announcement does not have", code="broadcast-hash")
        if self.bits >> index & 1:
            return
        if index >= self._list_blocks and self._hashes and not self._is_right(index, data):
            self.wrong += 1
            raise PeerError("a block has another hash than was announced", code="broadcast-hash")
        self._put(index, data)
        if not self._hashes and self.bits & (listed := (1 << self._list_blocks) - 1) == listed:
            self._read_list()

    def _put(self, index: int, data: bytes) -> None:
        self._here[index] = data
        self.bits |= 1 << index

    def _drop(self, index: int) -> None:
        del self._here[index]
        self.bits &= ~(1 << index)
        self.wrong += 1

    def _is_right(self, index: int, data: bytes) -> bool:
        at = HASH_BYTES * (index - self._list_blocks)
        return _hash(data) == self._hashes[at : at + HASH_BYTES]

    def _read_list(self) -> None:
        hashes = b"".join(self._here[index] for index in range(self._list_blocks))
        if hashlib.sha256(hashes).digest() != self.announcement.root:
            for index in range(self._list_blocks):  # nobody can say which of them it was
                self._drop(index)
            raise PeerError("a hash list does not give the root that was announced", code="broadcast-hash")
        self._hashes = hashes
        waited = [index for index in self._here if index >= self._list_blocks]
        wrong = [index for index in waited if not self._is_right(index, self._here[index])]
        for index in wrong:
            self._drop(index)
        if wrong:
            raise PeerError("blocks that came before their hash list are not in it", code="broadcast-hash")

    @property
    def whole(self) -> bytes | None:
        """The snapshot, once every block of it is here and right."""
        if not self._hashes or self.bits.bit_count() < self.blocks:
            return None
        return b"".join(self._here[index] for index in range(self._list_blocks, self.blocks))
