"""A certificate of the gateway's own, for a household or a lab without a public name.

Devices trust it by its fingerprint, which they get with the enrolment link, so nobody needs to sign it and its names
do not matter. It is made once and kept: a new one would lock out every paired device.
"""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from shared.spool.disk import PosixDisk

CERTIFICATE_FILE = "gateway.pem"
VALID_DAYS = 3650


def load_certificate(home: Path) -> tuple[Path, bytes]:
    """(file with certificate and private key, SHA-256 fingerprint of the certificate); made on first use."""
    path = home / CERTIFICATE_FILE
    if not path.exists():
        PosixDisk(home).replace(CERTIFICATE_FILE, _make())
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    return path, hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).digest()


def _make() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "resurge gateway")])
    now = datetime.datetime.now(datetime.UTC)
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
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
