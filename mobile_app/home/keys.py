"""The device's own keys: Ed25519 to sign with, X25519 for each session.

The private key is made here at first start, written once to a file only its owner can read, and never leaves the
device. A phone's key store can take the file's place later; where there is none (Termux, a laptop) file
permissions are the protection, and `resurge node status` says so.
"""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from mobile_app.home.files import write_durably
from shared.errors import DamagedData, PeerError

KEY_FILE = "device.key"
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
        except ValueError as error:
            raise PeerError("the gateway's half of the session key is degenerate", code="session-key") from error


class Keys:
    """The device's long-term key, and the gateway's public key pinned at enrolment (empty before it)."""

    def __init__(self, private: bytes, gateway_key: bytes = b"") -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(private)
        self._gateway_key = gateway_key

    @property
    def public_key(self) -> bytes:
        return self._private.public_key().public_bytes_raw()

    @property
    def gateway_key(self) -> bytes:
        return self._gateway_key

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)

    def verify_gateway(self, message: bytes, signature: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(self._gateway_key).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True

    def ephemeral(self) -> SessionKey:
        return SessionKey()


def load_keys(home: Path, gateway_key: bytes = b"") -> Keys:
    """This home's keys; made on first use and durable before they are used."""
    path = home / KEY_FILE
    try:
        private = path.read_bytes()
    except FileNotFoundError:
        private = os.urandom(KEY_BYTES)
        write_durably(path, private)
    if len(private) != KEY_BYTES:
        raise DamagedData(
            f"the device key in {str(path)!r} has {len(private)} bytes, expected {KEY_BYTES}; restore it from a copy, "
            f"or move it away and pair this device again",
            code="key-damaged",
        )
    return Keys(private, gateway_key)
