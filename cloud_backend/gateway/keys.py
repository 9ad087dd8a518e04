"""The gateway's keys: Ed25519 to sign sessions and plans with, a fresh X25519 pair per session.

The private key is made at the first start and written once to a file that only its owner can read. Devices pin its
public half when they pair; a gateway that loses it must pair every device again, so back it up with the log.
"""

from __future__ import annotations

import hmac
import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from shared.errors import DamagedData, PeerError
from shared.identity import is_small_order
from shared.spool.disk import PosixDisk

KEY_FILE = "gateway.key"
KEY_BYTES = 32


class SessionKey:
    """A one-time X25519 key pair."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()

    @property
    def public(self) -> bytes:
        return self._private.public_key().public_bytes_raw()

    def agree(self, other_public: bytes) -> bytes:
        try:
            return self._private.exchange(X25519PublicKey.from_public_bytes(other_public))
        except ValueError:
            raise PeerError("the device's half of the session key is degenerate", code="session-key") from None


def is_signed_by(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether this is an Ed25519 signature by this key; False, never an exception, for a malformed or weak key."""
    if is_small_order(public_key):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


class Keys:
    def __init__(self, private: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(private)
        self._root = hmac.digest(private, b"resurge gateways of one key", "sha256")
        self.public_key = self._private.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)

    def verify(self, public_key: bytes, message: bytes, signature: bytes) -> bool:
        return is_signed_by(public_key, message, signature)

    def ephemeral(self) -> SessionKey:
        return SessionKey()

    def random(self, count: int) -> bytes:
        return os.urandom(count)

    def secret_for(self, purpose: bytes) -> bytes:
        """32 bytes that every gateway with this key has, and nobody else."""
        return hmac.digest(self._root, purpose, "sha256")


def load_keys(home: Path) -> Keys:
    """The keys of this home; made on first use and durable before they are used."""
    path = home / KEY_FILE
    if not path.exists():
        PosixDisk(home).replace(KEY_FILE, os.urandom(KEY_BYTES))
    private = path.read_bytes()
    if len(private) != KEY_BYTES:
        raise DamagedData(
            f"{KEY_FILE} has {len(private)} bytes, expected {KEY_BYTES}; restore it from a copy: devices know this "
            "gateway by it",
            code="key-damaged",
        )
    return Keys(private)
