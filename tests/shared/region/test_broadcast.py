"""Phases of a broadcast: what is sent again, when it ends, and what a receiver refuses."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from shared.errors import PeerError
from shared.identity import DeviceId, EdgeId, EdgeKey
from shared.region import broadcast
from shared.region.blocks import Blocks
from shared.region.broadcast import Broadcast, Phases, Question, Receiving, Sending, worth_it
from shared.region.tree import Feeding, children
from shared.wire.broadcast import BLOCK_BYTES, Announcement, Block
from tests.examples_drawn import examples_drawn
from tests.shared.region.test_blocks import KEY, announced, made

KB = 1024
ALL = (1 << 8192) - 1
EVEN = sum(1 << at for at in range(1, 8192, 2))  # messages are counted from 1 in the paper
ODD = ALL ^ EVEN


@pytest.mark.covers("MS-19", "MS-20", "MS-21")
def test_the_three_phases_of_the_papers_figure_6() -> None:
    phases = Phases([BLOCK_BYTES] * 8192)
    phases.begin({"A": 0, "B": 0, "C": 0})
    assert phases.lacking([0, 0, 0]) == ALL

    after = {"A": 0b111, "B": EVEN, "C": ODD}
    first = phases.end(ALL, after)
    assert (first.gain, first.cost) == (8195 * KB, 8195 * KB)
    assert first.cost <= first.gain, "it goes on"
    assert phases.lacking(after.values()) == ALL

    after = {"A": ALL, "B": ALL, "C": ODD}
    second = phases.end(ALL, after)
    assert (second.gain, second.cost) == (12285 * KB, 8195 * KB)
    resent = phases.lacking(after.values())
    assert (resent, phases.size(resent)) == (EVEN, 4096 * KB)

    third = phases.end(resent, {"A": ALL, "B": ALL, "C": ALL & ~0b10})
    assert (third.gain, third.cost) == (4095 * KB, 4099 * KB)
    assert third.cost > third.gain, "it ends"


def sending(length: int, receivers: str, reached: str | None = None) -> tuple[Sending, Blocks]:
    blocks = Blocks(made(length))
    return Sending(announced(blocks), blocks, receivers, lambda node: node in (reached or receivers), 0.0), blocks


def rounds(one: Sending, losses: list[dict[str, int]]) -> list[int]:
    """Play it: in each round these blocks (as bits) are lost at these nodes. The blocks sent in each phase."""
    has = dict.fromkeys(one.receivers, 0)
    phases, now = [], 0.0
    for lost in losses:
        sent = 0
        asked: set[str] = set()
        while not asked and not one.over:
            for each in one.take():
                if isinstance(each, Question):
                    asked.add(each.node)
                else:
                    number = Block.of(each.body).number
                    sent |= 1 << number
                    for node in each.nodes:
                        has[node] |= (1 << number) & ~lost.get(node, 0)
            now += 0.02
            one.wake(now)
        phases.append(sent)
        for node in sorted(asked):
            one.bitmap(node, has[node], now)
    return phases


def test_a_block_that_one_lacks_is_sent_again_to_those_who_lack_it() -> None:
    one, blocks = sending(100 * KB, "abcdefg")
    everything = (1 << len(blocks)) - 1
    losses: list[dict[str, int]] = [{}, {"a": 0b1000, "b": 0b110000, "c": 0b11000000}, {}]
    assert rounds(one, losses) == [0, everything, 0], "five blocks, each lacking at one: cheaper sent to them alone"
    assert one.over
    assert set(one.missing) == set("abc")
    one, blocks = sending(100 * KB, "abcdefg")
    assert rounds(one, [{}, {"a": 0b1110, "b": 0b1110, "c": 0b1010}, {}])[2] == 0b1110
    assert one.missing == ()


def test_nobody_is_waited_for_who_does_not_answer() -> None:
    one, _ = sending(100 * KB, "abc", reached="ab")
    assert {each.node for each in one.take() if isinstance(each, Question)} == {"a", "b", "c"}
    one.bitmap("a", 0, 0.1)
    one.lost("b", 0.2)
    assert one.over, "one node that lacks all of it gets it in exchanges"
    one, _ = sending(100 * KB, "abc")
    one.take()
    one.bitmap("a", 0, 0.1)
    one.bitmap("b", 0, 0.1)
    one.wake(broadcast.ANSWER_S)
    assert {each.nodes for each in one.take() if isinstance(each, Broadcast)} == set(), "its first burst is due now"
    one.wake(broadcast.ANSWER_S)
    assert {each.nodes for each in one.take() if isinstance(each, Broadcast)} == {("a", "b")}


def test_what_is_still_in_the_air_is_not_sent_again() -> None:
    """A slow medium carries the end of a phase while its first bitmaps are made."""
    one, blocks = sending(100 * KB, "abc")
    everything, now, phases = (1 << len(blocks)) - 1, 0.0, 0
    one.take()
    for node in "abc":
        one.bitmap(node, 0, now)
    while not any(isinstance(each, Question) for each in one.take()):
        now += 0.02
        one.wake(now)
    for came in (0, 10, 40, 80):
        for node in "abc":
            one.bitmap(node, (1 << came) - 1, now)
        assert not one.over
        assert not one.aired
        asked, since = [], now
        while not asked:
            now += 0.02
            one.wake(now)
            sent = one.take()
            phases += any(isinstance(each, Broadcast) for each in sent)
            asked = [each for each in sent if isinstance(each, Question)]
            assert now - since < 2 * broadcast.AGAIN_S_MAX
        one.wake(now + broadcast.AGAIN_S_MAX)
        one.take()
    one.bitmap("a", everything, now)
    assert one.aired, "the next may follow"
    one.bitmap("b", everything, now)
    one.bitmap("c", everything & ~0b1111_0000, now)
    assert not phases, "nothing was broadcast twice"
    assert one.over
    assert one.missing == ("c",), "four blocks that one lacks are sent to it"


def test_what_came_to_nobody_for_a_while_is_lost() -> None:
    one, blocks = sending(100 * KB, "abc")
    now = 0.0
    one.take()
    for node in "abc":
        one.bitmap(node, 0, now)
    sent = 0
    while now < 2 * broadcast.ANSWER_S:
        now += 0.02
        one.wake(now)
        for each in one.take():
            if isinstance(each, Question):
                one.bitmap(each.node, 0b111, now)
            else:
                sent += 1
    assert sent == len(blocks)
    assert one.over, "it gained less than it cost"
    assert one.missing == ("a", "b", "c")


def test_one_that_computes_is_waited_for_and_one_that_refuses_is_not() -> None:
    blocks = Blocks(made(100 * KB))
    heard = {"busy": -1.0, "refuses": 1.0, "a": 1.0, "b": 1.0}
    one = Sending(announced(blocks), blocks, heard, lambda _: True, 0.0, answered_at=heard.__getitem__)
    one.take()
    one.bitmap("a", 0, 0.1)
    one.bitmap("b", 0, 0.1)
    one.wake(broadcast.ANSWER_S)
    assert not any(isinstance(each, Broadcast) for each in one.take()), "one may still say that it has some"
    one.bitmap("busy", 0, 20.0)
    one.wake(20.0)
    assert {each.nodes for each in one.take() if isinstance(each, Broadcast)} == {("busy", "a", "b")}


def test_what_nobody_has_is_broadcast_without_a_question() -> None:
    blocks = Blocks(made(100 * KB))
    announcement = announced(blocks)
    one = Sending(announcement, blocks, "abc", lambda node: node != "c", 0.0, at_once=True)
    said, again = one.take()
    assert isinstance(said, Broadcast)
    assert said == again, "who misses it takes none of the blocks"
    assert Announcement.of_datagram(said.body) == announcement
    assert Announcement.of_datagram(blocks.block(announcement.id, 0).datagram()) is None
    one.wake(0.0)
    assert {each.nodes for each in one.take() if isinstance(each, Broadcast)} == {("a", "b")}


def test_what_is_small_or_for_one_node_is_not_broadcast() -> None:
    assert not worth_it(900, 7)
    assert worth_it(3000, 7)
    assert not worth_it(1 << 20, 1)
    assert worth_it(1 << 20, 2)


def other(name: bytes, length: int, sender: bytes = b"s") -> Announcement:
    key = EdgeKey(DeviceId(b"q" * 16), 1, EdgeId(int.from_bytes(name, "little")))
    return Announcement(key, DeviceId(sender * 16), 1, 0, 1, length, bytes(32))


def test_one_node_cannot_announce_more_than_its_share_nor_all_more_than_theirs() -> None:
    receiving = Receiving(DeviceId(b"r" * 16))
    most = broadcast.SENDER_BYTES_MAX
    first = receiving.announced(other(b"1", most - 1))
    assert receiving.announced(other(b"1", most - 1)) is first, "asked again"
    with pytest.raises(PeerError, match="broadcast-quota"):
        receiving.announced(other(b"2", 2))
    receiving.announced(other(b"1", most))  # the next of the same vertex takes its place
    for number in range(3):
        receiving.announced(other(b"%d" % (number + 3), most, b"%d" % number))
    with pytest.raises(PeerError, match="broadcast-quota"):
        receiving.announced(other(b"9", 1, b"z"))
    receiving.keep_to([KEY])
    receiving.announced(other(b"9", 1, b"z"))


def test_what_nobody_announced_is_dropped_and_counted() -> None:
    receiving = Receiving(DeviceId(b"r" * 16))
    blocks = Blocks(made(3000))
    announcement = announced(blocks)
    block = blocks.block(announcement.id, 2)
    assert receiving.datagram(block.datagram()) is None
    receiving.announced(announcement)
    assert receiving.datagram(block.datagram()) is None
    assert receiving.datagram(blocks.block(announcement.id, 0).datagram()) is None
    assert receiving.datagram(Block(announcement.id, 3, bytes(1024)).datagram()) is None
    assert receiving.datagram(b"noise") is None
    assert receiving.refused == {"broadcast-unannounced": 1, "broadcast-hash": 1, "message-broadcast": 1}
    assert receiving.datagram(blocks.block(announcement.id, 1).datagram()) is None
    assert receiving.datagram(blocks.block(announcement.id, 3).datagram()) == (announcement, made(3000))


@examples_drawn(50, 2000, st.lists(st.text("abcdefgh", min_size=1, max_size=2), unique=True, min_size=1, max_size=20))
def test_from_the_sender_the_tree_reaches_everybody_once(order: list[str]) -> None:
    reached = [*children(order, "the sender")]
    for node in reached:
        reached += children(order, node)
    assert sorted(reached) == sorted(order)


@pytest.mark.covers("MS-22")
def test_a_parent_sends_what_the_child_lacks_and_gives_up_on_one_that_takes_nothing() -> None:
    blocks = Blocks(made(700 * KB))
    feeding = Feeding(announced(blocks), blocks, "child", 0.0)
    feed = feeding.take(0.0)
    assert feed is not None
    assert (feed[0], feed[1].feed) == ([], True), "it is asked first"
    assert feeding.take(0.1) is None
    everything = (1 << len(blocks)) - 1
    feeding.bitmap(everything & ~0b1010, 0.2)
    feed = feeding.take(0.2)
    assert feed is not None
    assert [block.number for block in feed[0]] == [1, 3]
    feeding.bitmap(everything & ~0b1010, 0.3)
    assert not feeding.over, "that may have been the answer to an earlier question"
    feeding.bitmap(everything & ~0b1010, 0.4)
    assert feeding.over, "it takes nothing: its state edge has to do"


def test_a_child_that_does_not_answer_is_asked_a_few_times() -> None:
    blocks = Blocks(made(7 * KB))
    feeding = Feeding(announced(blocks), blocks, "child", 0.0)
    asked = [feeding.take(now) for now in (0.0, 1.0, 4.0, 8.0, 12.0, 16.0)]
    assert [feed is not None for feed in asked] == [True, False, True, True, False, False]
    assert feeding.over
