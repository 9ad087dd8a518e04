"""The unit files, the image and the compose file say what the programs take. No container engine is needed: they are
read, not run."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer
import yaml

from cloud_backend.gateway.__main__ import parse
from cloud_backend.spark.job import _options
from resurge.cli import node

UNITS = ("resurge-gateway.service", "resurge-node.service", "resurge-spark.service")
DIRECTIVES = {
    "After", "Description", "Environment", "EnvironmentFile", "ExecStart", "ExecStartPre", "Group", "LimitNOFILE",
    "LockPersonality", "NoNewPrivileges", "PrivateDevices", "PrivateTmp", "ProtectControlGroups", "ProtectHome",
    "ProtectKernelTunables", "ProtectSystem", "Restart", "RestartPreventExitStatus", "RestartSec",
    "RestrictAddressFamilies", "RestrictNamespaces", "StateDirectory", "StateDirectoryMode", "TimeoutStopSec", "UMask",
    "User", "WantedBy", "Wants",
}  # fmt: skip
PACKAGING = Path(__file__).resolve().parents[2] / "packaging"


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    text = (PACKAGING / "systemd" / name).read_text().replace("\\\n", " ")
    parser.read_string(text)
    return parser


def arguments_of(command: list[str], module: str) -> list[str]:
    return command[command.index(module) + 1 :]


def image() -> dict[str, str]:
    text = re.sub(r"\\\n", " ", (PACKAGING / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in lines}  # the last of each counts


def test_the_units_start_what_the_programs_understand():
    gateway = shlex.split(unit("resurge-gateway.service")["Service"]["ExecStart"])
    settings = parse(arguments_of(gateway, "cloud_backend.gateway"))
    assert settings.tls
    assert settings.log_json
    assert settings.jobs is not None
    spark = shlex.split(unit("resurge-spark.service")["Service"]["ExecStart"])
    options = _options(arguments_of(spark, "cloud_backend.spark.job"))
    assert options.log_json
    assert options.jobs == settings.jobs
    assert Path(options.store) == settings.stable.parent
    assert options.log == settings.log_directory


def test_the_nodes_unit_starts_what_the_command_line_understands():
    command = shlex.split(unit("resurge-node.service")["Service"]["ExecStart"])
    assert command[1:3] == ["node", "run"]
    found = typer.main.get_command(node.app).commands["run"]
    known = {name for each in found.params for name in each.opts}
    assert {word for word in command if word.startswith("--")} <= known
    assert command[-1] == "$OPTIONS"  # split into words by systemd, as the hint in the file writes them


@pytest.mark.parametrize("name", UNITS)
def test_the_units_say_only_what_systemd_knows(tmp_path, name):
    text = (PACKAGING / "systemd" / name).read_text()
    written = [
        line.partition("=")[0] for line in text.replace("\\\n", " ").splitlines() if re.match(r"[A-Z]\w+=", line)
    ]
    assert set(written) <= DIRECTIVES
    if shutil.which("systemd-analyze"):
        path = tmp_path / name
        path.write_text(re.sub(r"/opt/resurge/bin/\w+", "/bin/true", text))  # what is not installed on this machine
        said = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True, check=False
        )
        assert [line for line in said.stderr.splitlines() if name in line] == []


@pytest.mark.parametrize("name", UNITS)
def test_the_units_run_as_nobody_special_and_come_back(name):
    service = unit(name)["Service"]
    assert service["User"] == "resurge"
    assert service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["Restart"] == "always"


def test_the_image_runs_the_gateway_as_a_user_without_rights():
    found = image()
    assert found["USER"] == "resurge"
    assert "healthz" in found["HEALTHCHECK"]
    settings = parse(arguments_of(json.loads(found["CMD"]), "cloud_backend.gateway"))
    assert settings.tls
    assert settings.dashboard_hosts == ("localhost",)


def test_the_compose_file_has_both_parts_on_one_volume():
    compose = yaml.safe_load((PACKAGING / "compose.yaml").read_text())
    gateway, spark = compose["services"]["gateway"], compose["services"]["spark"]
    assert gateway["volumes"] == spark["volumes"] == ["data:/var/lib/resurge"]
    options = _options(arguments_of(spark["command"], "cloud_backend.spark.job"))
    settings = parse(arguments_of(json.loads(image()["CMD"]), "cloud_backend.gateway"))
    assert settings.log_json
    assert options.log_json
    assert (options.log, options.jobs, options.plan) == (settings.log_directory, settings.jobs, settings.plan)
    assert all(service["cap_drop"] == ["ALL"] and service["read_only"] for service in (gateway, spark))
