from __future__ import annotations

from pathlib import Path

from cloud_backend.gateway.certificate import load_certificate


def test_the_certificate_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path):
    path, pin = load_certificate(tmp_path)
    first = path.read_bytes()
    assert load_certificate(tmp_path) == (path, pin)
    assert path.read_bytes() == first
    assert path.stat().st_mode & 0o077 == 0
