"""The home of one `resurge up`: its directory, and the commands that run on it.

home/plan.bin          the program, compiled
home/gateway/          keys, roster, log
home/spark/            manifest, records, snapshots
home/jobs/             queries that were submitted, each with a store of its own
home/results.sqlite    what the job published
home/phones/NAME/      one device each
home/output/NAME.txt   what each process said
home/temporary/        Spark's own
home/operators/        the program's own operator modules
home/up.json           ports and options, for the next start on this home
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cloud_backend.gateway.address_file import read_address
from cloud_backend.gateway.reach import is_everywhere, is_loopback, machine_addresses, reach
from cloud_backend.log.partitions import open_log, place_in
from cloud_backend.results.store import Results
from mobile_app.node.view_state import STATUS_FILE
from mobile_app.settings import Gateway, load_gateway, save_gateway, settings_toml
from resurge.up.free_ports import free_ports
from resurge.up.own_modules import environment, import_kept, keep_modules, list_modules
from resurge.up.processes import Process, python
from resurge.up.scenario import PhoneStory, shift_outages
from shared.errors import UsageError
from shared.plan.changes import same_program
from shared.plan.encoding import decode_plan, encode_plan
from shared.plan.graph import Plan
from shared.plan.placement import check_unhosted

LINK_LIFETIME_US = 10 * 60 * 1_000_000
HERE = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class UpHome:
    """Where everything of one run lies, and how its processes are started."""

    home: Path
    port: int
    relay_port: int
    speed: float = 1.0
    log_json: bool = False
    host: str = HERE
    modules: tuple[str, ...] = ()  # of the program's own operators
    rollback: Mapping[str, float] = field(default_factory=dict)  # "hours" and "gigabytes"; what is not given is usual

    @property
    def tls(self) -> bool:
        """What leaves this machine is encrypted; a browser here need not be asked to trust a certificate."""
        return not is_loopback(self.host)

    @property
    def gateway_home(self) -> Path:
        return self.home / "gateway"

    @property
    def log(self) -> Path:
        return self.gateway_home / "log"

    @property
    def plan(self) -> Path:
        return self.home / "plan.bin"

    @property
    def results(self) -> Path:
        return self.home / "results.sqlite"

    @property
    def spark_store(self) -> Path:
        return self.home / "spark"

    @property
    def jobs(self) -> Path:
        return self.home / "jobs"

    def spark_read(self) -> Mapping[str, int] | None:
        """How far into each partition of the log the job has committed; None before it has."""
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
            return place_in(json.loads((self.spark_store / "stable.json").read_bytes())["read"])
        return None

    def has_read_all(self) -> bool:
        """Whether the job has committed everything the log holds."""
        read = self.spark_read()
        return read is not None and all(read.get(each, -1) >= end for each, end in open_log(self.log).ends().items())

    def results_so_far(self) -> int:
        """How many rows the job has published up to now."""
        results = Results(self.results)
        try:
            return sum(results.sinks().values())
        finally:
            results.close()

    @property
    def address(self) -> str:
        """Where this machine's own processes reach the gateway."""
        return self._url(HERE if is_everywhere(self.host) else self.host)

    def _url(self, host: str) -> str:
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    @property
    def relay_address(self) -> str:
        return f"tcp://127.0.0.1:{self.relay_port}"

    def phone_home(self, name: str) -> Path:
        return self.home / "phones" / name

    def phone_homes(self) -> list[Path]:
        """The homes of the phones that ever ran here."""
        return sorted(path for path in self.home.glob("phones/*") if path.is_dir())

    def answers(self, pid: int) -> bool:
        """Whether the gateway of this process takes connections."""
        with contextlib.suppress(UsageError, ValueError, OSError):
            host = HERE if is_everywhere(self.host) else self.host
            if read_address(self.gateway_home)["pid"] == pid:
                socket.create_connection((host, self.port), timeout=2).close()
                return True
        return False

    def gateway(self) -> Process:
        command = python(
            "-m", "cloud_backend.gateway", "--home", str(self.gateway_home), "--host", self.host,
            "--port", str(self.port), *self._abroad, "--plan", str(self.plan), "--results", str(self.results),
            "--stable", str(self.spark_store / "stable.json"), "--hints", str(self.spark_store / "hints.json"),
            "--jobs", str(self.jobs), *self._shape,
        )  # fmt: skip
        return self._process("gateway", command)

    @property
    def _abroad(self) -> list[str]:
        """What a gateway needs to be reached from other machines."""
        names = machine_addresses() if is_everywhere(self.host) else [self.host]
        return ["--tls", *(part for name in names for part in ("--dashboard-host", name))] if self.tls else []

    @property
    def _shape(self) -> list[str]:
        return ["--log-json"] if self.log_json else []

    @property
    def _horizon(self) -> list[str]:
        options = {"hours": "--rollback-hours", "gigabytes": "--rollback-gb"}
        return [part for name, each in self.rollback.items() for part in (options[name], f"{each:g}")]

    def relay(self) -> Process:
        """Only once the gateway runs: before that nobody knows the certificate to pin."""
        command = python("-m", "resurge", "node", "relay", "--bind", self.relay_address, "--gateway", self.address)
        if self.tls:
            command += ["--pin", str(read_address(self.gateway_home)["pin"])]
        return self._process("relay", command)

    def spark(self) -> Process:
        command = python(
            "-m", "cloud_backend.spark.job", "--log", str(self.log), "--store", str(self.spark_store),
            "--plan", str(self.plan), "--results", str(self.results), "--jobs", str(self.jobs),
            *self._shape, *self._horizon,
            *(part for name in self.modules for part in ("--module", name)),
        )  # fmt: skip
        # What Spark leaves behind when it is killed goes away with the home.
        temporary = self.home / "temporary"
        temporary.mkdir(exist_ok=True)
        process = self._process("spark", command)
        process.environment |= {
            "TMPDIR": str(temporary),
            "SPARK_LOCAL_DIRS": str(temporary),
            "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={temporary}",
        }
        return process

    def phone(self, story: PhoneStory, link: str, *, already_ran_s: float = 0.0) -> Process:
        """A phone's process. Its outages are counted from its start, so a later start gets what is left of them."""
        command = python(
            "-m", "resurge", "node", "run", "--home", str(self.phone_home(story.name)), "--link", link,
            "--sensor", f"gps=synthetic:{story.seed}", "--speed", str(self.speed),
        )  # fmt: skip
        outages = shift_outages(story.outages, already_ran_s)
        if outages:
            command += ["--outages", outages]
        if story.behind_relay:
            command += ["--relay", self.relay_address]
        return self._process(story.name, command)

    def was_heard(self, name: str, *, since: float) -> bool:
        """Whether this phone has exchanged something with the gateway since then, as it tells others."""
        status = self.phone_home(name) / STATUS_FILE
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
            return status.stat().st_mtime >= since and int(json.loads(status.read_bytes())["exchanges"]) > 0
        return False

    def prepare_phone(self, story: PhoneStory) -> None:
        """A new phone's home; one that is there keeps all it has, and is told where the gateway is now."""
        home = self.phone_home(story.name)
        if not home.exists():
            home.mkdir(parents=True, mode=0o700)
            (home / "settings.toml").write_text(settings_toml(name=story.name, spool_mb=8, loss_window_s=1.0))
        if self.modules:
            list_modules(home, self.modules)
        known = load_gateway(home)
        if known is not None and known.url != self.address:
            pin = bytes.fromhex(str(read_address(self.gateway_home)["pin"]))
            save_gateway(home, Gateway(self.address, known.key, pin, known.incarnation))

    def pairing_link(self, now_us: int) -> str:
        """A single-use enrolment link, as `resurge device pair` prints it, for a phone on this machine."""
        from cloud_backend.coordinator.roster import Roster
        from shared.wire.enrolment import EnrolmentLink

        address = read_address(self.gateway_home)
        roster = Roster(self.gateway_home / "roster.sqlite")
        try:
            code = roster.new_code(now_us, LINK_LIFETIME_US)
        finally:
            roster.close()
        host = HERE if is_everywhere(self.host) else self.host
        key, pin = (bytes.fromhex(str(address[name])) for name in ("key", "pin"))
        return str(EnrolmentLink(host, self.port, code, key, pin))

    def dashboard_link(self, now_us: int) -> str:
        """The dashboard's address with a secret that signs in as admin, once."""
        from cloud_backend.coordinator.people import FILE, People

        people = People(self.gateway_home / FILE)
        try:
            return f"{self._url(reach(self.host).host)}/signin/once/{people.new_link(now_us)}"
        finally:
            people.close()

    def _process(self, name: str, command: list[str]) -> Process:
        needed = environment(self.home) if self.modules else {}
        return Process(name, command, self.home / "output" / f"{name}.txt", needed)


def make_stage(
    home: Path,
    plan: Plan,
    *,
    port: int,
    speed: float,
    log_json: bool = False,
    host: str = HERE,
    modules: Sequence[str] = (),
    rollback: Mapping[str, float] | None = None,
) -> UpHome:
    """A stage on an empty or new directory."""
    check_unhosted(plan)
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        raise UsageError(
            f"{str(home)!r} is not empty, and no home of `resurge up` either: choose another --home, or remove it",
            code="up-home",
        )
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    ports = [port] if port else []
    ports += [each for each in free_ports(2) if each != port]
    stage = UpHome(home, ports[0], ports[1], speed, log_json, host, tuple(modules), rollback or {})
    stage.plan.write_bytes(encode_plan(plan))
    keep_modules(home, modules)
    _keep(stage)
    return stage


KEPT = "up.json"  # in a home: which ports and which program its run had


def is_stage(home: Path) -> bool:
    """Whether `resurge up` has run in this directory, so that a start goes on there."""
    return (home / KEPT).exists()


def stage_again(
    home: Path,
    plan: Plan | None,
    *,
    port: int,
    speed: float | None,
    log_json: bool,
    host: str,
    modules: Sequence[str] = (),
    rollback: Mapping[str, float] | None = None,
) -> tuple[UpHome, Plan]:
    """The stage of an earlier run and the program that it plays. What is not given is as it was; `plan` must be it.
    `modules` are copied again; those that only the earlier run had stay."""
    kept = json.loads((home / KEPT).read_bytes())
    keep_modules(home, modules)
    earlier = [name for name in kept.get("modules", []) if name not in modules]
    import_kept(home, earlier)
    stage = UpHome(
        home,
        port or kept["port"],
        kept["relay_port"],
        speed or kept["speed"],
        log_json,
        host or kept["host"],
        (*modules, *earlier),
        kept.get("rollback", {}) | dict(rollback or {}),
    )
    playing = decode_plan(stage.plan.read_bytes())
    if plan is not None and not same_program(plan, playing):
        raise UsageError(
            f"{str(home)!r} plays another program; start it as it was and change it with `resurge program deploy FILE "
            f"--home {stage.gateway_home}`, or choose another --home",
            code="up-program",
        )
    _keep(stage)
    return stage, playing


def _keep(stage: UpHome) -> None:
    value = {
        "port": stage.port, "relay_port": stage.relay_port, "speed": stage.speed, "host": stage.host,
        "modules": list(stage.modules), "rollback": dict(stage.rollback),
    }  # fmt: skip
    fresh = stage.home / f".{KEPT}"
    fresh.write_text(json.dumps(value))
    fresh.replace(stage.home / KEPT)


@contextlib.contextmanager
def alone(home: Path) -> Iterator[None]:
    """Hold the home: two runs on one would start every part of it twice."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(home, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(
            f"`resurge up` already runs on {str(home)!r}; stop that one first", code="up-running"
        ) from None
    else:
        yield
    finally:
        os.close(descriptor)
