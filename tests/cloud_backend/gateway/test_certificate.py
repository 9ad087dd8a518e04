from __future__ import annotations

import datetime
from pathlib import Path

from cloud_backend.gateway.certificate import load_certificate


def test_the_pin_survives_restarts_and_the_renewal_of_the_certificate(tmp_path: Path):
    path, pin = load_certificate(tmp_path)
    first = path.read_bytes()
    assert load_certificate(tmp_path) == (path, pin)
    assert path.read_bytes() == first
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3640)
    assert load_certificate(tmp_path, later) == (path, pin)
    assert path.read_bytes() != first
    assert path.stat().st_mode & 0o077 == 0
