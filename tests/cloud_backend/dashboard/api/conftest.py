from __future__ import annotations

import pytest

from tests.cloud_backend.dashboard.house import House


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """One dashboard for all tests of a module: for those that leave it as it was."""
    made = House(tmp_path_factory.mktemp("house"))
    yield made
    made.close()
