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


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """One dashboard for all tests of a module: for those that leave it as it was."""
    made = House(tmp_path_factory.mktemp("house"))
    yield made
    made.close()
