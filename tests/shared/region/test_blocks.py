"""A snapshot in blocks: whatever comes, in whatever order, only what was announced is ever whole."""

from __future__ import annotations

import hashlib
from random import Random

import pytest
from hypothesis import strategies as st

from shared.errors import PeerError
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.region.blocks import HASH_BYTES, Blocks, Gathering, layout
from shared.wire.broadcast import BLOCK_BYTES, Announcement, Block
from tests.examples_drawn import examples_drawn

KEY = EdgeKey(DeviceId(b"q" * 16), 1, EdgeId(7))


def announced(blocks: Blocks) -> Announcement:
    return Announcement(KEY, DeviceId(b"s" * 16), 1, 0, 1, blocks.length, blocks.root)


def made(length: int) -> bytes:
    return b"".join(hashlib.sha256(b"%d" % at).digest() for at in range(-(-length // 32)))[:length]


@pytest.mark.parametrize(
    ("length", "listed", "data"), [(1, 1, 1), (1024, 1, 1), (1025, 1, 2), (65_536, 1, 64), (65_537, 2, 65)]
)
def test_the_hash_list_has_sixteen_bytes_for_every_kilobyte(length: int, listed: int, data: int) -> None:
    assert layout(length) == (listed, data)
    blocks = Blocks(made(length))
    assert len(blocks) == listed + data
    assert sum(blocks.sizes) == length + HASH_BYTES * data


@examples_drawn(30, 500, st.integers(1, 200_000), st.integers(0, 1 << 30))
def test_blocks_in_any_order_and_twice_give_the_snapshot(length: int, seed: int) -> None:
    random, data = Random(seed), made(length)
    blocks = Blocks(data)
    gathering = Gathering(announced(blocks))
    order = [*range(len(blocks)), *random.choices(range(len(blocks)), k=5)]
    random.shuffle(order)
    for number in order:
        gathering.add(blocks.block(b"i" * 8, number))
    assert (gathering.whole, gathering.wrong) == (data, 0)


@examples_drawn(40, 1000, st.integers(1, 140_000), st.integers(0, 1 << 30), st.booleans())
def test_what_is_forged_is_never_in_it(length: int, seed: int, of_list: bool) -> None:
    """Forged blocks before, between and behind the true ones; those that were displaced come again, as they lack."""
    random, data = Random(seed), made(length)
    blocks = Blocks(data)
    gathering = Gathering(announced(blocks))
    refused = 0
    while gathering.whole is None:
        lacks = [number for number in range(len(blocks)) if not gathering.bits >> number & 1]
        random.shuffle(lacks)
        for number in lacks:
            forge = random.random() < 0.05 and refused < 100 and (of_list or number >= layout(length)[0])
            block = blocks.block(b"i" * 8, number)
            altered = block._replace(data=bytes(len(block.data) - 1) + bytes([block.data[-1] ^ 1]))
            try:
                gathering.add(altered if forge else block)
            except PeerError as error:
                refused += error.code == "broadcast-hash"
    assert gathering.whole == data


@pytest.mark.parametrize(("number", "size"), [(3, BLOCK_BYTES), (1 << 20, 5), (0, 31), (2, 1024), (1, 1023)])
def test_a_block_that_was_not_announced_takes_no_room(number: int, size: int) -> None:
    gathering = Gathering(announced(Blocks(made(1500))))  # a list of 32 bytes, 1024 and 476 bytes
    with pytest.raises(PeerError, match="broadcast-hash"):
        gathering.add(Block(b"i" * 8, number, bytes(size)))
    assert gathering.bits == 0
