"""Is everything the phone imports in the APK, and can everything in the APK be had for Android?

python-for-android takes names it does not know for pure Python and only warns when no wheel fits: the APK is built and
fails when it is opened. So each is asked for here, as its own code would ask.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from resurge.app_build.android import DISTRIBUTIONS, NOT_ON_THE_PHONE, has_wheel
from tests.packaging.java import ROOT
from tests.packaging.spec import SPEC, load

OURS = {"mobile_app", "shared"}
OPTIONAL = {"paho": "mobile_app/sensors/mqtt.py"}  # only nodes on computers have it


def own(folder: Path) -> set[str]:
    """The top-level modules that an app built with own operators has in its folder."""
    files = {path.stem for path in folder.glob("*.py")} - {"main", "service"}
    return files | {path.name for path in folder.iterdir() if path.is_dir() and path.name != "packaging"} - OURS


def modules_imported(folder: Path = ROOT, packages: Collection[str] = OURS) -> dict[str, str]:
    """{top-level module: where} of everything the phone's code imports, anywhere in it."""
    files = [folder / "main.py", folder / "service.py"]
    files += [folder / f"{name}.py" for name in sorted(packages) if (folder / f"{name}.py").is_file()]
    files += [path for package in sorted(packages) for path in sorted((folder / package).rglob("*.py"))]
    found: dict[str, str] = {}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import)
                else [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            )  # fmt: skip
            for name in names:
                found.setdefault(name.partition(".")[0], f"{path.relative_to(folder)}:{node.lineno}")
    return found


def names(requirements: Iterable[str]) -> set[str]:
    return {re.split(r"[=<>!~\[]", requirement)[0].strip().lower() for requirement in requirements}


def required(spec: Path = SPEC) -> list[str]:
    return list(load(spec).getlist("app", "requirements", []))


def missing_from_spec(imported: dict[str, str], requirements: Iterable[str], ours: Collection[str] = OURS) -> list[str]:
    """Imports that nothing in the spec brings, and parts of the standard library a phone lacks."""
    there = names(requirements)
    wrong = []
    for module, where in sorted(imported.items()):
        if module in ours or module in sys.stdlib_module_names:
            if module in NOT_ON_THE_PHONE:
                wrong.append(f"{module} ({where}) is not in a phone's Python")
        elif where.partition(":")[0] == OPTIONAL.get(module):
            continue
        elif DISTRIBUTIONS.get(module, module).lower().replace("_", "-") not in there:
            wrong.append(f"{module} ({where}) is imported, but no requirement of buildozer.spec brings it")
    return wrong


GRAPH = """
import json, logging, sys
logging.disable(logging.CRITICAL)
from pythonforandroid.build import Context
from pythonforandroid.bootstrap import Bootstrap
from pythonforandroid.graph import get_recipe_order_and_bootstrap
from pythonforandroid.recipe import Recipe
context = Context()
context.local_recipes = sys.argv[1]
order, modules, _ = get_recipe_order_and_bootstrap(context, sys.argv[2:], Bootstrap.get_bootstrap("sdl2", context))
local = [name for name in order if Recipe.get_recipe(name, context).get_recipe_dir().startswith(sys.argv[1])]
print(json.dumps({"order": order, "modules": modules, "local": local, "python": Recipe.get_recipe("python3", context).version}))
"""


def graph(requirements: Iterable[str]) -> dict:
    """python-for-android's own answer: what it builds by recipe, what it takes as pure Python, for which Python."""
    recipes = str(ROOT / "packaging" / "android" / "recipes")
    done = subprocess.run(
        [sys.executable, "-c", GRAPH, recipes, *sorted(names(requirements))],
        capture_output=True, text=True, cwd=tempfile.gettempdir(), check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"python-for-android's graph: {(done.stderr or done.stdout)[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def without_wheel(requirements: Iterable[str], python: str) -> list[str]:
    """Those of these requirements that have no wheel for the phone."""
    asked = sorted(requirements)
    with ThreadPoolExecutor(4) as workers:
        answers = list(workers.map(lambda requirement: has_wheel(requirement, python), asked))
    return [requirement for requirement, there in zip(asked, answers, strict=True) if not there]


def pinned(modules: Iterable[str], requirements: Iterable[str]) -> list[str]:
    """These modules as the spec pins them."""
    pins = {re.split(r"[=<>!~\[]", requirement)[0].strip().lower(): requirement for requirement in requirements}
    return [pins.get(module.lower(), module) for module in modules]
