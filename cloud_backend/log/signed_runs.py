"""Signed runs: which batches of the log their devices have signed, computed anew from the records.

A device chains the digests of batches it has receipts for and signs the end of each run (`shared/sync/signed_runs.py`);
the CHAIN frame comes to the log after the batches it speaks of. Those of a query are signed by the node that made them.
The gateway checked the signature when it came. Here the digest under it is computed again from what the log holds now:
if both hold, the device itself vouches for these batches, and the gateway could not have made them up.

Not every batch is under a signature: the newest of an edge are not yet, and a crash of the device forgets a run. So
`unsigned` is no fault. A run whose digest or signature does not fit is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from cloud_backend.log.index import NUMBERED
from shared.identity import DeviceId, EdgeKey
from shared.sync.signed_runs import EMPTY
from shared.wire.frame import (
    HEADER_BYTES,
    Frame,
    FrameType,
    decode_one,
    frame_of,
    payload_digest,
    stored_header,
)
from shared.wire.messages import Chain, chain_digest

WAITING_MAX = 4096  # batches of an edge kept for a signature to come; runs are 64 batches long

# (device, what was signed, signature) -> whether it is the device's; None: nobody here knows its key.
IsSigned = Callable[[DeviceId, bytes, bytes], bool | None]


@dataclass(slots=True)
class SignedRuns:
    is_signed: IsSigned | None = None
    runs: int = 0  # whose digest and signature fit
    batches: int = 0  # in those
    unsigned: int = 0  # batches under no signature, or none yet
    unchecked: int = 0  # runs whose records were trimmed, or whose device is not known here
    wrong: list[str] = field(default_factory=list)
    signers: dict[DeviceId, int] = field(default_factory=dict)  # batches that each has signed
    _waiting: dict[EdgeKey, deque[tuple[Frame, bytes]]] = field(default_factory=dict)

    def take(self, data: bytes, *, erased: bool = False) -> None:
        """The next record's frame."""
        frame = _erased_frame(data) if erased else decode_one(data)[0]
        key = EdgeKey(frame.source, frame.incarnation, frame.edge)
        if frame.type in NUMBERED:
            waiting = self._waiting.setdefault(key, deque())
            waiting.append((frame, _digest_left(frame.payload) if erased else payload_digest(frame.payload)))
            self.unsigned += 1
            if len(waiting) > WAITING_MAX:
                waiting.popleft()
        elif frame.type is FrameType.CHAIN:
            self._check(key, Chain.of(frame))

    def _check(self, key: EdgeKey, chain: Chain) -> None:
        waiting = self._waiting.get(key, deque())
        while waiting and waiting[0][0].seq < chain.lo:
            waiting.popleft()  # a run that was forgotten: runs need not touch
        run: list[tuple[Frame, bytes]] = []
        while waiting and waiting[0][0].seq + waiting[0][0].count <= chain.hi:
            run.append(waiting.popleft())
        whole = run and run[0][0].seq == chain.lo and run[-1][0].seq + run[-1][0].count == chain.hi
        signed = None if self.is_signed is None else self.is_signed(chain.by, chain.signed(), chain.signature)
        if not whole or signed is None or any(frame.payload and not digest for frame, digest in run):
            self.unchecked += 1
            return
        digest = EMPTY
        for frame, of_payload in run:
            digest = chain_digest(digest, frame, of_payload)
        if not signed or digest != chain.digest:
            fault = "is not by it" if not signed else "is over other batches than these"
            where = f"[{chain.lo}, {chain.hi}) of edge {chain.edge:016x}"
            self.wrong.append(f"{where}: the signature of device {chain.by.hex()} {fault}")
            return
        self.runs += 1
        self.batches += len(run)
        self.signers[chain.by] = self.signers.get(chain.by, 0) + len(run)
        self.unsigned -= len(run)


def _erased_frame(data: bytes) -> Frame:
    """An erased frame: its header is as it was, so its checksum no longer fits."""
    return frame_of(stored_header(data), data[HEADER_BYTES:])


def _digest_left(payload: bytes) -> bytes:
    """The digest that stands in the place of an erased payload; nothing where it did not fit."""
    return payload[: len(EMPTY)] if len(payload) >= len(EMPTY) else b""
