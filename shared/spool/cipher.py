"""The cipher port: how payloads are sealed at rest.

A sealed payload carries its own random nonce and tag. The control block is handed in as associated data, so
a payload cannot be moved under another edge, number or schema. The real cipher is `mobile_app/spool/cipher.py`.
"""

from __future__ import annotations

from typing import Protocol

FINGERPRINT_BYTES = 16
IN_THE_CLEAR = bytes(FINGERPRINT_BYTES)


class Cipher(Protocol):
    overhead_bytes: int  # how much longer a sealed payload is

    def fingerprint(self) -> bytes:
        """16 bytes that tell keys apart and say nothing about them; stored so that a wrong key is refused at once."""
        ...

    def seal(self, payload: bytes, associated: bytes) -> bytes: ...

    def open(self, sealed: bytes, associated: bytes) -> bytes:
        """The payload; raises DamagedData when sealed or associated bytes are not what was sealed."""
        ...
