"""Every decoder that reads what others wrote, each behind one call: here those of the gateway and the log."""

from __future__ import annotations

import asyncio
import tempfile
from functools import cache
from pathlib import Path

import uvicorn
from uvicorn.server import ServerState

from cloud_backend.gateway.app import create_app
from cloud_backend.gateway.http_protocol import ExchangeProtocol
from cloud_backend.log.heads import SignedHead
from cloud_backend.log.index import Index
from cloud_backend.log.log import Log
from cloud_backend.log.trimmed_index import TrimmedIndex, decode_trimmed_index, encode_trimmed_index, trimmed_index_name
from cloud_backend.log.verify import verify
from shared.errors import DamagedData, PeerError
from shared.identity import edge_id
from shared.sync.session import DeviceSession
from shared.wire.frame import decode_one, encode
from shared.wire.messages import Chain, Declare, Frontier, LostRange, ResultReceipt
from shared.wire.untrusted_text import parse_json
from tests.cloud_backend.gateway.conftest import settings_for
from tests.cloud_backend.gateway.test_http_protocol import HEAD, Transport
from tests.cloud_backend.log.builders import OTHER, PHONE, data, declare, tombstone
from tests.cloud_backend.log.crash_images import RecordingDisk
from tests.fuzz.decoder import Decoder
from tests.fuzz.files_and_texts import FILES_AND_TEXTS, whole
from tests.shared.sync.builders import SCHEMA, Node, pair

# -- exchanges, inside a good seal: what an enrolled device may send ----------------------------------------------------


@cache
def _node() -> tuple[Node, DeviceSession]:
    node = pair()
    session = DeviceSession(node.keys, node.device, 1)
    session.welcome(decode_one(node.gateway.exchange(session.hello()).body)[0], 0.0)
    return node, session


def _exchange(frame: bytes) -> str:
    """One frame whose length and checksum are made right again, so that what is inside gets read."""
    node, session = _node()
    node.gateway.log.clear()
    return str(node.gateway.exchange(session.seal([whole(frame)])).refused)


def _frames() -> list[bytes]:
    node, _ = _node()
    edge, device = edge_id("trips"), node.device
    return [
        encode(message.frame())
        for message in (
            Declare(device, 1, edge, "trips", SCHEMA),
            LostRange(device, 1, edge, 0, 5, "evicted"),
            Frontier(device, 1, edge, 0, 77),
            Chain(device, 1, edge, 0, 5, bytes(32)),
            ResultReceipt(device, 4),
        )
    ] + [data(PHONE, 0, 5, bytes(40)).frame]


def _hello(body: bytes) -> str:
    node, _ = _node()
    node.gateway.sessions.greet(body, 0.0)
    return "welcome"


def _hellos() -> list[bytes]:
    node, _ = _node()
    return [DeviceSession(node.keys, node.device, 1).hello()]


# -- HTTP -----------------------------------------------------------------------------------------------------------


@cache
def _server() -> tuple[asyncio.AbstractEventLoop, uvicorn.Config]:
    loop = asyncio.new_event_loop()

    async def make() -> uvicorn.Config:
        app = create_app(settings_for(Path(tempfile.mkdtemp(prefix="resurge-fuzz-"))))
        config = uvicorn.Config(app, http=ExchangeProtocol, proxy_headers=False)
        config.load()
        return config

    return loop, loop.run_until_complete(make())


def _http(sent: bytes) -> str:
    """A connection that gets these bytes, cut in two somewhere, and ends; nothing of it may be left behind."""
    loop, config = _server()
    bodies = config.app.gateway.ingest.bodies  # type: ignore[union-attr]

    async def connection() -> bytes:
        state = ServerState()
        transport = Transport()
        protocol = ExchangeProtocol(config=config, server_state=state, app_state={}, _loop=loop)
        protocol.connection_made(transport)  # type: ignore[arg-type]
        cut = len(sent) // 3
        for piece in (sent[:cut], sent[cut:]):
            if piece and not transport.is_closing():
                protocol.data_received(piece)
            await asyncio.sleep(0)
        for _ in range(3):
            await asyncio.sleep(0)
        protocol.connection_lost(None)
        while state.tasks:
            await asyncio.wait(state.tasks, timeout=5)
        await config.app.gateway.appender.idle()  # type: ignore[union-attr]
        return transport.written

    written = loop.run_until_complete(connection())
    assert bodies.bytes == 0, "bytes of a connection that is over are still counted"
    assert not config.app.gateway.faults.is_recent, "an exchange failed in a way nobody expected"  # type: ignore[union-attr]
    return written[9:12].decode()


def _requests() -> list[bytes]:
    hello = _hellos()[0]
    plain = HEAD + b"Content-Length: %d\r\n\r\n" % len(hello) + hello
    chunked = HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nTrailer: z\r\n\r\n"
    return [
        plain,
        plain + plain,
        chunked,
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/enrol HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n"
        + b'{"code":"xx"}',
        HEAD + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\nbody",
    ]


# -- the log ----------------------------------------------------------------------------------------------------------


def _segment(content: bytes) -> str:
    disk = RecordingDisk({"00000000000000000000.segment": content})
    found = verify(disk)
    log = Log.open(disk)
    kept = len(list(log.read(0, log.end)))
    return f"{min(found.records, 5)} {min(kept, 5)}"


def _segments() -> list[bytes]:
    disk = RecordingDisk()
    log = Log.open(disk)
    for group in ([declare(PHONE), data(PHONE, 0, 5, bytes(50))], [tombstone(PHONE, 5, 9)], [data(OTHER, 0, 1, b"x")]):
        log.append(group)
        log.sync()
    log.close()
    return list(disk.contents().values())


def _entries() -> bytes:
    index = Index()
    for record in (declare(PHONE), data(PHONE, 0, 5), tombstone(PHONE, 5, 9), data(OTHER, 0, 2)):
        index.apply(record.frame)
    return index.encode()


def _marks(content: bytes) -> str:
    return str(len(list(Index.decode(decode_trimmed_index(content, trimmed_index_name(900)).entries).edges())))


DECODERS = {
    "exchange": Decoder(_exchange, _frames, ()),
    "hello": Decoder(_hello, _hellos, (PeerError,)),
    "http": Decoder(_http, _requests, ()),
    "index": Decoder(
        lambda content: str(len(list(Index.decode(content).edges()))), lambda: [_entries()], (DamagedData,)
    ),
    "json": Decoder(
        lambda content: type(parse_json(content)).__name__,
        lambda: [b'{"edge":"gps","schema":[["lat","float64"]],"n":1.5e3}', b'[null,true,"\\u00e6"]'],
        (PeerError,),
    ),
    "marks": Decoder(_marks, lambda: [encode_trimmed_index(TrimmedIndex(0, 900, _entries()))], (DamagedData,)),
    "segment": Decoder(_segment, _segments, (DamagedData,)),
    "signed_head": Decoder(
        lambda content: str(SignedHead.decode(content.decode("ascii", "replace")).offset > 0),
        lambda: [SignedHead(7, bytes(32), 5, bytes(64)).encode().encode()],
        (DamagedData,),
    ),
} | FILES_AND_TEXTS
