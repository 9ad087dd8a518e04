"""What the gateway counts about itself, for /metrics. The account of elements is not here: it is read from the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from shared.sync.receiver import ExchangeApplied


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._exchanges = Counter("resurge_exchanges", "Exchanges applied", registry=self.registry)
        self._elements = Counter("resurge_elements", "Elements received for the first time", registry=self.registry)
        self._duplicates = Counter(
            "resurge_duplicate_batches",
            "Batches that the log already had, answered again",
            registry=self.registry,
        )
        self._gaps = Counter("resurge_gap_batches", "Batches that came before their turn", registry=self.registry)
        self._refused = Counter("resurge_refused", "Requests refused, by code", ["code"], registry=self.registry)
        self._group = Histogram(
            "resurge_group_records", "Records per group commit", buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500),
            registry=self.registry,
        )  # fmt: skip
        self._sync = Histogram(
            "resurge_sync_seconds", "Seconds until a group was durable",
            buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5), registry=self.registry,
        )  # fmt: skip
        self.log_end = Gauge("resurge_log_end_bytes", "Offset after the last durable record", registry=self.registry)
        self.spooled = Gauge(
            "resurge_spooled_elements", "Elements in the spools of devices, as far as they said", registry=self.registry
        )
        self.violations = Counter(
            "resurge_account_violations", "Times the account did not add up at quiescence", registry=self.registry
        )
        self.ticks_failed = Counter("resurge_ticks_failed", "Background ticks that failed", registry=self.registry)
        self.faults = Counter(
            "resurge_faults", "Exceptions that nobody expected, each the end of one exchange", registry=self.registry
        )
        self.connections = Gauge("resurge_connections", "Open connections", registry=self.registry)
        self.waits = Gauge("resurge_waits", "Devices that wait to hear of news", registry=self.registry)
        self.sessions = Gauge("resurge_sessions", "Open sessions", registry=self.registry)
        self.forwarded = Counter(
            "resurge_forwarded", "Requests sent on to the gateway that owns their partition", registry=self.registry
        )
        self.owned = Gauge("resurge_partitions_owned", "Partitions of the log this one owns", registry=self.registry)

        self.passed = Gauge(
            "resurge_fleet_passed", "Exchanges between nodes passed on, since the gateway started",
            registry=self.registry,
        )  # fmt: skip
        self._control = Gauge(
            "resurge_fleet_control_bytes", "Bytes that coordinating the fleet took, since the gateway started",
            ["node", "direction"], registry=self.registry,
        )  # fmt: skip
        self.before: list[Callable[[], None]] = []  # looks to take, aside, before the counters are told
        self._sums = [0, 0, 0, 0]  # not yet in the four counters: a counter's lock costs more than the sum

    def applied(self, exchange: ExchangeApplied) -> None:
        sums = self._sums
        sums[0] += 1
        sums[1] += exchange.elements
        sums[2] += exchange.duplicates
        sums[3] += exchange.gaps

    def coordinating(self, control: Mapping[str, Mapping[str, float]], passed: int) -> None:
        """By node, what coordinating took so far, and how many exchanges between nodes were passed on."""
        self.passed.set(passed)
        for node, each in control.items():
            for direction in ("up", "down"):
                self._control.labels(node, direction).set(each[direction])

    def refused(self, code: str) -> None:
        self._refused.labels(code).inc()

    def group(self, records: int, seconds: float) -> None:
        self._group.observe(records)
        self._sync.observe(seconds)

    def text(self) -> bytes:
        sums, self._sums = self._sums, [0, 0, 0, 0]
        for counter, amount in zip((self._exchanges, self._elements, self._duplicates, self._gaps), sums, strict=True):
            counter.inc(amount)
        return generate_latest(self.registry)
