"""A program's own operator modules on a stage: files beside the program are copied into its home, so that every process
there, also at a later start, runs the code that the program was started with. Installed ones are where they are.

home/operators/...        the files, first on every process's path
phones/NAME/resurge.toml  the names, for the node; Spark's job gets them as --module
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from cloud_backend.spark.cluster.shipping import module_files
from shared.stream.program import SETTINGS, import_operators

FOLDER = "operators"
OURS = Path(__file__).resolve().parents[2]


def keep_modules(home: Path, modules: Sequence[str]) -> None:
    """Copy these modules, as they are imported here, into the home."""
    for name, file in module_files([name for name in modules if not _is_installed(name)]).items():
        target = home / FOLDER / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _is_installed(module: str) -> bool:
    """Whether any process here can import it, wherever it is started."""
    elsewhere = {str(folder) for folder in map(Path, filter(None, sys.path)) if folder.resolve() != Path.cwd()}
    return PathFinder.find_spec(module.partition(".")[0], [str(OURS), *sorted(elsewhere)]) is not None


def import_kept(home: Path, modules: Sequence[str]) -> None:
    """Import modules that an earlier start has kept."""
    folder = str(home / FOLDER)
    sys.path.insert(0, folder)
    try:
        import_operators(modules)
    finally:
        sys.path.remove(folder)


def environment(home: Path) -> dict[str, str]:
    """What a process needs to import them."""
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(home / FOLDER), *([before] if before else [])])}


def list_modules(phone_home: Path, modules: Sequence[str]) -> None:
    """Name them to a phone's node."""
    names = ", ".join(f'"{name}"' for name in modules)
    (phone_home / SETTINGS).write_text(f"[operators]\nmodules = [{names}]\n")
