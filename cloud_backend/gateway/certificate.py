"""A certificate of the gateway's own, for a household or a lab without a public name.

Devices trust it by its fingerprint, which they get with the enrolment link, so nobody needs to sign it and its names
do not matter. It is made once and kept: a new one would lock out every paired device.
"""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from shared.spool.disk import PosixDisk

CERTIFICATE_FILE = "gateway.pem"
VALID_DAYS = 36_500  # a pin is trust in this very certificate; its dates add nothing but a day on which all fails


def load_certificate(home: Path) -> tuple[Path, bytes]:
    """(file with private key and certificate, SHA-256 fingerprint of the certificate); made on first use."""
    path = home / CERTIFICATE_FILE
    if not path.exists():
        PosixDisk(home).replace(CERTIFICATE_FILE, _make(datetime.datetime.now(datetime.UTC)))
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    return path, hashlib.sha256(certificate.public_bytes(Encoding.DER)).digest()


def _make(now: datetime.datetime) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
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
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)
