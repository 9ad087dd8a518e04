"""TLS to the holder of one key: the connection is checked by the key it was made with, and by nothing else.

The gateway of a household or a lab has no name a public authority would vouch for, and whoever shows another key,
however well signed, is not it. The *public key* is pinned and not the certificate around it, so that a gateway which
renews its certificate, or gets one from an authority for the same key, keeps its paired phones. The check comes right
after the handshake, which proves that the other end holds the private key, and before a byte of a request is sent.
"""

from __future__ import annotations

import hashlib
import hmac
import ssl
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPSConnection
from urllib3.connectionpool import HTTPSConnectionPool
from urllib3.exceptions import SSLError


def key_digest(certificate: bytes) -> bytes:
    """SHA-256 of the public key (SubjectPublicKeyInfo) in a certificate, both in DER."""
    key = x509.load_der_x509_certificate(certificate).public_key()
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()


class PinnedAdapter(HTTPAdapter):
    """Speaks TLS 1.3 to the holder of the key with this SHA-256, and to nobody else."""

    def __init__(self, pin: bytes) -> None:
        self._pin = pin
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, ssl_minimum_version=ssl.TLSVersion.TLSv1_3, **options)
        pool = type("PinnedPool", (HTTPSConnectionPool,), {"ConnectionCls": _connection(self._pin)})
        self.poolmanager.pool_classes_by_scheme = {"https": pool}


def _connection(pin: bytes) -> type[HTTPSConnection]:
    class PinnedConnection(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            certificate = self.sock.getpeercert(binary_form=True) if isinstance(self.sock, ssl.SSLSocket) else None
            if not certificate or not _is_pinned(certificate, pin):
                self.close()
                raise SSLError("the other end holds another key than the pinned one")
            self.is_verified = True  # by the pin, which is all that counts here

    return PinnedConnection


def _is_pinned(certificate: bytes, pin: bytes) -> bool:
    try:
        return hmac.compare_digest(key_digest(certificate), pin)
    except ValueError:  # no certificate that one could read
        return False
