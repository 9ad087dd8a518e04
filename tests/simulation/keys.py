"""Toy keys for the simulated world: fast, deterministic, and wrong for anything else.

They keep the algebra (agreement gives both sides the same secret, a signature binds key and message), so the
production handshake runs unchanged. Never use them where an adversary can read them.
"""

from __future__ import annotations

import hashlib
from random import Random

PRIME = (1 << 127) - 1


def _signature(secret: bytes, message: bytes) -> bytes:
    return hashlib.blake2b(message, key=secret, digest_size=64).digest()


def _public(secret: bytes) -> bytes:
    return hashlib.blake2b(secret, digest_size=32, person=b"toy-public").digest()


class ToyEphemeral:
    def __init__(self, rng: Random) -> None:
        self._exponent = rng.getrandbits(64) | 1
        self.public = pow(5, self._exponent, PRIME).to_bytes(32, "little")

    def agree(self, other_public: bytes) -> bytes:
        return pow(int.from_bytes(other_public, "little"), self._exponent, PRIME).to_bytes(32, "little")


class ToyKeys:
    """A device's and a gateway's keys at once. A verifier needs the signer's secret: `known` is how it gets it."""

    def __init__(self, rng: Random, known: dict[bytes, bytes], *, gateway_key: bytes = b"") -> None:
        self._rng = rng
        self._secret = rng.randbytes(32)
        self.public_key = _public(self._secret)
        self.gateway_key = gateway_key or self.public_key
        self._known = known
        known[self.public_key] = self._secret

    def sign(self, message: bytes) -> bytes:
        return _signature(self._secret, message)

    def verify(self, public_key: bytes, message: bytes, signature: bytes) -> bool:
        secret = self._known.get(public_key)
        return secret is not None and _signature(secret, message) == signature

    def verify_gateway(self, message: bytes, signature: bytes) -> bool:
        return self.verify(self.gateway_key, message, signature)

    def ephemeral(self) -> ToyEphemeral:
        return ToyEphemeral(self._rng)

    def random(self, count: int) -> bytes:
        return self._rng.randbytes(count)
