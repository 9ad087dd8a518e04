"""The code that executors run: one zip of ours, named by its content.

A worker with another zip would compute something else under the same name, so the hash is part of every commit and
an executor that reports another hash, or lacks numpy or pyarrow, is refused before it gets work.
"""

from __future__ import annotations

import hashlib
import io
import sys
import zipfile
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from shared.errors import UsageError

PACKAGES = ("shared", "resurge", "cloud_backend/spark", "cloud_backend/log")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same files give the same bytes


def source_files(operator_modules: Iterable[str] = ()) -> dict[str, Path]:
    """Path inside the zip -> file, for our packages and the users' operator modules."""
    root = Path(__file__).resolve().parents[3]
    files = {"cloud_backend/__init__.py": root / "cloud_backend" / "__init__.py"}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            files[path.relative_to(root).as_posix()] = path
    return {**files, **module_files(operator_modules)}


def module_files(operator_modules: Iterable[str]) -> dict[str, Path]:
    """Path below a folder of sources -> file, for users' operator modules."""
    files: dict[str, Path] = {}
    for name in operator_modules:
        module = import_module(name)
        if module.__file__ is None or Path(module.__file__).name == "__init__.py":
            raise UsageError(
                f"operator module {name!r} is not a single file; name the module inside the package instead",
                code="spark-operator-module",
            )
        files[name.replace(".", "/") + ".py"] = Path(module.__file__)
        for depth in range(1, name.count(".") + 1):
            parent = import_module(".".join(name.split(".")[:depth]))
            # A zip knows no package without __init__.py; an empty one stands for it.
            opening = Path(parent.__file__) if parent.__file__ else Path(__file__).with_name("__init__.py")
            files["/".join([*name.split(".")[:depth], "__init__.py"])] = opening
    return files


def code_hash(files: dict[str, Path]) -> str:
    """One hash over names and contents, and over the numeric platform results depend on."""
    import numpy

    digest = hashlib.blake2b(digest_size=10)
    digest.update(f"{sys.version_info[:2]} numpy {numpy.__version__} {sys.byteorder}".encode())
    for name, path in sorted(files.items()):
        data = path.read_bytes()
        digest.update(f"\n{name} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def write_zip(directory: Path, files: dict[str, Path]) -> tuple[Path, str]:
    """Write the zip into the directory unless it is there; returns its path and the hash in its name."""
    digest = code_hash(files)
    target = directory / f"resurge-{digest}.zip"
    if not target.exists():
        body = io.BytesIO()
        with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, path in sorted(files.items()):
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes())
            archive.writestr(zipfile.ZipInfo("resurge_code_hash.txt", _EPOCH), digest)
        temporary = target.with_suffix(".new")
        temporary.write_bytes(body.getvalue())
        temporary.replace(target)
    return target, digest
