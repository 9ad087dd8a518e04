from __future__ import annotations

import datetime
from pathlib import Path

from cryptography.hazmat.primitives.serialization import load_pem_private_key

from cloud_backend.gateway.certificate import certificate_for, load_certificate


def test_the_certificate_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path):
    path, pin = load_certificate(tmp_path)
    first = path.read_bytes()
    assert load_certificate(tmp_path) == (path, pin)
    assert path.read_bytes() == first
    assert path.stat().st_mode & 0o077 == 0


def test_a_certificate_renewed_for_the_same_key_keeps_the_pin(tmp_path: Path):
    path, pin = load_certificate(tmp_path)
    before = path.read_bytes()
    key = load_pem_private_key(before, None)
    path.write_bytes(certificate_for(key, datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)))
    assert path.read_bytes() != before
    assert load_certificate(tmp_path) == (path, pin)
