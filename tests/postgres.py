"""The PostgreSQL server of the tests: that of the benches. A test that needs it ends where it is not installed."""

from __future__ import annotations

from resurge.bench import _postgres
from resurge.bench._downloads import NotReachable
from resurge.bench._postgres import PASSWORD, USER
from tests.skips import skip_download

__all__ = ["PASSWORD", "USER", "PostgresServer"]


class PostgresServer(_postgres.PostgresServer):
    def __init__(self) -> None:
        try:
            super().__init__()
        except NotReachable as error:
            skip_download(str(error))
