"""Decoders of what comes by another way than an exchange: answers that a phone gets, files that people bring, and texts
that they paste. The other side of `decoders`."""

from __future__ import annotations

import io
import itertools
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

import resurge as rs
from cloud_backend.coordinator.backup import Places, create, restore
from cloud_backend.coordinator.queries import compile_sql
from cloud_backend.log.log import Log
from cloud_backend.spark.slots import WHOLE
from cloud_backend.spark.storage import records
from cloud_backend.spark.storage.store import Store
from mobile_app.node.results import Results
from mobile_app.recordings.rows_file import ROWS_FILE, read_rows
from mobile_app.sensors.file_formats import load
from mobile_app.sensors.termux.calls import TermuxRefused, parse_answer
from resurge.examples.trips.archives import unpack
from shared.batch import Batch
from shared.engine.snapshots import decode_state, encode_state
from shared.errors import DamagedData, PeerError, UsageError
from shared.identity import DeviceId, EdgeKey, edge_id
from shared.language.schema import Schema
from shared.plan.encoding import decode_plan, encode_plan
from shared.region.blocks import Blocks
from shared.region.broadcast import Receiving
from shared.spool.disk import PosixDisk
from shared.spool.ring import Spool
from shared.sync.session import DeviceSession
from shared.wire import broadcast, codecs, messages
from shared.wire.enrolment import EnrolmentAnswer, EnrolmentLink
from shared.wire.frame import (
    CHECKSUM,
    HEADER,
    HEADER_BYTES,
    LENGTH,
    LENGTH_START,
    FrameType,
    decode_all,
    decode_one,
    payload_digest,
)
from shared.wire.frame import encode as encode_frame
from shared.wire.status import DeviceStatus
from tests.cloud_backend.log.builders import PHONE, data, declare
from tests.cloud_backend.log.crash_images import RecordingDisk
from tests.fuzz.decoder import Decoder
from tests.mobile_app.sensors.test_playback import GPX, PHYPHOX, PLT, SENSOR_LOGGER
from tests.shared.sync.builders import pair

DEVICE = DeviceId(bytes(16))
SCHEMA = Schema.of({"x": "float64", "n": "int64", "on": "bool", "word": "str"})
_numbers = itertools.count()


@cache
def _directory() -> Path:
    return Path(tempfile.mkdtemp(prefix="resurge-fuzz-"))


def whole(frame: bytes) -> bytes:
    """A frame with its length and checksum made right, so that what is inside gets read."""
    if len(frame) < HEADER_BYTES:
        return frame
    made = bytearray(frame)
    LENGTH.pack_into(made, LENGTH_START, len(made) - HEADER_BYTES)
    CHECKSUM.pack_into(
        made, HEADER.size, zlib.crc32(payload_digest(bytes(made[HEADER_BYTES:])), zlib.crc32(made[: HEADER.size]))
    )
    return bytes(made)


# -- frames and messages, both ways -------------------------------------------------------------------------------------

_KINDS = {
    FrameType.HELLO: messages.Hello, FrameType.WELCOME: messages.Welcome, FrameType.DECLARE: messages.Declare,
    FrameType.DATA: messages.Data, FrameType.TOMBSTONE: messages.LostRange, FrameType.FRONTIER: messages.Frontier,
    FrameType.CHAIN: messages.Chain, FrameType.STATUS: messages.Status, FrameType.RECEIPT: messages.Receipt,
    FrameType.RESULT: messages.Result, FrameType.RESULT_RECEIPT: messages.ResultReceipt,
    FrameType.PLAN: messages.PlanMessage, FrameType.HINT: messages.Hint, FrameType.REFUSAL: messages.Refusal,
    FrameType.ANNOUNCE: broadcast.Announce, FrameType.BITMAP: broadcast.Bitmap, FrameType.BLOCK: broadcast.LackedBlocks,
}  # fmt: skip


def _message(content: bytes) -> str:
    frame = decode_one(whole(content))[0]
    kind = _KINDS.get(frame.type)
    return "none" if kind is None else type(kind.of(frame)).__name__


_SNAPSHOT = bytes(range(256)) * 10


def _announced() -> broadcast.Announcement:
    blocks = Blocks(_SNAPSHOT)
    key = EdgeKey(DEVICE, 1, edge_id("q/state v 1"))
    return broadcast.Announcement(key, DEVICE, 1, 0, 1, blocks.length, blocks.root)


def _datagrams(content: bytes) -> str:
    """Datagrams behind each other, each with its length, to a node that knows of one announcement."""
    receiving, at, answers = Receiving(DEVICE), 0, set()
    receiving.announced(_announced())
    while at + 2 <= len(content):
        size = int.from_bytes(content[at : at + 2], "little")
        found = receiving.datagram(content[at + 2 : at + 2 + size])
        answers.add("whole" if found is not None else "")
        if found is not None and found[1] != _SNAPSHOT:
            raise AssertionError("what was put together is not what was announced")
        at += 2 + size
    return f"{sorted(answers)} {sorted(receiving.refused)}"


def _all_datagrams() -> list[bytes]:
    blocks, id = Blocks(_SNAPSHOT), _announced().id
    sent = [blocks.block(id, number).datagram() for number in range(len(blocks))]
    bodies = [*sent, b"RB noise", broadcast.Block(bytes(8), 1, b"of another").datagram()]
    return [b"".join(len(body).to_bytes(2, "little") + body for body in bodies)]


def _every_message() -> list[bytes]:
    edge = edge_id("gps")
    row = {"sink": "s", "key": ["a"], "window_start_us": 0, "window_end_us": 9, "revision": 1, "values": {"n": 1}}
    said = [
        messages.Declare(DEVICE, 1, edge, "gps", SCHEMA),
        messages.Data(DEVICE, 1, edge, 0, 5, 5, SCHEMA.id, 0, 0, bytes(40)),
        messages.LostRange(DEVICE, 1, edge, 0, 5, "evicted"),
        messages.Frontier(DEVICE, 1, edge, 0, 77),
        messages.Chain(DEVICE, 1, edge, 0, 5, bytes(32)),
        messages.Status(DEVICE, DeviceStatus(battery=7, produced=5)),
        messages.Result(DEVICE, 4, row),
        messages.ResultReceipt(DEVICE, 4),
        messages.PlanMessage(DEVICE, 3, _plans()[0], bytes(64)),
        messages.Hint(DEVICE, {"*": 0.5}),
        messages.Refusal(DEVICE, "rate-limited", "too fast", 5.0),
        broadcast.Announce(DEVICE, _announced(), True),
        broadcast.Bitmap(DEVICE, bytes(8), 5, 11),
        broadcast.LackedBlocks(DEVICE, bytes(8), (broadcast.Block(bytes(8), 1, b"one"),)),
    ]
    node = pair()
    hello = DeviceSession(node.keys, node.device, 1).hello()
    receipt = messages.Receipt.encoded(DEVICE, 1, edge, 5)
    return [*(encode_frame(each.frame()) for each in said), receipt, hello, node.gateway.exchange(hello).body]


def _frames(content: bytes) -> str:
    return str(min(9, len(list(decode_all(content)))))


def _columns(content: bytes) -> str:
    """The first byte is the codec, the second how many rows the header claims."""
    codec, rows = (content + b"\0\0")[:2]
    batch = codecs.decode(codec % 5, content[2:], SCHEMA, lo=0, hi=rows)
    return f"{codec % 5} {min(rows, 3)} {len(batch) > 0}"


def _batches() -> list[bytes]:
    rows = 9
    made = Batch.of(
        SCHEMA,
        {
            "x": np.linspace(0, 1, rows), "n": np.arange(rows), "on": [True, False, True] * 3,
            "word": ["a", "b", ""] * 3,
        },
        np.arange(rows) * 1000, lo=0,
    )  # fmt: skip
    found = []
    for name in ("auto", "none", "deflate"):
        codec, payload = codecs.encode(made, name)
        found.append(bytes([codec, rows]) + payload)
    return found


def _answer(content: bytes) -> str:
    """What a phone gets in answer to its HELLO or, where the bytes begin with a zero, to an exchange: a frame of ours,
    changed, inside a good seal."""
    node = pair()
    hello = node.step(0.0)
    assert hello is not None
    if content[:1] == b"\0":
        node.sender.receive(node.gateway.exchange(hello).body, 0.0)
        exchange = node.step(0.0)
        assert exchange is not None
        session = node.gateway.sessions.open(exchange, 0.0)
        content = session.session.seal(session.counter, (whole(content[1:]),))
    node.sender.receive(content, 0.0)
    node.step(100.0)
    return " ".join(sorted({getattr(event, "code", type(event).__name__) for event in node.sender.events()}))


def _answers() -> list[bytes]:
    bare = messages.bare_refusal("rate-limited", "too fast", retry_after_s=3)
    return [b"\xe1" + bytes(60), bare, *(b"\0" + each for each in _every_message())]


def _results(content: bytes) -> str:
    results = _phone_results()
    before = results.malformed
    body = messages.Result.of(decode_one(whole(content))[0])
    results.apply([(next(_numbers), body.body)])
    return f"malformed: {results.malformed - before}"


@cache
def _phone_results() -> Results:
    return Results(_directory())


# -- files ----------------------------------------------------------------------------------------------------------------


def _file(suffix: str, read: Callable[[Path], object]) -> Callable[[bytes], str]:
    def decode(content: bytes) -> str:
        path = _directory() / f"one{suffix}"
        path.write_bytes(content)
        return str(read(path))

    return decode


def _loaded(path: Path) -> str:
    track = load(path)
    return f"{min(3, len(track.time_us))} {len(track.columns) > 0} {track.unreadable.rows > 0}"


def _wfdb(content: bytes) -> str:
    """A header, two NULs, and the samples."""
    header, _, samples = content.partition(b"\0\0")
    (_directory() / "one.dat").write_bytes(samples)
    return _file(".hea", _loaded)(header)


def _unpacked(path: Path) -> str:
    target = _directory() / "unpacked"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    unpack(path, target)
    outside = [each for each in target.rglob("*") if target not in each.resolve().parents]
    assert not outside, "an archive wrote outside of its directory"
    return str(min(3, len(list(target.rglob("*")))))


def _zips() -> list[bytes]:
    made = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", method) as archive:
            archive.writestr("ada/Location.csv", SENSOR_LOGGER)
            archive.writestr("ada/walk.gpx", GPX)
        made.append(packed.getvalue())
    return made


def _restored(path: Path) -> str:
    target = _directory() / "restored"
    shutil.rmtree(target, ignore_errors=True)
    restore(path, target)
    return "restored"


def _backups() -> list[bytes]:
    home = _directory() / "home"
    if not home.exists():
        log = Log.open(PosixDisk(home / "log"))
        log.append([declare(PHONE), data(PHONE, 0, 5, bytes(50))])
        log.sync()
        log.close()
    packed = _directory() / "backup.tar.gz"
    packed.unlink(missing_ok=True)
    places = Places(home, home / "results.sqlite", home / "plan.bin", home / "spark", home / "jobs")
    create(places, packed, now_us=1)
    return [packed.read_bytes(), zlib.decompress(packed.read_bytes(), 31)]  # whole, and as a tar that can be changed


def _record(content: bytes) -> str:
    store = _store()
    (store.root / "files" / "one.record").parent.mkdir(parents=True, exist_ok=True)
    (store.root / "files" / "one.record").write_bytes(content)
    rows, _, _ = records.read_slice(store, "one.record", WHOLE)
    return str(min(3, len(rows.plain())))


@cache
def _store() -> Store:
    store = Store(_directory() / "store")
    store.create()
    return store


def _records() -> list[bytes]:
    columns = {"x": np.arange(3.0), "word": np.array(["a", "b", "a"], np.dtypes.StringDType())}
    schema = Schema.of({"x": "float64", "word": "str"})
    rows = records.Rows(schema, columns, np.arange(3), np.arange(3), np.array([1, 7, 9], np.uint16))
    return [records.encode(rows, {"floor": 0, "devices": {}, "complete": None})[0]]


def _spool(content: bytes) -> str:
    """The files of a spool one after the other, each with its name and length before it."""
    files: dict[str, bytes] = {}
    rest = content
    while len(rest) > 8 and len(files) < 8:
        size, length = struct.unpack_from("<II", rest)
        name = rest[8 : 8 + size % 64].decode("latin-1")
        start = 8 + size % 64
        files[name] = rest[start : start + length]
        rest = rest[start + length :]
    spool = Spool.open(RecordingDisk(files))
    return f"{len(spool.edges()) > 0}"


def _spools() -> list[bytes]:
    disk = RecordingDisk()
    spool = Spool.create(disk, capacity_bytes=1 << 16, device=DEVICE, incarnation=1)
    spool.close()
    return [
        b"".join(
            struct.pack("<II", len(name), len(held)) + name.encode() + held for name, held in disk.contents().items()
        )
    ]


def _recording(content: bytes) -> str:
    """Records of a recording, each with its checksum made right."""
    made, rest = b"", content
    while len(rest) > 8:
        length = min(struct.unpack_from("<I", rest)[0], len(rest) - 8)
        held = whole(rest[8 : 8 + length])
        made += struct.pack("<II", len(held), zlib.crc32(held)) + held
        rest = rest[8 + length :]
    return str(min(3, len(list(read_rows(RecordingDisk({ROWS_FILE: made}), None)))))


def _recordings() -> list[bytes]:
    codec, rows, *_ = _batches()[0][:2]
    edge = edge_id("gps")
    said = [
        messages.Declare(DEVICE, 1, edge, "gps", SCHEMA),
        messages.Data(DEVICE, 1, edge, 0, rows, rows, SCHEMA.id, 0, codec, _batches()[0][2:]),
    ]
    return [b"".join(struct.pack("<II", len(held), 0) + held for held in (encode_frame(each.frame()) for each in said))]


# -- texts ----------------------------------------------------------------------------------------------------------------


def _plans() -> list[bytes]:
    up = rs.sensor("gps", every="1s", columns={"lat": "float64", "cell": "int64"}).where(rs.col.lat > 1).sync("gps")
    counts = up.key_by("cell").tumbling("1h").aggregate(n=rs.count(), top=rs.max("lat")).subscribe("counts")
    return [encode_plan(rs.plan_of(counts, name="fuzz"))]


def _sql(content: bytes) -> str:
    plan = compile_sql(
        content.decode("utf-8", "surrogateescape"), "q", {"gps": Schema.of({"lat": "float64", "n": "int64"})}
    )
    return str(min(len(plan.nodes), 9))


def _links() -> list[bytes]:
    node = pair()
    link = EnrolmentLink("10.0.0.7", 8750, bytes(range(16)), node.keys.public_key, bytes(range(32)))
    return [str(link).encode(), str(EnrolmentLink("gate.example", 1, bytes(16), node.keys.public_key)).encode()]


QUESTIONS = [
    b"SELECT lat FROM gps WHERE lat > 1 AND n IN (1, 2)",
    b"SELECT device, count(*) AS n, max(lat) AS top FROM gps GROUP BY TUMBLE(10 SECONDS), device HAVING count(*) > 2",
    b"SELECT CASE WHEN lat > 1 THEN 'a' ELSE 'b' END AS w FROM gps",
]

FILES_AND_TEXTS = {
    "frames": Decoder(_frames, _every_message, (PeerError,)),
    "message": Decoder(_message, _every_message, (PeerError,)),
    "datagrams": Decoder(_datagrams, _all_datagrams, ()),
    "columns": Decoder(_columns, _batches, (PeerError,)),
    "phone_answer": Decoder(_answer, _answers, ()),
    "phone_results": Decoder(_results, lambda: [each for each in _every_message() if _is_result(each)], (PeerError,)),
    "enrolment_answer": Decoder(
        lambda content: str(EnrolmentAnswer.decode(content, pair().keys.public_key).incarnation),
        lambda: [EnrolmentAnswer(pair().device, 1).encode()],
        (PeerError,),
    ),
    "link": Decoder(
        lambda content: str(len(EnrolmentLink.parse(content.decode("utf-8", "surrogateescape")).pin)),
        _links,
        (UsageError,),
    ),
    "plan": Decoder(lambda content: str(len(decode_plan(content).nodes)), _plans, (UsageError,)),
    "sql": Decoder(_sql, lambda: QUESTIONS, (UsageError,)),
    "termux": Decoder(
        lambda content: type(parse_answer(content.decode("utf-8", "replace"))).__name__,
        lambda: [b'{"latitude": 47.1, "provider": "gps"}', b'{"error": "no"}'][:1],
        (TermuxRefused,),
    ),
    "csv": Decoder(_file(".csv", _loaded), lambda: [SENSOR_LOGGER.encode(), PHYPHOX.encode()], (UsageError,)),
    "gpx": Decoder(_file(".gpx", _loaded), lambda: [GPX.encode()], (UsageError,)),
    "plt": Decoder(_file(".plt", _loaded), lambda: [PLT.encode()], (UsageError,)),
    "wfdb": Decoder(
        _wfdb,
        lambda: [
            b"one 2 360 4\none.dat 212 200 11 1024 995 -22131 0 MLII\none.dat 212 200 11 1024 1011 20052 0 V5\n\0\0"
            + bytes(range(24)),
            b"one 1 100/10(5) 4\none.dat 16 100(0)/mV 16 0 1 2 0 ECG\n\0\0" + bytes(range(16)),
        ],
        (UsageError,),
    ),
    "zip": Decoder(_file(".zip", _unpacked), _zips, (UsageError,)),
    "backup": Decoder(_file(".tar.gz", _restored), _backups, (DamagedData, UsageError)),
    "record": Decoder(_record, _records, (DamagedData,)),
    "recording": Decoder(_recording, _recordings, (DamagedData, PeerError)),
    "snapshot": Decoder(
        lambda content: type(decode_state(content)).__name__,
        lambda: [encode_state([1, "a", {"k": (1.5, None)}, np.arange(3.0), b"x"])],
        (DamagedData,),
    ),
    "spool": Decoder(_spool, _spools, (DamagedData, UsageError)),
}


def _is_result(frame: bytes) -> bool:
    return decode_one(frame)[0].type is FrameType.RESULT
