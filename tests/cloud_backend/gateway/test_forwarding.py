"""What one gateway sends on to another, over real sockets on loopback."""

from __future__ import annotations

import asyncio
import os

import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from cloud_backend.gateway.forwarding import EXCHANGE, Forwarding, OnAnswer
from cloud_backend.gateway.ingest import Answer
from cloud_backend.gateway.keys import Keys
from shared.errors import UsageError
from tests.patience import LOOK_AGAIN_S, PATIENCE_S

KEY = bytes(range(32))
HERE = "127.0.0.1:0"


def echo(kind: bytes, address: str, body: bytes, tell: OnAnswer) -> None:
    tell(Answer(507, kind + address.encode() + body, 3, close=True, media_type=b"text/plain"))


def silent(kind: bytes, address: str, body: bytes, tell: OnAnswer) -> None: ...


async def asked(forwarding: Forwarding, owner: str, body: bytes) -> Answer | None:
    heard: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
    forwarding.forward(owner, EXCHANGE, "10.0.0.7", body, heard.set_result)
    return await asyncio.wait_for(heard, PATIENCE_S)


async def answered(forwarding: Forwarding, owner: str, body: bytes) -> Answer:
    """As a device that comes back until it is answered: connecting takes a moment."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await asked(forwarding, owner, body)
            if answer is not None:
                return answer
            await asyncio.sleep(LOOK_AGAIN_S)


def test_an_owner_gets_what_came_and_its_answer_goes_back_whole() -> None:
    async def run() -> None:
        front, owner = Forwarding(Keys(KEY), HERE, silent), Forwarding(Keys(KEY), HERE, echo)
        for each in (front, owner):
            each.start()
        front.meet({owner.address})
        large = os.urandom(1 << 20)
        assert await answered(front, owner.address, large) == (507, b"x10.0.0.7" + large, 3, True, b"text/plain")
        for each in (front, owner):
            await each.close()

    asyncio.run(run())


def test_who_asked_an_owner_that_goes_is_told_and_so_is_who_asks_nobody() -> None:
    async def run() -> None:
        front, owner = Forwarding(Keys(KEY), HERE, silent), Forwarding(Keys(KEY), HERE, echo)
        for each in (front, owner):
            each.start()
        assert await asked(front, owner.address, b"too early") is None
        front.meet({owner.address})
        await answered(front, owner.address, b"connected")
        owner._on_request = silent
        waiting = asyncio.create_task(asked(front, owner.address, b"never answered"))
        await asyncio.sleep(0)
        await owner.close()  # as when its process was killed: the connection ends
        assert await waiting is None
        front.meet(set())
        assert await asked(front, owner.address, b"too late") is None
        await front.close()

    asyncio.run(run())


def test_nobody_without_the_key_of_the_gateways_is_let_in() -> None:
    async def run() -> None:
        heard: list[bytes] = []

        def note(kind: bytes, address: str, body: bytes, tell: OnAnswer) -> None:
            heard.append(body)
            echo(kind, address, body, tell)

        owner, front = Forwarding(Keys(KEY), HERE, note), Forwarding(Keys(KEY), HERE, silent)
        context = zmq.Context()
        stranger = context.socket(zmq.DEALER)  # one that even knows the owner's public key
        stranger.linger = 0
        stranger.curve_publickey, stranger.curve_secretkey = zmq.curve_keypair()
        stranger.curve_serverkey = owner._public
        events = stranger.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_SUCCEEDED)
        stranger.connect(f"tcp://{owner.address}")
        stranger.send_multipart([bytes(8), EXCHANGE, b"", b"stranger"])
        for each in (owner, front):
            each.start()
        front.meet({owner.address})
        await answered(front, owner.address, b"one of us")
        event = await asyncio.to_thread(recv_monitor_message, events)
        assert event["event"] == zmq.EVENT_HANDSHAKE_FAILED_AUTH
        assert heard == [b"one of us"]
        for each in (owner, front):
            await each.close()
        stranger.disable_monitor()
        context.destroy()

    asyncio.run(run())


def test_an_address_that_is_taken_is_said_in_one_line() -> None:
    taken = zmq.Context()
    socket = taken.socket(zmq.ROUTER)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    with pytest.raises(UsageError, match="cannot listen for other gateways") as error:
        Forwarding(Keys(KEY), f"127.0.0.1:{port}", silent)
    assert error.value.code == "gateways-bind"
    taken.destroy()
