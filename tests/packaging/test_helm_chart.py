"""The Helm chart: written out by helm, held against Kubernetes' own schemas, and its commands against the programs. No
cluster is needed, and none was used."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from cloud_backend.gateway.__main__ import parse
from cloud_backend.spark.job import _options
from tests.packaging.test_service_files import PACKAGING, arguments_of, image

CHART = PACKAGING / "helm" / "resurge"
URL = "postgresql://resurge@db.example.org/resurge"
SERVER = (f"database.url={URL}", "database.passwordSecret.name=resurge-database")
VERSIONS = ("1.27", "1.30", "1.34")  # the oldest that the chart allows, and newer ones


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("helm")
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False,
        env={**os.environ, "HELM_NO_PLUGINS": "1", "KUBECONFIG": os.devnull},
    )  # fmt: skip


def written(*values: str) -> dict[str, Any]:
    """The chart's objects by kind."""
    done = helm("template", "fleet", str(CHART), *(word for value in values for word in ("--set", value)))
    assert done.returncode == 0, done.stderr
    return {each["kind"]: each for each in yaml.safe_load_all(done.stdout) if each}


def containers(objects: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each for each in objects["StatefulSet"]["spec"]["template"]["spec"]["containers"]}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "values",
    [(), SERVER, ("service.type=LoadBalancer", "service.annotations.zone=north", "storage.className=fast", "image.tag=0.1.0")],
    ids=["plain", "postgresql", "chosen"],
)  # fmt: skip
def test_what_it_writes_is_what_kubernetes_takes(values: tuple[str, ...], version: str) -> None:
    objects = written(*values)
    assert set(objects) == {"Service", "StatefulSet"}
    for each in objects.values():
        kubernetes_validate.validate(each, version, strict=True)


def test_something_that_kubernetes_does_not_know_would_be_found() -> None:
    objects = written()
    objects["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]["comand"] = ["python"]
    with pytest.raises(kubernetes_validate.ValidationError, match="comand"):
        kubernetes_validate.validate(objects["StatefulSet"], VERSIONS[-1], strict=True)


@pytest.mark.parametrize(("values", "results"), [((), Path("/var/lib/resurge/results.sqlite")), (SERVER, URL)])
def test_its_commands_are_what_the_programs_and_the_image_understand(values: tuple[str, ...], results: object) -> None:
    found = containers(written(*values))
    settings = parse(arguments_of(found["gateway"]["command"], "cloud_backend.gateway"))
    options = _options(arguments_of(found["spark"]["command"], "cloud_backend.spark.job"))
    assert settings.results == options.results == results
    assert settings.database == (URL if values else None)
    assert (options.log, options.jobs, options.plan) == (settings.log_directory, settings.jobs, settings.plan)
    assert Path(options.store) == settings.stable.parent == settings.hints.parent
    # In all else it is the command that the image has by itself.
    theirs = parse(arguments_of(yaml.safe_load(image()["CMD"]), "cloud_backend.gateway"))
    ours = asdict(settings) | {"results": theirs.results, "database": None}
    assert ours == asdict(theirs)
    secrets = {"resurge-database"} if values else set()
    for each in found.values():
        assert {env["valueFrom"]["secretKeyRef"]["name"] for env in each.get("env", ())} == secrets


def test_it_runs_as_nobody_special_on_one_volume_that_stays() -> None:
    objects = written()
    pod = objects["StatefulSet"]["spec"]["template"]["spec"]
    user = re.search(r"--uid (\d+)", (PACKAGING / "Dockerfile").read_text())
    assert user is not None
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == int(user[1])
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    for each in (*pod["containers"], *pod["initContainers"]):
        assert each["securityContext"]["readOnlyRootFilesystem"] is True
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert {"name": "data", "mountPath": image()["VOLUME"]} in each["volumeMounts"]
    assert objects["StatefulSet"]["spec"]["replicas"] == 1  # two gateways never share a home
    (claim,) = objects["StatefulSet"]["spec"]["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "data"
    labels = objects["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert objects["Service"]["spec"]["selector"].items() <= labels.items()


def test_the_first_program_is_put_in_place_once_and_whole(tmp_path: Path) -> None:
    (first,) = written()["StatefulSet"]["spec"]["template"]["spec"]["initContainers"]
    program, home = tmp_path / "program", tmp_path / "home"
    program.mkdir()
    home.mkdir()
    command = [
        word.replace("/program/", f"{program}/").replace("/var/lib/resurge", str(home)) for word in first["command"]
    ]
    assert (
        subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode != 0
    )  # there is none: the pod says so
    assert list(home.iterdir()) == []
    (program / "plan.bin").write_bytes(b"first")
    subprocess.run(command, check=True)
    (program / "plan.bin").write_bytes(b"another")
    (home / "plan.bin").write_bytes(b"deployed since")
    subprocess.run(command, check=True)
    assert [(path.name, path.read_bytes()) for path in home.iterdir()] == [("plan.bin", b"deployed since")]


@pytest.mark.parametrize(
    "value",
    [
        "databse.url=x", "database.url=mysql://db/x", "database.url=postgresql://resurge:secret@db/x", "service.port=0",
        "service.type=Ingress", "storage.size=much", "spark.rollbackHours=0", "plan.configMap=", "image.repository=",
    ],
)  # fmt: skip
def test_a_value_that_means_nothing_is_refused(value: str) -> None:
    done = helm("template", "fleet", str(CHART), "--set", value)
    assert done.returncode != 0
    assert "values don't meet the specifications" in done.stderr


def test_the_command_on_the_page_writes_what_kubernetes_takes() -> None:
    text = (PACKAGING.parent / "docs" / "operations.md").read_text().replace("\\\n", " ")
    (command,) = re.findall(r"^helm install (\w+) packaging/helm/resurge (.*)$", text, re.MULTILINE)
    done = helm("template", command[0], str(CHART), *shlex.split(command[1]))
    assert done.returncode == 0, done.stderr
    objects = {each["kind"]: each for each in yaml.safe_load_all(done.stdout)}
    for each in objects.values():
        kubernetes_validate.validate(each, VERSIONS[-1], strict=True)
    assert f"kubectl exec {objects['StatefulSet']['metadata']['name']}-0 --container gateway" in text
    assert objects["Service"]["spec"]["type"] == "LoadBalancer"


def test_it_is_of_the_version_that_is_packaged() -> None:
    project = tomllib.loads((PACKAGING.parent / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == project["version"]
    assert helm("lint", "--strict", str(CHART)).returncode == 0


def test_the_image_has_every_package_and_the_client_of_postgresql() -> None:
    text = (PACKAGING / "Dockerfile").read_text()
    packages = tomllib.loads((PACKAGING.parent / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    copied = set(re.findall(r"^COPY (\w+) \./\1$", text, re.MULTILINE))
    assert copied == {name.split(".")[0] for name in packages}
    assert "'.[cloud,postgres]'" in text


def test_the_compose_file_with_a_server_changes_only_where_databases_are() -> None:
    plain, more = (yaml.safe_load((PACKAGING / name).read_text()) for name in ("compose.yaml", "compose.postgres.yaml"))
    url = "postgresql://resurge@postgres/resurge"
    gateway = parse(arguments_of(more["services"]["gateway"]["command"], "cloud_backend.gateway"))
    theirs = parse(arguments_of(yaml.safe_load(image()["CMD"]), "cloud_backend.gateway"))
    assert (gateway.results, gateway.database) == (url, url)
    assert asdict(gateway) | {"results": theirs.results, "database": None} == asdict(theirs)
    spark, before = (
        vars(_options(arguments_of(each["services"]["spark"]["command"], "cloud_backend.spark.job")))
        for each in (more, plain)
    )
    assert spark["results"] == url
    assert spark | {"results": before["results"]} == before
    for name in ("gateway", "spark"):
        assert set(more["services"][name]["environment"]) == {"PGPASSWORD"}
    assert more["services"]["postgres"]["volumes"] == ["postgres:/var/lib/postgresql/data"]
    assert set(more["volumes"]) == {"postgres"}
