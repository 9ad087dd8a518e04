"""What a gateway is started with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cloud_backend.database import Location, in_home
from cloud_backend.gateway.rate_limits import Rate
from cloud_backend.gateway.reach import is_everywhere
from cloud_backend.log.log import SEGMENT_BYTES
from shared.errors import UsageError
from shared.wire.envelope import EXCHANGE_BYTES_MAX

# What gateways share where there are several. What is about one gateway's own log stays in its home: history, alerts,
# reports on contracts, and the fleet it coordinates.
SHARED = ("roster.sqlite", "accounts.sqlite", "audit.sqlite", "queries.sqlite")


@dataclass(frozen=True, slots=True)
class Settings:
    home: Path  # keys, roster and log live here; two gateways never share one
    host: str = "127.0.0.1"
    port: int = 8750
    log: str | None = None  # a log in Kafka, kafka://...; None: on the disk of the home
    gateways: str | None = None  # where other gateways of the log reach this one, HOST:PORT; None: a port of the host
    plan: Path | None = None  # an encoded plan for every device; watched, a new version goes out by itself
    results: Path | str | None = None  # the results store, a file or a server's URL; None: no results go down
    database: str | None = None  # a server's URL; there is then what gateways share, which else are files of the home
    stable: Path | None = None  # what Spark has made stable, as it writes it; None: nothing is trimmed
    hints: Path | None = None  # the sampling rate Spark asks for, as it writes it
    jobs: Path | None = None  # where queries are wanted as further Spark jobs; None: none are taken
    copies: tuple[Path, ...] = ()  # further directories that get every segment before it is acknowledged
    tls: bool = False
    standby: bool = False  # wait until no other gateway runs on this home
    log_json: bool = False  # what the process says, one JSON object per line
    dashboard: bool = True
    dashboard_hosts: tuple[str, ...] = ()  # names at which the dashboard answers beyond this machine, over TLS
    segment_bytes: int = SEGMENT_BYTES
    reserve_bytes: int = 8 * 1024 * 1024  # zero-filled ahead of the log's end, see Log.reserve
    exchange_bytes_max: int = EXCHANGE_BYTES_MAX
    in_flight_bytes_max: int = 256 * 1024 * 1024  # bodies held at once, over all devices
    exchange_rate: Rate = field(default_factory=lambda: Rate(per_s=50, burst=500))
    byte_rate: Rate = field(default_factory=lambda: Rate(per_s=2 * 1024 * 1024, burst=256 * 1024 * 1024))
    failure_rate: Rate = field(default_factory=lambda: Rate(per_s=5, burst=100))  # of one address or one claimed key
    bad_hello_rate: Rate = field(default_factory=lambda: Rate(per_s=200, burst=1000))  # answered before anybody waits
    proxies: frozenset[str] = frozenset()  # addresses whose X-Forwarded-For is believed
    backlog_bytes_max: int = 1 << 30  # unread log beyond which devices are asked to sample less

    @property
    def has_dashboard(self) -> bool:
        return self.dashboard and self.results is not None

    @property
    def reached_by_gateways(self) -> str:
        """Where to listen for other gateways, which is what they are told. UsageError where that says nothing."""
        given = self.gateways or f"{self.host}:0"
        host, _, port = given.rpartition(":")
        if not host or is_everywhere(host) or not port.isdigit() or int(port) > 65535:
            raise UsageError(
                f"other gateways cannot reach this one at {given!r}; give --gateways ADDRESS:PORT with an address of "
                "this machine",
                code="gateways-bind",
            )
        return given

    @property
    def log_directory(self) -> Path:
        return self.home / "log"

    @property
    def roster_path(self) -> Location:
        return in_home(self.home, "roster.sqlite")
