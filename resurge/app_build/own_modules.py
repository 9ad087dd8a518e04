"""A program's own operator modules and everything they import, file by file, or what keeps them from a phone.

Imports are read, not run: whatever a module names anywhere in its code must be there on the phone. What stands under
`if TYPE_CHECKING:` is for readers, and what stands in a `try` that expects an ImportError may be absent.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from resurge.app_build.android import DISTRIBUTIONS, GONE_BY_3_14, NOT_ON_THE_PHONE, has_wheel, is_pure, plain_name
from shared.errors import UsageError
from shared.language.registry import OperatorType, registered
from shared.plan.graph import Plan
from shared.plan.wellformed import operators_on_device

IN_EVERY_APP = frozenset({"mobile_app", "shared"})
NEVER_ON_A_PHONE = frozenset({"cloud_backend", "tests"})
PROGRAM = "program"  # the name that a program's own file has while it is read
FRONT_DOOR = "resurge/__init__.py"


class Import(NamedTuple):
    module: str
    is_optional: bool


@dataclass(slots=True)
class Found:
    """What has to go into the app beside what every app has."""

    files: dict[str, Path] = field(default_factory=dict)  # path in the app -> file
    requirements: dict[str, str] = field(default_factory=dict)  # name -> as the spec says it
    left_out: list[str] = field(default_factory=list)  # optional imports that a phone will not find
    refused: dict[str, str] = field(default_factory=dict)  # module -> why it cannot be on a phone


def operator_modules(plan: Plan, listed: Iterable[str]) -> tuple[str, ...]:
    """The modules that register what the plan's device side runs, and those that are listed."""
    known = registered()
    needed = [known[reference.partition("@")[0]] for reference in sorted(operators_on_device(plan))]
    inside = [kind.name for kind in needed if kind.module == PROGRAM]
    if inside:
        raise UsageError(
            f"{', '.join(inside)} is registered in the program itself. A phone gets plans and no programs: move it "
            "into a module beside the program and import that",
            code="app-operator",
        )
    return tuple(dict.fromkeys([*listed, *sorted({kind.module for kind in needed})]))


def operators_of(modules: Iterable[str]) -> list[OperatorType]:
    """The operator types that these modules register."""
    wanted = set(modules)
    return sorted((kind for kind in registered().values() if kind.module in wanted), key=lambda kind: kind.name)


class OwnModules:
    """Follows imports from the operator modules on. `given` are the requirements of every app, `recipes` what
    python-for-android builds, `asks` whether an index has a wheel for the phone."""

    def __init__(
        self, given: Iterable[str], recipes: frozenset[str], asks: Callable[[str], bool] = has_wheel
    ) -> None:  # fmt: skip
        self._given = frozenset(map(plain_name, given))
        self._recipes = recipes
        self._asks = asks

    def follow(self, modules: Iterable[str]) -> Found:
        found = Found()
        waiting = [(module, "the program") for module in modules]
        seen: set[str] = set()
        while waiting:
            module, importer = waiting.pop()
            if module in seen:
                continue
            seen.add(module)
            for each in self._take(found, module, importer):
                if each.is_optional and not self._can_be_had(each.module):
                    found.left_out.append(f"{each.module} (in {module})")
                elif each.module not in seen:
                    waiting.append((each.module, module))
        return found

    def check(self, modules: Iterable[str]) -> Found:
        """The same; refuses by name what no phone can have."""
        found = self.follow(modules)
        if found.refused:
            reasons = "; ".join(f"{name!r} {why}" for name, why in sorted(found.refused.items()))
            raise UsageError(f"not for a phone: {reasons}", code="app-import")
        return found

    def digest(self, module: str) -> str:
        """Of the code behind an operator module: its own files and those it imports, not Resurge's front door."""
        files = {name: path for name, path in self.follow([module]).files.items() if name != FRONT_DOOR}
        digest = hashlib.sha256()
        for name, path in sorted(files.items()):
            body = path.read_bytes()
            digest.update(f"{name} {len(body)}\n".encode())
            digest.update(body)
        return digest.hexdigest()

    def _take(self, found: Found, module: str, importer: str) -> Iterator[Import]:
        """Note what this module is for the app; its own imports, if it is one of the program's."""
        top = module.partition(".")[0]
        if top in IN_EVERY_APP:
            return
        if top in sys.stdlib_module_names:
            if top in NOT_ON_THE_PHONE | GONE_BY_3_14:
                found.refused[top] = f"(imported by {importer}) is not in a phone's Python"
            return
        if top in NEVER_ON_A_PHONE:
            found.refused[top] = f"(imported by {importer}) is of the cloud's half"
            return
        spec = _spec(module)
        if spec is None or (is_installed(_spec(top)) and top != "resurge"):
            self._require(found, top, importer)
            return
        if spec.origin is None or spec.loader is None:
            return  # a package without __init__.py: a folder, and nothing to copy
        if not isinstance(spec.loader, SourceFileLoader):
            found.refused[module] = f"(imported by {importer}) is compiled, not Python source"
            return
        path = Path(spec.origin)
        is_package = spec.submodule_search_locations is not None
        found.files[module.replace(".", "/") + ("/__init__.py" if is_package else ".py")] = path
        for depth in range(1, module.count(".") + 1):
            yield Import(".".join(module.split(".")[:depth]), is_optional=False)
        yield from imports_of(path, module, is_package=is_package)

    def _can_be_had(self, module: str) -> bool:
        trial = Found()
        list(self._take(trial, module, ""))
        return not trial.refused

    def _require(self, found: Found, module: str, importer: str) -> None:
        """A package that somebody else publishes: with all it needs itself."""
        names = metadata.packages_distributions().get(module, [DISTRIBUTIONS.get(module, module)])
        waiting = [(plain_name(name), importer) for name in names]
        while waiting:
            name, by = waiting.pop()
            if name in self._given or name in found.requirements or name in found.refused:
                continue
            if name in self._recipes:
                found.requirements[name] = name
                continue
            try:
                distribution = metadata.distribution(name)
            except metadata.PackageNotFoundError:
                found.refused[name] = f"(imported by {by}) is not installed here, and no file beside the program"
                continue
            pinned = f"{name}=={distribution.version}"
            if not is_pure(distribution) and not self._asks(pinned):
                found.refused[name] = (
                    f"(imported by {by}) has neither a recipe of python-for-android nor a wheel of {pinned} for Android"
                )
                continue
            found.requirements[name] = pinned
            waiting += [(needed, name) for needed in _needed(distribution)]


def _needed(distribution: metadata.Distribution) -> Iterator[str]:
    """What it needs always; of what it needs here and there, what is installed here."""
    for line in distribution.requires or ():
        requirement, _, marker = line.partition(";")
        name = plain_name(requirement)
        if "extra" not in marker and (not marker or _is_there(name)):
            yield name


def _is_there(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _spec(module: str) -> ModuleSpec | None:
    try:
        return find_spec(module)
    except (ModuleNotFoundError, ValueError):
        return None


def is_installed(spec: ModuleSpec | None) -> bool:
    """Whether it comes from a package that was installed, and not from a file of the program's author."""
    places = [Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")]
    origins = [] if spec is None else [spec.origin or "", *(spec.submodule_search_locations or ())]
    return any(Path(origin).resolve().is_relative_to(place) for origin in origins if origin for place in places)


def imports_of(path: Path, module: str, *, is_package: bool) -> Iterator[Import]:
    """Every module that this file imports, anywhere in it."""
    package = module if is_package else module.rpartition(".")[0]
    yield from _imports(ast.parse(path.read_bytes()).body, package, is_optional=False)


def _imports(nodes: Iterable[ast.AST], package: str, *, is_optional: bool) -> Iterator[Import]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, is_optional) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            yield Import(base, is_optional)
            for alias in node.names:  # each may be a module of that package
                if _is_ours(base) and _spec(f"{base}.{alias.name}") is not None:
                    yield Import(f"{base}.{alias.name}", is_optional)
        elif isinstance(node, ast.If) and _is_type_checking(node.test):
            yield from _imports(node.orelse, package, is_optional=is_optional)
        elif isinstance(node, ast.Try) and any(map(_expects_import_error, node.handlers)):
            yield from _imports(node.body, package, is_optional=True)
            rest: Mapping[str, list[ast.AST]] = {"handlers": [*node.handlers], "else": [*node.orelse, *node.finalbody]}
            for part in rest.values():
                yield from _imports(part, package, is_optional=is_optional)
        else:
            yield from _imports(ast.iter_child_nodes(node), package, is_optional=is_optional)


def _is_ours(base: str) -> bool:
    """Whether submodules of it may be files of the program's author: only those are looked for."""
    top = base.partition(".")[0]
    known = IN_EVERY_APP | NEVER_ON_A_PHONE | sys.stdlib_module_names
    return bool(top) and top not in known and (top == "resurge" or not is_installed(_spec(top)))


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _expects_import_error(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(kind, ast.Name) and kind.id in ("ImportError", "ModuleNotFoundError") for kind in kinds)
