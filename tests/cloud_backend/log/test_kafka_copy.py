"""A copy of a log in Kafka, without brokers: tests/brokers/test_copy.py has them."""

from __future__ import annotations

import threading

from cloud_backend.log.kafka.copy import LogCopy


def test_a_copy_that_is_being_written_is_trimmed_another_time():
    """A slice may wait for brokers for a minute; whoever trims has revocations and the lease to look after."""
    copy = object.__new__(LogCopy)
    copy._lock = threading.Lock()
    with copy._lock:
        trimming = threading.Thread(target=copy.trim, args=({"0": 10},), daemon=True)
        trimming.start()
        trimming.join(10)
        assert not trimming.is_alive()
