"""`python -m cloud_backend.gateway --home DIR --port P`: run a gateway until it is told to stop.

It may be killed at any moment and started again on the same home. It ends by itself, with status 70, when a sync of
the log failed: only a new process reads what the disk really holds.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import signal
import socket
import sys
import time
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

import uvicorn

from cloud_backend.coordinator.people import FILE, People
from cloud_backend.database import in_home, location
from cloud_backend.gateway.address_file import write_address
from cloud_backend.gateway.app import create_app
from cloud_backend.gateway.certificate import load_certificate
from cloud_backend.gateway.gateway import Gateway, now_us
from cloud_backend.gateway.http_protocol import ExchangeProtocol
from cloud_backend.gateway.rate_limits import Rate
from cloud_backend.gateway.settings import Settings
from cloud_backend.gateway.shares import Shares
from cloud_backend.gateway.tenure import Tenure
from cloud_backend.logging_setup import set_up_logging
from shared.errors import ResurgeError

DEPOSED = 3  # as Spark's driver: another process has the lease
STANDBY_LOOK_S = 1.0
DISK_FAILED = 70  # EX_SOFTWARE of sysexits; a supervisor starts the gateway again
HANDSHAKE_SECONDS_MAX = 15.0
# How long a busy thread keeps the interpreter from the event loop. A viewer's pages and questions are computed by up to
# seven threads; with Python's own 5 ms they made an exchange wait 66 ms in the median, with this 7 ms.
SWITCH_INTERVAL_S = 0.0005
KEEP_ALIVE_S = 75  # longer than a device's usual minute between two exchanges
_log = logging.getLogger("resurge.gateway")


class GatewayServer(uvicorn.Server):
    """uvicorn's, with a limit on the TLS handshake: a socket that never finishes one is not a connection yet. Told to
    stop, one of several gateways leaves the others first, while it still answers."""

    shares: Shares | None = None
    _leaves: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.shares is None or self._leaves is not None or not self.started:
            super().handle_exit(sig, frame)
            return
        loop = asyncio.get_running_loop()
        self._leaves = loop.create_task(self.shares.leave())
        self._leaves.add_done_callback(lambda _: super(GatewayServer, self).handle_exit(sig, frame))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise SystemExit(1)
        loop = asyncio.get_running_loop()
        connect = partial(
            ExchangeProtocol, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        ssl, limit = self.config.ssl, HANDSHAKE_SECONDS_MAX if self.config.ssl else None
        self.servers = [
            await loop.create_server(
                connect, sock=listener, ssl=ssl, backlog=self.config.backlog, ssl_handshake_timeout=limit
            )
            for listener in sockets or ()
        ]
        self.started = True


def parse(arguments: list[str]) -> Settings:
    parser = argparse.ArgumentParser(prog="python -m cloud_backend.gateway", description="Run a Resurge gateway.")
    parser.add_argument("--home", type=Path, required=True, help="keys, roster and log; made when it is not there")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=8750, help="0 picks a free one; gateway.json in the home names it")
    parser.add_argument(
        "--log", help="a log in Kafka, kafka://HOST:PORT,HOST:PORT/NAME (default: a directory in the home)"
    )
    parser.add_argument("--plan", type=Path, help="encoded plan for the devices; watched for newer versions")
    parser.add_argument(
        "--results",
        type=location,
        help="results store, for devices and the dashboard: a file, or a URL of PostgreSQL",
    )
    parser.add_argument(
        "--database", metavar="URL",
        help="PostgreSQL database for roster, people, audit log and queries; the home remembers it",
    )  # fmt: skip
    parser.add_argument(
        "--gateways", metavar="ADDRESS:PORT",
        help="where other gateways of a log in Kafka reach this one (default: a free port of --host)",
    )  # fmt: skip
    parser.add_argument("--stable", type=Path, help="what Spark has made stable; older log segments are trimmed")
    parser.add_argument("--hints", type=Path, help="the sampling rate Spark asks for; devices are told")
    parser.add_argument("--jobs", type=Path, help="where queries are wanted as further Spark jobs, as it follows them")
    parser.add_argument("--copy", type=Path, action="append", default=[], help="further directory for every segment")
    parser.add_argument("--rate", type=float, help="exchanges per second that one device may make (default: 50)")
    parser.add_argument(
        "--failures", type=float,
        help="failed introductions per second of one key or, with a code, of one address (default: 5)",
    )  # fmt: skip
    parser.add_argument(
        "--proxy", action="append", default=[],
        help="address of a reverse proxy whose X-Forwarded-For is believed; may be repeated (default: nobody's)",
    )  # fmt: skip
    parser.add_argument("--tls", action="store_true", help="serve TLS with a certificate that devices pin")
    parser.add_argument(
        "--dashboard-host", action="append", default=[],
        help="name at which the dashboard answers over TLS beyond this machine; may be repeated",
    )  # fmt: skip
    parser.add_argument("--standby", action="store_true", help="wait until the gateway that runs on this home is gone")
    parser.add_argument("--log-json", action="store_true", help="one JSON object per line of output, for collectors")
    given = parser.parse_args(arguments)
    settings = Settings(
        home=given.home, host=given.host, port=given.port, plan=given.plan, results=given.results,
        database=given.database,
        stable=given.stable, hints=given.hints, copies=tuple(given.copy), tls=given.tls,
        jobs=given.jobs, log=given.log, gateways=given.gateways,
        log_json=given.log_json, standby=given.standby,
        dashboard_hosts=tuple(given.dashboard_host),
        proxies=frozenset(given.proxy),
    )  # fmt: skip
    if given.rate:
        settings = replace(settings, exchange_rate=Rate(given.rate, 10 * given.rate))
    if given.failures:
        settings = replace(settings, failure_rate=Rate(given.failures, 20 * given.failures))
    return settings


def main(arguments: list[str]) -> int:
    settings = parse(arguments)
    set_up_logging(as_json=settings.log_json, keep=settings.home)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.disable()  # until all is read: looking through a large index again and again would take longer than reading it
    servers: list[uvicorn.Server] = []

    def stop(error: Exception) -> None:
        _log.critical("%s; stopping", error)
        for server in servers:
            server.should_exit = True

    try:
        if settings.standby:
            stand_by(settings)
        gateway = Gateway(settings, on_broken=stop)
        app = create_app(settings, gateway=gateway)
    except ResurgeError as error:
        _log.critical("%s", error)
        return 1
    if gateway.log.cut_bytes:
        _log.warning("cut %d bytes of a torn write off the log", gateway.log.cut_bytes)
    certificate, pin = load_certificate(settings.home) if settings.tls else (None, b"")
    with socket.create_server((settings.host, settings.port), backlog=2048) as listener:
        port = listener.getsockname()[1]
        write_address(
            settings.home, host=settings.host, port=port, pin=pin, key=gateway.keys.public_key, pid=os.getpid()
        )
        config = uvicorn.Config(
            app, loop="uvloop" if find_spec("uvloop") else "asyncio", http=ExchangeProtocol,
            proxy_headers=False, log_config=None, log_level="error", access_log=False, server_header=False,
            date_header=False, timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=5, ssl_certfile=certificate, ssl_keyfile=certificate,
        )  # fmt: skip
        if config.ssl_certfile:
            _tls_1_3_only(config)
        server = GatewayServer(config)
        server.shares = gateway.shares
        servers.append(server)
        calm_collector()
        print(json.dumps({"listening": f"{settings.host}:{port}", "home": str(settings.home)}), flush=True)
        _log.info("listens on %s:%d", settings.host, port)
        offer_first_link(settings, port)
        for number in (signal.SIGTERM, signal.SIGINT):
            # uvicorn shuts down gracefully and then raises the signal again; by then all is done.
            signal.signal(number, lambda *_: None)
        server.run(sockets=[listener])
    _log.info("has stopped")
    if gateway.deposed:
        return DEPOSED
    return DISK_FAILED if gateway.broken is not None else 0


def stand_by(settings: Settings) -> None:
    """Until this process may run on the home: the lease of the one before has run out, and it has let go."""
    settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    tenure = Tenure(settings.home)
    said = False
    try:
        while not tenure.may_begin():
            if not said:
                said = True
                print(json.dumps({"standing_by": str(settings.home)}), flush=True)
                _log.info("stands by until the gateway that runs is gone")
            time.sleep(STANDBY_LOOK_S)
    finally:
        tenure.close()


def offer_first_link(settings: Settings, port: int) -> None:
    """While nobody could sign in as admin: print a link that does, once."""
    if not settings.has_dashboard:
        return
    people = People(in_home(settings.home, FILE))
    try:
        if people.needs_admin():
            link = f"{'https' if settings.tls else 'http'}://127.0.0.1:{port}/signin/once/{people.new_link(now_us())}"
            text = f"gateway: sign in to the dashboard as admin, once and within the hour: {link}"
            print(json.dumps({"sign_in_once": link}) if settings.log_json else text, flush=True)
    finally:
        people.close()


def calm_collector() -> None:
    """What was imported and read lives for ever, and an exchange leaves no cycles: look for garbage far less often."""
    gc.freeze()
    gc.set_threshold(70_000, 50, 50)
    gc.enable()


def _tls_1_3_only(config: uvicorn.Config) -> None:
    import ssl

    config.load()
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_3


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
