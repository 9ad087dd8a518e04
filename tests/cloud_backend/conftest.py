"""Stores of the cloud half are tested twice: in files of their own, and as schemas of a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from cloud_backend.database import Location, located
from tests.postgres import PostgresServer

Where: TypeAlias = Callable[[str], Location]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for all tests of a run; started when the first one asks."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    """Where a store is kept that has this file's name, empty at first."""
    if request.param == "sqlite":
        return lambda file: tmp_path / file
    server: PostgresServer = request.getfixturevalue("postgres")
    server.clear()
    return lambda file: located(server.url(), file)
