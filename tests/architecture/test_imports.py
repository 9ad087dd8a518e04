"""Who may import whom. The folders are the data flow; an import against it is a design change."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("shared", "mobile_app", "cloud_backend", "resurge")
OURS = set(PACKAGES)


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module == "random" and {alias.name for alias in node.names} == {"Random"}:
                continue  # the type of a generator that is handed in, already seeded
            yield node.lineno, node.module


def offenders(package: str, forbidden: set[str], allowed: tuple[str, ...] = ()) -> list[str]:
    """Places in a package that import something forbidden, outside the allowed path prefixes."""
    found = []
    for path in sources(package):
        where = path.relative_to(ROOT).as_posix()
        if where.startswith(allowed):
            continue
        found += [f"{where}:{line} imports {name}" for line, name in imports(path) if name.split(".")[0] in forbidden]
    return found


def test_shared_needs_only_the_standard_library_and_numpy() -> None:
    allowed = set(sys.stdlib_module_names) | {"numpy", "shared"}
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sources("shared")
        for line, name in imports(path)
        if name.split(".")[0] not in allowed
    ]
    assert not found, f"shared must run on Android with numpy alone: {found}"


def test_shared_is_handed_its_clock_randomness_threads_and_sockets() -> None:
    found = offenders("shared", {"time", "random", "secrets", "socket", "threading", "asyncio", "subprocess", "pickle"})
    assert not found, f"machines must run under the simulator; hand it in instead: {found}"


def test_phone_and_cloud_never_import_each_other() -> None:
    assert not offenders("mobile_app", {"cloud_backend", "resurge"})
    assert not offenders("cloud_backend", {"mobile_app", "resurge"})
    assert not offenders("shared", {"cloud_backend", "mobile_app", "resurge"})


@pytest.mark.parametrize(
    ("library", "allowed"),
    [
        ("pyspark", ("cloud_backend/spark/", "resurge/bench/", "resurge/lab/")),
        (
            "fastapi",
            ("cloud_backend/gateway/", "cloud_backend/coordinator/", "cloud_backend/dashboard/", "resurge/bench/"),
        ),
        ("kivy", ("mobile_app/app.py", "mobile_app/screens/", "resurge/bench/")),
        ("jnius", ("mobile_app/sensors/", "mobile_app/android/")),
        ("zmq", ("mobile_app/links/",)),
    ],
)
def test_each_library_has_its_one_place(library: str, allowed: tuple[str, ...]) -> None:
    found = [line for package in PACKAGES for line in offenders(package, {library}, allowed)]
    assert not found, f"{library} belongs in {', '.join(allowed)}: {found}"


def test_nothing_is_unpickled_or_evaluated() -> None:
    """Plans, snapshots and frames are data. Spark itself pickles our functions; we never unpickle bytes."""
    found = []
    for package in PACKAGES:
        for path in sources(package):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    name = ast.unparse(node.func)
                    if name in {"eval", "pickle.load", "pickle.loads", "marshal.loads", "cloudpickle.loads"}:
                        found.append(f"{path.relative_to(ROOT)}:{node.lineno} calls {name}")
    assert not found


def test_every_package_is_listed_for_installation() -> None:
    import tomllib

    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    present = {
        ".".join(path.parent.relative_to(ROOT).parts) for package in PACKAGES for path in (ROOT / package).rglob("*.py")
    }
    assert listed == present, f"pyproject lists {listed - present} in vain and misses {present - listed}"
