from __future__ import annotations

import pytest

from tests.cloud_backend.dashboard.house import House, cheap_passwords


@pytest.fixture(autouse=True)
def quick_sign_in(monkeypatch):
    cheap_passwords(monkeypatch)


@pytest.fixture
def dashboard(tmp_path):
    house = House(tmp_path / "house")
    yield house
    house.close()
