"""The stage `resurge up` plays on: one home directory, and the commands that run on it.

home/plan.bin          the program, compiled
home/gateway/          keys, roster, log
home/spark/            manifest, records, snapshots
home/jobs/             queries that were submitted, each with a store of its own
home/results.sqlite    what the job published
home/phones/NAME/      one device each
home/output/NAME.txt   what each process said
home/temporary/        Spark's own
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path

from resurge.up.processes import Process, python
from resurge.up.scenario import PhoneStory, shifted
from shared.errors import UsageError
from shared.plan.encoding import encode_plan
from shared.plan.graph import Plan

LINK_LIFETIME_US = 10 * 60 * 1_000_000


@dataclass(frozen=True, slots=True)
class Stage:
    home: Path
    port: int
    relay_port: int
    speed: float = 1.0
    log_json: bool = False

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

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def relay_address(self) -> str:
        return f"tcp://127.0.0.1:{self.relay_port}"

    def phone_home(self, name: str) -> Path:
        return self.home / "phones" / name

    def gateway(self) -> Process:
        command = python(
            "-m", "cloud_backend.gateway", "--home", str(self.gateway_home), "--port", str(self.port),
            "--plan", str(self.plan), "--results", str(self.results),
            "--stable", str(self.spark_store / "stable.json"), "--hints", str(self.spark_store / "hints.json"),
            "--jobs", str(self.jobs), *self._shape,
        )  # fmt: skip
        return self._process("gateway", command)

    @property
    def _shape(self) -> list[str]:
        return ["--log-json"] if self.log_json else []

    def relay(self) -> Process:
        command = python("-m", "resurge", "node", "relay", "--bind", self.relay_address, "--gateway", self.address)
        return self._process("relay", command)

    def spark(self) -> Process:
        command = python(
            "-m", "cloud_backend.spark.job", "--log", str(self.log), "--store", str(self.spark_store),
            "--plan", str(self.plan), "--results", str(self.results), "--jobs", str(self.jobs),
            *self._shape,
        )  # fmt: skip
        # What Spark leaves behind when it is killed goes away with the home.
        temporary = self.home / "temporary"
        temporary.mkdir(exist_ok=True)
        process = self._process("spark", command)
        process.environment = {
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
        outages = shifted(story.outages, already_ran_s)
        if outages:
            command += ["--outages", outages]
        if story.behind_relay:
            command += ["--relay", self.relay_address]
        return self._process(story.name, command)

    def prepare_phone(self, story: PhoneStory) -> None:
        home = self.phone_home(story.name)
        home.mkdir(parents=True, mode=0o700)
        (home / "settings.toml").write_text(f'name = "{story.name}"\nspool_mb = 8\nloss_window_s = 1.0\n')

    def pairing_link(self, now_us: int) -> str:
        """A single-use enrolment link, as `resurge device pair` prints it."""
        from cloud_backend.coordinator.roster import Roster
        from shared.wire.enrolment import EnrolmentLink

        address = json.loads((self.gateway_home / "gateway.json").read_bytes())
        roster = Roster(self.gateway_home / "roster.sqlite")
        try:
            code = roster.new_code(now_us, LINK_LIFETIME_US)
        finally:
            roster.close()
        return str(EnrolmentLink("127.0.0.1", self.port, code, bytes.fromhex(address["key"])))

    def dashboard_link(self, now_us: int) -> str:
        """The dashboard's address with a secret that signs in as admin, once."""
        from cloud_backend.coordinator.accounts import FILE, Accounts

        accounts = Accounts(self.gateway_home / FILE)
        try:
            return f"{self.address}/signin/once/{accounts.new_link(now_us)}"
        finally:
            accounts.close()

    def _process(self, name: str, command: list[str]) -> Process:
        return Process(name, command, self.home / "output" / f"{name}.txt")


def make_stage(home: Path, plan: Plan, *, port: int, speed: float, log_json: bool = False) -> Stage:
    """A stage on an empty or new directory; refuses one that holds anything, to never mix two runs."""
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        raise UsageError(
            f"{str(home)!r} is not empty; `resurge up` starts from nothing: choose another --home, or remove it",
            code="up-home",
        )
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    stage = Stage(home, port or free_port(), free_port(), speed, log_json)
    stage.plan.write_bytes(encode_plan(plan))
    return stage


def free_port() -> int:
    """A port nobody listens on now. Someone may take it before we do; the process that wanted it then says so."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
