"""A certificate of the gateway's own, for a household or a lab without a public name.

Devices trust its public key, whose digest they get with the enrolment link, so nobody needs to sign it and its names
do not matter. The key is made once and kept: a new one would lock out every paired device. The certificate around it
may change: put another one for the same key into the file (an authority's, for one) and phones stay paired.
"""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID

from shared.spool.disk import PosixDisk

CERTIFICATE_FILE = "gateway.pem"
VALID_DAYS = 36_500  # a pin is trust in this very key; dates add nothing but a day on which all fails


def load_certificate(home: Path) -> tuple[Path, bytes]:
    """(file with private key and certificate, SHA-256 of the public key); made on first use."""
    path = home / CERTIFICATE_FILE
    if not path.exists():
        pem = certificate_for(ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC))
        PosixDisk(home).replace(CERTIFICATE_FILE, pem)
    key = x509.load_pem_x509_certificate(path.read_bytes()).public_key()
    return path, hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()


def certificate_for(key: ec.EllipticCurvePrivateKey, now: datetime.datetime) -> bytes:
    """The key and a certificate of its own for it, as PEM."""
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
