"""Payloads at rest under ChaCha20-Poly1305, with a random nonce each; the control block is authenticated."""

from __future__ import annotations

import hashlib
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from shared.errors import DamagedData, UsageError
from shared.spool.cipher import FINGERPRINT_BYTES

KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16


def new_key() -> bytes:
    """A key for one spool. Keep it in the platform's key store; where there is none, in a file only its owner reads."""
    return os.urandom(KEY_BYTES)


class SpoolCipher:
    """Random nonces of 96 bits: at a batch a second one key lasts far longer than any phone before two may meet."""

    overhead_bytes = _NONCE_BYTES + _TAG_BYTES

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise UsageError(f"a spool key has {KEY_BYTES} bytes, this one {len(key)}", code="spool-key-length")
        self._cipher = ChaCha20Poly1305(key)
        self._fingerprint = hashlib.blake2b(
            b"spool", key=key, digest_size=FINGERPRINT_BYTES, person=b"resurge-key"
        ).digest()

    def fingerprint(self) -> bytes:
        return self._fingerprint

    def seal(self, payload: bytes, associated: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, payload, associated)

    def open(self, sealed: bytes, associated: bytes) -> bytes:
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], associated)
        except (InvalidTag, ValueError):
            raise DamagedData(
                "a sealed batch, or its control block, is not what was sealed", code="spool-seal"
            ) from None
