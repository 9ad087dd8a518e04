"""What two sides say to each other, as types.

A message is a frame with meaning. The hot ones (DATA, RECEIPT) are packed structs; the rare ones carry small
JSON, bounded before it is parsed and never trusted in shape. Nothing here is unpickled, nothing is echoed.
Every class has `frame()`, what to send, and `of(frame)`, what was said; `of` raises PeerError and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from shared.batch import NO_FRONTIER
from shared.errors import PeerError, UsageError
from shared.identity import DEVICE_ID_BYTES, DeviceId, EdgeId
from shared.language.schema import Schema
from shared.moves import MoveRequest
from shared.wire import frame as frames
from shared.wire.frame import HEADER_BYTES, Frame, FrameType, stored_header
from shared.wire.status import OPERATOR_CHARACTERS, OPERATORS_MAX, DeviceStatus, clean_text
from shared.wire.untrusted_text import is_name, parse_json, printable

SIGNATURE_BYTES = 64
JSON_BYTES_MAX = 64 * 1024
RETRY_AFTER_S_MAX = 86_400
MOVES_MAX = 32  # that are asked for in one HINT
CUTS_MAX = 1000  # queries of which one HINT speaks
_CUT_MAX = 1 << 53
_RECEIPT = int(FrameType.RECEIPT)

DATA_PREFIX = struct.Struct("<III")  # schema id, applied, rows
_HELLO = struct.Struct("<32s32s16s64s")  # public key, ephemeral, gateway id, signature
_WELCOME = struct.Struct("<16s32sI64s")  # session id, ephemeral, lifetime in seconds, signature
_CHAIN = struct.Struct("<32s64s")  # digest, signature
_CHAIN_BY_NODE = struct.Struct("<32s64s16s")  # and the node that signed
_TAKEN = struct.Struct("<QII")  # taken, credit in bytes, load in bytes
_SPEAKS_FOR = struct.Struct("<II")  # behind it, of an edge that several queries share: readers, carried
MARK_ALIGNED = 1  # in a MARK's flags: hold what comes behind it until every input had one
_NUMBER_MAX = 1 << 31
FORGOTTEN = "forgotten"  # a TOMBSTONE's reason: it was acknowledged once, and then lost by whoever had it


@dataclass(frozen=True, slots=True)
class Hello:
    """Device -> gateway: who I am, signed, and my half of the session key."""

    device: DeviceId
    incarnation: int
    public_key: bytes
    ephemeral: bytes
    gateway: bytes  # the first 16 bytes of the hash of the gateway's pinned key: a HELLO is good for one gateway
    signature: bytes = bytes(SIGNATURE_BYTES)

    def signed(self) -> bytes:
        return b"resurge-hello-1" + b"".join(
            (self.device, struct.pack("<I", self.incarnation), self.public_key, self.ephemeral, self.gateway)
        )

    def frame(self) -> Frame:
        payload = _HELLO.pack(self.public_key, self.ephemeral, self.gateway, self.signature)
        return Frame(FrameType.HELLO, self.device, payload, incarnation=self.incarnation)

    @staticmethod
    def of(frame: Frame) -> Hello:
        return Hello(frame.source, frame.incarnation, *_unpacked(frame, _HELLO))


@dataclass(frozen=True, slots=True)
class Welcome:
    """Gateway -> device: the session, signed over the HELLO it answers, and the gateway's half of the key."""

    device: DeviceId
    incarnation: int
    session: bytes
    ephemeral: bytes
    lifetime_s: int
    signature: bytes = bytes(SIGNATURE_BYTES)

    def signed(self, hello: Hello) -> bytes:
        question = hashlib.sha256(hello.signed() + hello.signature).digest()
        return b"resurge-welcome-1" + b"".join(
            (question, self.session, self.ephemeral, struct.pack("<I", self.lifetime_s))
        )

    def frame(self) -> Frame:
        payload = _WELCOME.pack(self.session, self.ephemeral, self.lifetime_s, self.signature)
        return Frame(FrameType.WELCOME, self.device, payload, incarnation=self.incarnation)

    @staticmethod
    def of(frame: Frame) -> Welcome:
        return Welcome(frame.source, frame.incarnation, *_unpacked(frame, _WELCOME))


@dataclass(frozen=True, slots=True)
class Declare:
    """An edge's name and the schema of the batches that follow on it; once per session and schema."""

    device: DeviceId
    incarnation: int
    edge: EdgeId
    name: str
    schema: Schema
    term: int = 0

    def frame(self) -> Frame:
        payload = encode_json({"edge": self.name, "schema": self.schema.to_json()})
        return Frame(
            FrameType.DECLARE, self.device, payload, incarnation=self.incarnation, term=self.term, edge=self.edge
        )

    @staticmethod
    def of(frame: Frame) -> Declare:
        value = decode_json(frame.payload)
        name = value.get("edge")
        if not is_name(name):
            raise PeerError("a DECLARE names its edge in 1 to 200 printable characters", code="message-declare")
        try:
            schema = Schema.from_json(value.get("schema"))
        except UsageError as error:  # its words may repeat what was sent
            raise PeerError(f"a DECLARE carries a schema; this is none: {error.code}", code="message-declare") from None
        if not all(is_name(column) for column in schema.names):
            raise PeerError("a column's name has 1 to 200 printable characters", code="message-declare")
        return Declare(frame.source, frame.incarnation, frame.edge, name, schema, frame.term)


@dataclass(frozen=True, slots=True)
class Data:
    """A batch as it travels and as the log keeps it: [lo, hi) frozen, columns still encoded."""

    device: DeviceId
    incarnation: int
    edge: EdgeId
    lo: int
    hi: int
    rows: int
    schema_id: int
    applied: int
    codec: int
    columns: bytes | memoryview
    frontier_us: int = NO_FRONTIER
    term: int = 0

    def frame(self) -> Frame:
        payload = DATA_PREFIX.pack(self.schema_id, self.applied, self.rows) + self.columns
        return Frame(
            FrameType.DATA, self.device, payload, incarnation=self.incarnation, term=self.term, edge=self.edge,
            seq=self.lo, count=self.hi - self.lo, codec=self.codec, frontier_us=self.frontier_us,
        )  # fmt: skip

    @staticmethod
    def of(frame: Frame) -> Data:
        if len(frame.payload) < DATA_PREFIX.size or not frame.count:
            raise PeerError("a DATA frame covers at least one element and has a prefix", code="message-data")
        schema_id, applied, rows = DATA_PREFIX.unpack_from(frame.payload)
        if rows > frame.count:
            raise PeerError(f"{rows} rows in a range of {frame.count} elements", code="message-data")
        return Data(
            frame.source, frame.incarnation, frame.edge, frame.seq, frame.seq + frame.count, rows, schema_id,
            applied, frame.codec, memoryview(frame.payload)[DATA_PREFIX.size :], frame.frontier_us, frame.term,
        )  # fmt: skip

    @staticmethod
    def in_place(frame: bytes | memoryview) -> Data:
        """Of a whole frame that was checked, as an exchange checks all of its own; the columns stay where they lie."""
        header = stored_header(frame)
        schema_id, applied, rows = DATA_PREFIX.unpack_from(frame, HEADER_BYTES)
        return Data(
            header.source, header.incarnation, header.edge, header.seq, header.hi, rows, schema_id, applied,
            header.codec, memoryview(frame)[HEADER_BYTES + DATA_PREFIX.size :], header.frontier_us, header.term,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class LostRange:
    """A TOMBSTONE: the range [lo, hi) was given up, and why (evicted, expired, rejected, quarantined)."""

    device: DeviceId
    incarnation: int
    edge: EdgeId
    lo: int
    hi: int
    reason: str
    term: int = 0

    def frame(self) -> Frame:
        return Frame(
            FrameType.TOMBSTONE, self.device, self.reason.encode(), incarnation=self.incarnation, term=self.term,
            edge=self.edge, seq=self.lo, count=self.hi - self.lo,
        )  # fmt: skip

    @staticmethod
    def of(frame: Frame) -> LostRange:
        try:
            reason = bytes(frame.payload).decode("ascii")
        except UnicodeDecodeError:
            reason = ""
        if not 0 < len(reason) <= 40 or not reason.isprintable() or not frame.count:
            raise PeerError(
                "a TOMBSTONE covers at least one element and gives its reason in a word", code="message-tombstone"
            )
        hi = frame.seq + frame.count
        return LostRange(frame.source, frame.incarnation, frame.edge, frame.seq, hi, reason, frame.term)


@dataclass(frozen=True, slots=True)
class Frontier:
    """No element earlier than `frontier_us` follows on this edge from sequence `seq` on."""

    device: DeviceId
    incarnation: int
    edge: EdgeId
    seq: int
    frontier_us: int
    term: int = 0

    def frame(self) -> Frame:
        return Frame(
            FrameType.FRONTIER, self.device, incarnation=self.incarnation, term=self.term, edge=self.edge, seq=self.seq,
            frontier_us=self.frontier_us,
        )  # fmt: skip

    @staticmethod
    def of(frame: Frame) -> Frontier:
        return Frontier(frame.source, frame.incarnation, frame.edge, frame.seq, frame.frontier_us, frame.term)


@dataclass(frozen=True, slots=True)
class Chain:
    """A signature over the digests of the batches that tile [lo, hi): who made them, without the session key. That is
    the device whose batches they are; of batches of a query, which has no key, the node that made them, by its id."""

    device: DeviceId
    incarnation: int
    edge: EdgeId
    lo: int
    hi: int
    digest: bytes
    signature: bytes = bytes(SIGNATURE_BYTES)
    signer: bytes = b""  # the id of the node; empty: the device
    term: int = 0  # under which the node makes the edge

    @property
    def by(self) -> DeviceId:
        return DeviceId(self.signer) if self.signer else self.device

    def signed(self) -> bytes:
        place = struct.pack("<IQQQ", self.incarnation, self.edge, self.lo, self.hi)
        by = b"resurge-chain-2" + self.signer if self.signer else b"resurge-chain-1"
        return by + self.device + place + self.digest

    def frame(self) -> Frame:
        return Frame(
            FrameType.CHAIN, self.device, _CHAIN.pack(self.digest, self.signature) + self.signer,
            incarnation=self.incarnation, term=self.term, edge=self.edge, seq=self.lo, count=self.hi - self.lo,
        )  # fmt: skip

    @staticmethod
    def of(frame: Frame) -> Chain:
        by_node = len(frame.payload) == _CHAIN_BY_NODE.size
        digest, signature, *signer = _unpacked(frame, _CHAIN_BY_NODE if by_node else _CHAIN)
        return Chain(
            frame.source, frame.incarnation, frame.edge, frame.seq, frame.seq + frame.count, digest, signature,
            b"".join(signer), frame.term,
        )  # fmt: skip


def chain_digest(previous: bytes, frame: Frame, digest: bytes) -> bytes:
    """The digest of a run of batches after one more DATA or TOMBSTONE frame; a run starts from 32 zero bytes.

    `digest` is the payload's. The term is left out: it is stamped at each sending, the rest froze with the batch.
    """
    head = struct.pack(
        "<BBIQQIq", frame.type, frame.codec, frame.incarnation, frame.edge, frame.seq, frame.count, frame.frontier_us
    )
    return hashlib.sha256(b"".join((previous, frame.source, head, digest))).digest()


@dataclass(frozen=True, slots=True)
class Status:
    """What the device says of itself, for the fleet pages and to know its plan."""

    device: DeviceId
    status: DeviceStatus

    def frame(self) -> Frame:
        return Frame(FrameType.STATUS, self.device, encode_json(self.status.to_json()))

    @staticmethod
    def of(frame: Frame) -> Status:
        return Status(frame.source, DeviceStatus.from_json(decode_json(frame.payload)))


@dataclass(frozen=True, slots=True)
class Receipt:
    """Everything of this edge below `through` is safe without the sender, which may trim it."""

    device: DeviceId
    incarnation: int
    edge: EdgeId
    through: int

    def frame(self) -> Frame:
        return Frame(FrameType.RECEIPT, self.device, incarnation=self.incarnation, edge=self.edge, seq=self.through)

    @staticmethod
    def encoded(device: DeviceId, incarnation: int, edge: int, through: int) -> bytes:
        """The frame of a receipt at once: one leaves with every exchange, and a Frame costs as much again."""
        header = frames.HEADER.pack(
            frames.MAGIC, frames.VERSION, _RECEIPT, 0, 0, 0, 0, incarnation, device, edge, through, 0, 0, NO_FRONTIER
        )
        return header + frames.CHECKSUM.pack(zlib.crc32(header))

    @staticmethod
    def of(frame: Frame) -> Receipt | PeerReceipt:
        if frame.payload:
            return PeerReceipt.of(frame)
        return Receipt(frame.source, frame.incarnation, frame.edge, frame.seq)


@dataclass(frozen=True, slots=True)
class PeerReceipt:
    """A reading node's receipt: it goes on at `taken`, and may need everything from `through` on once more.

    `term` is the reader's own: when it changes, the reader was restored and `taken` may be less than before. `credit`
    is how many bytes it has room for, `load` what a snapshot of it and of those behind it takes. Of an edge that
    several queries share, `readers` and `carried` say for whom (`shared/sync/sharers.py`).
    """

    device: DeviceId
    incarnation: int
    edge: EdgeId
    through: int
    taken: int
    term: int = 0
    credit: int = 0
    load: int = 0
    readers: int = 0
    carried: int = 0

    def frame(self) -> Frame:
        payload = _TAKEN.pack(self.taken, min(self.credit, _NUMBER_MAX), min(self.load, _NUMBER_MAX))
        if self.readers:
            payload += _SPEAKS_FOR.pack(self.readers, self.carried)
        return Frame(
            FrameType.RECEIPT, self.device, payload, incarnation=self.incarnation, term=self.term, edge=self.edge,
            seq=self.through,
        )  # fmt: skip

    @staticmethod
    def of(frame: Frame) -> PeerReceipt:
        readers = carried = 0
        if len(frame.payload) == _TAKEN.size + _SPEAKS_FOR.size:
            readers, carried = _SPEAKS_FOR.unpack_from(frame.payload, _TAKEN.size)
            frame = replace(frame, payload=frame.payload[: _TAKEN.size])
        taken, credit, load = _unpacked(frame, _TAKEN)
        if taken < frame.seq or taken > frames.SEQ_MAX:
            raise PeerError("a RECEIPT's `taken` is not behind its `through`", code="message-receipt")
        return PeerReceipt(
            frame.source, frame.incarnation, frame.edge, frame.seq, taken, frame.term, credit, load, readers,
            carried,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class MarkMessage:
    """A mark in its place on an edge: everything below `position` is before it.

    It has no payload: (`number`, `initiator`) is who asked for the snapshot, the initiator as a number of 32 bits.
    """

    device: DeviceId
    incarnation: int
    edge: EdgeId
    position: int
    number: int
    initiator: int
    term: int = 0
    aligned: bool = False

    def frame(self) -> Frame:
        return Frame(
            FrameType.MARK, self.device, incarnation=self.incarnation, term=self.term, edge=self.edge,
            seq=self.position, codec=self.initiator & 0xFF, count=self.initiator >> 8,
            flags=MARK_ALIGNED if self.aligned else 0, frontier_us=self.number,
        )  # fmt: skip

    @staticmethod
    def of(frame: Frame) -> MarkMessage:
        if frame.payload or frame.frontier_us < 0:
            raise PeerError("a MARK has a number and no payload", code="message-mark")
        return MarkMessage(
            frame.source, frame.incarnation, frame.edge, frame.seq, frame.frontier_us,
            frame.count << 8 | frame.codec, frame.term, bool(frame.flags & MARK_ALIGNED),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Extend:
    """The answer to a MARK for which the reader takes no snapshot of its own: this edge counts as acknowledged for it
    once the receipt has reached `wait`."""

    device: DeviceId
    incarnation: int
    edge: EdgeId
    wait: int
    number: int
    initiator: int

    def frame(self) -> Frame:
        return Frame(
            FrameType.EXTEND, self.device, incarnation=self.incarnation, edge=self.edge, seq=self.wait,
            codec=self.initiator & 0xFF, count=self.initiator >> 8, frontier_us=self.number,
        )  # fmt: skip

    @staticmethod
    def of(frame: Frame) -> Extend:
        if frame.payload or frame.frontier_us < 0:
            raise PeerError("an EXTEND has a number and no payload", code="message-mark")
        return Extend(
            frame.source, frame.incarnation, frame.edge, frame.seq, frame.frontier_us, frame.count << 8 | frame.codec
        )


@dataclass(frozen=True, slots=True)
class Result:
    """One entry of the device's downlink: `seq` counts up from 1, the body is a result row as JSON."""

    device: DeviceId
    seq: int
    body: Mapping[str, object]

    def frame(self) -> Frame:
        return Frame(FrameType.RESULT, self.device, encode_json(dict(self.body)), seq=self.seq)

    @staticmethod
    def of(frame: Frame) -> Result:
        return Result(frame.source, frame.seq, decode_json(frame.payload))


@dataclass(frozen=True, slots=True)
class ResultReceipt:
    """Device -> gateway: results through this number are applied and durable here."""

    device: DeviceId
    through: int

    def frame(self) -> Frame:
        return Frame(FrameType.RESULT_RECEIPT, self.device, seq=self.through)

    @staticmethod
    def of(frame: Frame) -> ResultReceipt:
        return ResultReceipt(frame.source, frame.seq)


@dataclass(frozen=True, slots=True)
class PlanMessage:
    """A plan for the device: encoded plan, its version, and the gateway's signature over both."""

    device: DeviceId
    version: int
    plan: bytes
    signature: bytes

    @staticmethod
    def signed(version: int, plan: bytes) -> bytes:
        return b"resurge-plan-1" + struct.pack("<Q", version) + plan

    def frame(self) -> Frame:
        return Frame(FrameType.PLAN, self.device, self.signature + self.plan, seq=self.version)

    @staticmethod
    def of(frame: Frame) -> PlanMessage:
        payload = bytes(frame.payload)
        if len(payload) <= SIGNATURE_BYTES:
            raise PeerError("a PLAN frame carries a signature and a plan", code="message-plan")
        return PlanMessage(frame.source, frame.seq, payload[SIGNATURE_BYTES:], payload[:SIGNATURE_BYTES])


@dataclass(frozen=True, slots=True)
class DeploymentMessage:
    """What a node of a fleet should run, as its coordinator signed it. Without a deployment it is a question: what do
    you follow? The node answers with what it was given, which only its coordinator can have signed."""

    device: DeviceId
    lease: int = 0
    version: int = 0
    deployment: bytes = b""
    signature: bytes = bytes(SIGNATURE_BYTES)

    @staticmethod
    def signed(lease: int, version: int, deployment: bytes) -> bytes:
        return b"resurge-deployment-1" + struct.pack("<IQ", lease, version) + deployment

    def frame(self) -> Frame:
        payload = self.signature + self.deployment if self.deployment else b""
        return Frame(FrameType.DEPLOYMENT, self.device, payload, term=self.lease, seq=self.version)

    @staticmethod
    def of(frame: Frame) -> DeploymentMessage:
        payload = bytes(frame.payload)
        if not payload:
            return DeploymentMessage(frame.source, frame.term, frame.seq)
        if len(payload) <= SIGNATURE_BYTES or frame.codec:
            raise PeerError("a DEPLOYMENT frame carries a signature and a deployment", code="message-deployment")
        return DeploymentMessage(
            frame.source, frame.term, frame.seq, payload[SIGNATURE_BYTES:], payload[:SIGNATURE_BYTES]
        )


@dataclass(frozen=True, slots=True)
class PlanWithheld:
    """In a PLAN's place: the device lacks operator types that this version needs. `build` is an app that has them, as
    far as the gateway knows of one. Only a device that said which operator types it has is told so."""

    device: DeviceId
    version: int
    lacks: tuple[str, ...]
    build: str = ""

    def frame(self) -> Frame:
        return Frame(
            FrameType.WITHHELD, self.device, encode_json({"build": self.build, "lacks": list(self.lacks)}),
            seq=self.version,
        )  # fmt: skip

    @staticmethod
    def of(frame: Frame) -> PlanWithheld:
        value = decode_json(frame.payload)
        lacks, build = value.get("lacks"), value.get("build", "")
        if not isinstance(lacks, list) or not lacks or not all(isinstance(each, str) for each in [*lacks, build]):
            raise PeerError("a WITHHELD frame names operator types and a build", code="message-withheld")
        cut = tuple(clean_text(each, OPERATOR_CHARACTERS) for each in lacks[:OPERATORS_MAX])
        return PlanWithheld(frame.source, frame.seq, cut, clean_text(str(build)))


@dataclass(frozen=True, slots=True)
class CutOrder:
    """A coordinator's word on the cuts through a query's region: which one sources shall begin, which one is complete.
    Said again until the node's STATUS has it."""

    query: str
    begun: int
    complete: int


@dataclass(frozen=True, slots=True)
class Hint:
    """Push-back: the share of its rate each sensor should keep, by name; `*` stands for every sensor. To a fleet's
    coordinator also what people ask of it, with the gateway's signature. To nodes of a region, which cuts there are."""

    device: DeviceId
    rates: Mapping[str, float]
    moves: tuple[MoveRequest, ...] = ()
    signature: bytes = b""
    cuts: tuple[CutOrder, ...] = ()

    @staticmethod
    def signed(device: DeviceId, moves: Sequence[MoveRequest]) -> bytes:
        """What the gateway signs: of this device alone, and nothing else that it signs begins so."""
        return b"resurge-moves-1" + device + encode_json({"moves": _move_lists(moves)})

    def frame(self) -> Frame:
        value: dict[str, object] = {"rates": dict(self.rates)}
        if self.moves:
            value |= {"moves": _move_lists(self.moves), "signature": self.signature.hex()}
        if self.cuts:
            value["cuts"] = [[each.query, each.begun, each.complete] for each in self.cuts]
        return Frame(FrameType.HINT, self.device, encode_json(value))

    @staticmethod
    def of(frame: Frame) -> Hint:
        value = decode_json(frame.payload)
        rates, moves, signature = value.get("rates", {}), value.get("moves", []), value.get("signature", "")
        if not isinstance(rates, dict) or not all(_between(rate, 0, 1) for rate in rates.values()):
            raise PeerError("rates of a HINT are shares between 0 and 1 by sensor name", code="message-hint")
        shares = {name: float(rate) for name, rate in rates.items()}
        return Hint(frame.source, shares, *_moves(moves, signature), _cuts(value.get("cuts", [])))


def _cuts(cuts: object) -> tuple[CutOrder, ...]:
    expected = "cuts of a HINT are a short list of [query, begun, complete]"
    if not isinstance(cuts, list) or len(cuts) > CUTS_MAX:
        raise PeerError(expected, code="message-hint")
    found = []
    for each in cuts:
        match each:
            case [str(query), int(begun), int(complete)] if is_name(query) and 0 <= complete <= begun <= _CUT_MAX:
                found.append(CutOrder(query, int(begun), int(complete)))
            case _:
                raise PeerError(expected, code="message-hint")
    return tuple(found)


def _move_lists(moves: Sequence[MoveRequest]) -> list[list[object]]:
    return [[each.id, each.query, each.vertex, each.to, each.leaving, each.dry_run] for each in moves]


def _moves(moves: object, signature: object) -> tuple[tuple[MoveRequest, ...], bytes]:
    expected = "moves of a HINT are a short list of [id, query, vertex, to, leaving, dry_run], with a signature"
    if not isinstance(moves, list) or len(moves) > MOVES_MAX or not isinstance(signature, str):
        raise PeerError(expected, code="message-hint")
    found = []
    for each in moves:
        match each:
            case [str(id), str(query), str(vertex), str(to), str(leaving), bool(dry_run)] if all(
                is_name(text) for text in (id, query, vertex, to)
            ) and (not leaving or is_name(leaving)):
                found.append(MoveRequest(query, vertex, to, leaving, dry_run, id))
            case _:
                raise PeerError(expected, code="message-hint")
    try:
        return tuple(found), bytes.fromhex(signature)
    except ValueError:
        raise PeerError(expected, code="message-hint") from None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The exchange was refused and nothing of it was kept; `code` is stable, the text never repeats input."""

    device: DeviceId
    code: str
    text: str = ""
    retry_after_s: float | None = None

    def frame(self) -> Frame:
        value: dict[str, object] = {"code": self.code, "text": self.text}
        if self.retry_after_s is not None:
            value["retry_after_s"] = self.retry_after_s
        return Frame(FrameType.REFUSAL, self.device, encode_json(value))

    @staticmethod
    def of(frame: Frame) -> Refusal:
        value = decode_json(frame.payload)
        code, text, retry = value.get("code"), value.get("text", ""), value.get("retry_after_s")
        if not is_name(code) or not isinstance(text, str):
            raise PeerError("a REFUSAL has a code and a text", code="message-refusal")
        if retry is not None and not _between(retry, 0, RETRY_AFTER_S_MAX):
            raise PeerError("a REFUSAL's retry_after_s is at most a day", code="message-refusal")
        return Refusal(frame.source, code[:80], printable(text[:500]), None if retry is None else float(retry))


NOBODY = DeviceId(bytes(DEVICE_ID_BYTES))  # the source of a REFUSAL to somebody we could not identify


def bare_refusal(code: str, text: str, *, device: DeviceId = NOBODY, retry_after_s: float | None = None) -> bytes:
    """A REFUSAL outside an envelope, for when there is no session to seal it in."""
    return frames.encode(Refusal(device, code, text, retry_after_s).frame())


def encode_json(value: Mapping[str, object]) -> bytes:
    """Compact JSON with sorted keys; the same value is always the same bytes."""
    data = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
    if len(data) > JSON_BYTES_MAX:
        raise UsageError(
            f"a message of {len(data)} bytes of JSON; at most {JSON_BYTES_MAX} may be sent, shorten names or values",
            code="message-too-large",
        )
    return data


def decode_json(payload: bytes | memoryview) -> dict[str, object]:
    """The object in a small JSON payload; anything else is the peer's error."""
    if len(payload) > JSON_BYTES_MAX:
        raise PeerError(f"{len(payload)} bytes of JSON; at most {JSON_BYTES_MAX} are read", code="message-json")
    value = parse_json(payload)
    if not isinstance(value, dict):
        raise PeerError("the payload is JSON but not an object", code="message-json")
    return value


def _unpacked(frame: Frame, form: struct.Struct) -> tuple[Any, ...]:
    """The fields of a payload that has this form and nothing more."""
    if len(frame.payload) != form.size:
        raise PeerError(
            f"a {frame.type.name} frame carries {form.size} bytes, this one {len(frame.payload)}", code="message-length"
        )
    return form.unpack(frame.payload)


def _number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _between(value: object, least: float, most: float) -> TypeGuard[int | float]:
    return _number(value) and least <= value <= most
