"""A certificate of the gateway's own, for a household or a lab without a public name.

Devices trust its key by the SHA-256 they get with the enrolment link, so nobody needs to sign it and its names do not
matter. The key is made once and kept: a new one would lock out every paired device. The certificate around it is
issued anew when it is about to expire, and nobody notices.
"""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from shared.spool.disk import PosixDisk

CERTIFICATE_FILE = "gateway.pem"
VALID_DAYS = 3650
RENEW_DAYS = 30


def load_certificate(home: Path, now: datetime.datetime | None = None) -> tuple[Path, bytes]:
    """(file with private key and certificate, SHA-256 of the public key); made on first use, renewed in time."""
    now = now or datetime.datetime.now(datetime.UTC)
    path = home / CERTIFICATE_FILE
    if not path.exists():
        PosixDisk(home).replace(CERTIFICATE_FILE, _pem(ec.generate_private_key(ec.SECP256R1()), now))
    content = path.read_bytes()
    key = serialization.load_pem_private_key(content, password=None)
    expires = x509.load_pem_x509_certificate(content).not_valid_after_utc
    if isinstance(key, ec.EllipticCurvePrivateKey) and expires - now < datetime.timedelta(days=RENEW_DAYS):
        PosixDisk(home).replace(CERTIFICATE_FILE, _pem(key, now))
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return path, hashlib.sha256(public).digest()


def _pem(key: ec.EllipticCurvePrivateKey, now: datetime.datetime) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "resurge gateway")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # a phone's clock may be behind
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + certificate.public_bytes(Encoding.PEM)
