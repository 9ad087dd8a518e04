"""Provenance: a signature over every run of batches, so that the log can prove who measured them.

The session's MAC convinces the gateway and nobody else, since the gateway could have made it itself. A signature
per batch would convince anybody, and cost the gateway more than everything else together. So the device chains
the digests of the batches it has receipts for and signs the end of the chain every `BATCHES_PER_SIGNATURE`
batches; the CHAIN frame goes to the log beside them and `resurge log verify` computes the digests again.

Batches of a query are under no device's key. Whoever makes them and brings them to the gateway signs them, with its id;
when another node goes on, that one begins a run of its own.

A crash of the device forgets the run in progress: its batches are in the log with the session's MAC only, and
the next run starts after them. Runs are therefore named by [lo, hi) and need not touch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from shared.identity import DeviceId, EdgeId
from shared.wire.frame import Frame
from shared.wire.messages import Chain, chain_digest

BATCHES_PER_SIGNATURE = 64
EMPTY = bytes(32)


class SignedRun:
    """The run in progress on one edge."""

    __slots__ = (
        "_batches",
        "_device",
        "_digest",
        "_edge",
        "_hi",
        "_incarnation",
        "_lo",
        "_signer",
        "_term",
        "_waiting",
    )

    def __init__(self, device: DeviceId, incarnation: int, edge: EdgeId, *, signer: bytes = b"", term: int = 0) -> None:
        """`signer` is the node that makes the edge of a query, under this term."""
        self._signer, self._term = signer, term
        self._device = device
        self._incarnation = incarnation
        self._edge = edge
        self._restart(0)
        self._waiting: Chain | None = None

    def _restart(self, lo: int) -> None:
        self._lo = self._hi = lo
        self._digest = EMPTY
        self._batches = 0

    def advance(self, sent: Sequence[tuple[Frame, bytes]], through: int) -> None:
        """These frames, each with its payload's digest, were sent in order and the receipt says `through`: those below
        it join the run.

        A receipt also settles the signature that went with the exchange.
        """
        self._waiting = None
        for frame, digest in sent:
            if frame.seq + frame.count > through or frame.seq < self._hi:
                continue
            if frame.seq != self._hi:
                self._restart(frame.seq)
            self._digest = chain_digest(self._digest, frame, digest)
            self._hi = frame.seq + frame.count
            self._batches += 1

    @property
    def of_query(self) -> bool:
        return bool(self._signer)

    def signed(self, sign: Callable[[bytes], bytes]) -> Chain | None:
        """The CHAIN to send along now, if the run is long enough; the same one until it is settled."""
        if self._waiting is None and self._batches >= BATCHES_PER_SIGNATURE:
            run = Chain(
                self._device, self._incarnation, self._edge, self._lo, self._hi, self._digest,
                signer=self._signer, term=self._term,
            )  # fmt: skip
            self._waiting = replace(run, signature=sign(run.signed()))
            self._restart(self._hi)
        return self._waiting
