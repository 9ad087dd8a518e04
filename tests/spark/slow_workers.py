"""Spark gives the Python worker of a streaming query ten seconds to start, and has no setting for it. On a machine so
busy that it takes longer, the query is begun again: its checkpoint says where it was."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import StreamingQueryException

from tests.patience import SPARK_PATIENCE_S, wait_until

TOO_SLOW = "Python worker failed to connect back"


def until_its_worker_starts(follow: Callable[[], None]) -> None:
    def followed() -> bool:
        try:
            follow()
        except StreamingQueryException as error:
            if TOO_SLOW not in str(error):
                raise
            return False
        return True

    wait_until(followed, "a streaming query's worker starts within ten seconds", patience_s=SPARK_PATIENCE_S)
