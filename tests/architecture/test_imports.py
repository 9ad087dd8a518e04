"""Who may import whom. The folders are the data flow; an import against it is a design change."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.parsed import nodes

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("shared", "mobile_app", "cloud_backend", "pyspark_resurge", "resurge")
OURS = set(PACKAGES)


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in nodes(path):
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


def allowed_imports() -> dict[str, set[str]]:
    """The table of docs/architecture.md: each room, as "package/room" or "package/module.py", and what it may import."""
    allowed: dict[str, set[str]] = {}
    for line in (ROOT / "docs" / "architecture.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rooms = re.findall(r"`([a-z_]+/[a-z_./]+)`", cells[0])
        if len(cells) != 3 or not rooms:
            continue
        package = rooms[0].split("/")[0]
        named = re.findall(r"`([a-z_]+)`", cells[2])
        allowed[rooms[0]] = {name if name in PACKAGES else f"{package}/{name}" for name in named}
    return allowed


def room_of(module: str, rooms: set[str]) -> str:
    """The room a module belongs to, by the table; the module itself where the table has no room for it."""
    parts = module.split(".")
    for size in range(len(parts), 1, -1):
        for name in ("/".join(parts[:size]), "/".join(parts[:size]) + ".py"):
            if name in rooms:
                return name
    return "/".join(parts[:2])


def named_modules(path: Path) -> Iterator[tuple[int, str]]:
    """Imports by their full names: `from shared import batch` names shared.batch."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module in PACKAGES and node.level == 0:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
    yield from imports(path)


def test_rooms_import_only_what_the_table_of_the_architecture_allows() -> None:
    allowed = allowed_imports()
    assert {"shared/language", "shared/plan", "shared/stream", "shared/engine", "cloud_backend/spark"} <= set(allowed)
    rooms = set(allowed)
    found = []
    for package in PACKAGES:
        for path in sources(package):
            room = room_of(".".join(path.relative_to(ROOT).with_suffix("").parts), rooms)
            if room not in allowed:
                continue
            for line, name in named_modules(path):
                target = room_of(name, rooms)
                ours = name.split(".")[0] in PACKAGES and name != name.split(".")[0]
                free = (ROOT / f"{target}.py").is_file() and f"{target}.py" not in rooms  # the top of a package
                by_name = {target, target.removesuffix(".py"), name.split(".")[0]} & allowed[room]
                if ours and target != room and not free and not by_name:
                    found.append(f"{path.relative_to(ROOT)}:{line} imports {name}, not in the row of {room}")
    assert not found, "\n".join(found)


def test_the_rooms_of_shared_form_no_cycle() -> None:
    """What the table allows has an order: language, then plan, then stream and engine."""
    left = {room: {name for name in names if name.startswith("shared/")} for room, names in allowed_imports().items()}
    left = {room.removesuffix(".py"): names for room, names in left.items() if room.startswith("shared/")}
    while left:
        leaves = {room for room, names in left.items() if not names & set(left)}
        assert leaves, f"a cycle among {sorted(left)}"
        left = {room: names for room, names in left.items() if room not in leaves}


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
        ("pyspark", ("cloud_backend/spark/", "cloud_backend/dataframes/", "resurge/bench/", "resurge/lab/")),
        (
            "fastapi",
            ("cloud_backend/gateway/", "cloud_backend/coordinator/", "cloud_backend/dashboard/", "resurge/bench/"),
        ),
        ("kivy", ("mobile_app/app.py", "mobile_app/screens/", "resurge/bench/")),
        ("jnius", ("mobile_app/sensors/", "mobile_app/android/")),
        (
            "zmq",
            (
                "mobile_app/links/",
                "cloud_backend/gateway/forwarding.py",
                "resurge/bench/",
                "resurge/lab/_through_doors.py",
            ),
        ),
    ],
)
def test_each_library_has_its_one_place(library: str, allowed: tuple[str, ...]) -> None:
    found = [line for package in PACKAGES for line in offenders(package, {library}, allowed)]
    assert not found, f"{library} belongs in {', '.join(allowed)}: {found}"


@pytest.mark.covers("SO-19")
def test_only_a_gateway_opens_a_log_to_write_it() -> None:
    """All that phones say goes through it. Jobs, pages and commands read; the log opens itself again, measurements and an
    example make logs of their own."""
    writers = {"Log.open", "KafkaLog.open", "KafkaLog"}
    own = ("cloud_backend/log/", "resurge/bench/", "resurge/lab/", "resurge/examples/", "resurge/cli/capacity.py")
    found = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in sources(package)
        for node in nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in writers
    }
    product = {path for path in found if not path.startswith(own)}
    assert product == {"cloud_backend/gateway/gateway.py"}


def test_nothing_is_unpickled_or_evaluated() -> None:
    """Plans, snapshots and frames are data. Spark itself pickles our functions; we never unpickle bytes."""
    found = []
    for package in PACKAGES:
        for path in sources(package):
            for node in nodes(path):
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


def test_only_their_package_names_a_recovery_strategy() -> None:
    """Everybody else asks a strategy or reads its row, so that a new one is a row and nothing more."""
    from shared.recovery.strategies import STRATEGIES

    plain = {"none", "ring", "local", "token", "partial", "full"}  # also everyday words
    names = set(STRATEGIES) - plain
    assert {"extended-ecoc", "uncoordinated", "rep-2"} <= names
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} names {node.value}"
        for package in PACKAGES
        for path in sources(package)
        if not path.relative_to(ROOT)
        .as_posix()
        .startswith(("shared/recovery/strategies/", "resurge/lab/", "resurge/bench/"))
        for node in nodes(path)
        if isinstance(node, ast.Constant) and node.value in names
    ]
    found += [
        f"{path.relative_to(ROOT)}:{node.lineno} asks for {ast.unparse(node)}"
        for package in PACKAGES
        for path in sources(package)
        for node in nodes(path)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("STRATEGIES")
        if isinstance(node.slice, ast.Constant)
    ]
    assert not found, "\n".join(found)
