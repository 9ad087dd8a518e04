"""A batch as the payload of a DATA frame, packed as its edge asked for, and back. The frame says which codec it was."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from shared.batch import NO_FRONTIER, Batch
from shared.errors import PeerError, UsageError
from shared.language.codecs import AUTO, COLUMNS, DEFLATE, NAME_BYTES_MAX, NONE, Codec, registered_codec
from shared.language.schema import Schema
from shared.wire import columns
from shared.wire.columns import CODEC_COLUMNS, Cache
from shared.wire.frame import PAYLOAD_BYTES_MAX
from shared.wire.messages import DATA_PREFIX, Data
from shared.wire.planes import damaged
from shared.wire.uncompressed_rows import PLAIN_BYTES_MAX, ROWS_MAX, read_rows, read_times, write_rows

CODEC_NONE = 0
CODEC_DEFLATE = 2
CODEC_REGISTERED = 3  # the payload starts with the length of the codec's name, and the name
DEFLATE_LEVEL = 6


def encode(batch: Batch, codec: str = AUTO, *, cache: Cache | None = None) -> tuple[int, bytes]:
    """(codec number, payload). A cache kept per edge makes later batches of `columns` several times faster. What would
    fit no frame as it is, is packed whatever is asked for."""
    if codec in (AUTO, COLUMNS):
        return columns.encode(batch, cache=cache)
    plain = write_rows(batch)
    if len(batch) > ROWS_MAX or len(plain) > PLAIN_BYTES_MAX:
        raise UsageError(
            f"a batch of {len(batch)} rows and {len(plain)} bytes; at most {ROWS_MAX} rows and {PLAIN_BYTES_MAX} bytes "
            "are encoded at once, make smaller batches",
            code="columns-large",
        )
    if codec == NONE:
        fits = len(plain) + DATA_PREFIX.size <= PAYLOAD_BYTES_MAX
        return (CODEC_NONE, plain) if fits else columns.encode(batch, cache=cache)
    if codec == DEFLATE:
        return CODEC_DEFLATE, zlib.compress(plain, DEFLATE_LEVEL)
    own = registered_codec(codec)
    if own is None:
        raise UsageError(
            f"codec {codec!r} is not known here; register it in a module that resurge.toml lists", code="codec-unknown"
        )
    packed = _packed(own, plain)
    if packed is None:
        return columns.encode(batch, cache=cache)
    name = codec.encode()
    return CODEC_REGISTERED, bytes((len(name),)) + name + packed


def _packed(own: Codec, plain: bytes) -> bytes | None:
    """What a user's codec makes of these bytes; None when it fails or could not give them back.

    After the receipt nobody else has the batch. So its codec is held to its promise here, while it costs only time.
    """
    try:
        packed = own.pack(plain)
        return packed if own.unpack(packed, PLAIN_BYTES_MAX) == plain else None
    except Exception:  # a user's code; the batch is worth more than its codec
        return None


def decode(
    codec: int,
    payload: bytes | memoryview,
    schema: Schema,
    *,
    lo: int,
    hi: int,
    frontier_us: int = NO_FRONTIER,
    applied: int = 0,
) -> Batch:
    """The batch again. Raises PeerError and nothing else: columns-codec, -damaged, -large, codec-unknown."""
    if codec == CODEC_COLUMNS:
        return columns.decode(codec, payload, schema, lo=lo, hi=hi, frontier_us=frontier_us, applied=applied)
    return read_rows(_plain(codec, payload), schema, lo=lo, hi=hi, frontier_us=frontier_us, applied=applied)


def decode_times(data: Data) -> NDArray[np.int64]:
    """The event times of the rows that a DATA message carries. Raises PeerError as `decode` does."""
    if data.codec == CODEC_COLUMNS:
        return columns.open_payload(data.columns, lo=data.lo, hi=data.hi).time_us
    return read_times(_plain(data.codec, data.columns), lo=data.lo, hi=data.hi)


def _plain(codec: int, payload: bytes | memoryview) -> bytes | memoryview:
    """The rows as `write_rows` wrote them."""
    if codec == CODEC_NONE:
        plain: bytes | memoryview = payload
    elif codec == CODEC_DEFLATE:
        plain = _inflate(payload)
    elif codec == CODEC_REGISTERED:
        plain = _unpack(payload)
    else:
        raise PeerError(f"codec {codec}; this side reads 0 to {CODEC_REGISTERED}, upgrade it", code="columns-codec")
    if len(plain) > PLAIN_BYTES_MAX:
        raise PeerError("the batch is larger than any this side decodes; make smaller batches", code="columns-large")
    return plain


def decode_data(data: Data, schema: Schema) -> Batch:
    """The batch that a DATA message carries."""
    return decode(
        data.codec, data.columns, schema, lo=data.lo, hi=data.hi, frontier_us=data.frontier_us,
        applied=data.applied,
    )  # fmt: skip


def _inflate(payload: bytes | memoryview) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(payload, PLAIN_BYTES_MAX + 1)
    except zlib.error:
        raise damaged("it does not inflate") from None
    if len(plain) <= PLAIN_BYTES_MAX and (not unpacker.eof or unpacker.unused_data):
        raise damaged("it does not inflate")
    return plain


def _unpack(payload: bytes | memoryview) -> bytes:
    length = payload[0] if payload else 0
    if not 0 < length <= NAME_BYTES_MAX or len(payload) <= length:
        raise damaged("it names no codec")
    name = bytes(payload[1 : 1 + length]).decode("ascii", "replace")
    own = registered_codec(name)
    if own is None:
        raise PeerError(
            "the batch was packed with a codec that is not registered here; list its module in resurge.toml",
            code="codec-unknown",
        )
    try:
        return own.unpack(bytes(payload[1 + length :]), PLAIN_BYTES_MAX)
    except Exception as error:  # a user's code; its failure is the batch's, not the reader's
        raise damaged(f"codec {name} does not unpack it") from error
