"""TLS to one known key. The gateway of a household or a lab has no name a public authority would vouch for, so the
enrolment link carries the SHA-256 of its public key; whoever shows another, however well signed, is not it.

The check runs when the handshake is done and before the first byte of a request is sent.
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
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool


def key_digest(certificate: bytes) -> bytes:
    """SHA-256 of the public key in a DER certificate: what a pin is."""
    key = x509.load_der_x509_certificate(certificate).public_key()
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()


def pinned_adapter(pin: bytes) -> HTTPAdapter:
    """An adapter for `requests` whose connections speak TLS 1.3 to the holder of the pinned key and nobody else."""

    class PinnedConnection(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            certificate = self.sock.getpeercert(binary_form=True)  # type: ignore[union-attr]
            if certificate is None or not hmac.compare_digest(key_digest(certificate), pin):
                self.close()
                raise ssl.SSLError("the peer's key is not the pinned one")
            self.is_verified = True

    class PinnedPool(HTTPSConnectionPool):
        ConnectionCls = PinnedConnection

    class PinnedAdapter(HTTPAdapter):
        def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
            super().init_poolmanager(*arguments, ssl_minimum_version=ssl.TLSVersion.TLSv1_3, **options)
            self.poolmanager.pool_classes_by_scheme = {"http": HTTPConnectionPool, "https": PinnedPool}

    return PinnedAdapter()
