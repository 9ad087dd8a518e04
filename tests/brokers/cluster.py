"""The brokers of these tests: those of the benches. A test that needs them ends where they cannot be fetched."""

from __future__ import annotations

from resurge.bench import _brokers
from resurge.bench._brokers import PASSWORD, USER, Broker
from resurge.bench._downloads import NotReachable
from tests.skips import skip_download

__all__ = ["PASSWORD", "USER", "Broker", "Cluster"]


class Cluster(_brokers.Cluster):
    def __enter__(self) -> Cluster:
        try:
            super().__enter__()
        except NotReachable as error:
            skip_download(str(error))
        return self
