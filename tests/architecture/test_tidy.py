"""One word per idea, every error code documented, nothing of one machine in the tree."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

from tests.architecture.parsed import nodes

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("shared", "mobile_app", "cloud_backend", "resurge")

# second word -> the one we use (docs/glossary.md)
SECOND_WORDS = {
    "watermark": "frontier",
    "checkpointbarrier": "mark",
    "acknowledgement_message": "receipt",
    "dead_letter": "ledger",
    "deadletter": "ledger",
    "tuple_stream": "stream",
    "wal_buffer": "spool",
    "generation_number": "term",
}
DRAWERS = re.compile(r"(^|_)(utils?|helpers?|common|misc|managers?|base)$")


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.splitlines() if (ROOT / name).is_file()]


def sources() -> list[Path]:
    return sorted(path for package in PRODUCT for path in (ROOT / package).rglob("*.py"))


def test_names_use_the_one_vocabulary() -> None:
    found = []
    for path in sources():
        for node in nodes(path):
            name = getattr(node, "name", None) or getattr(node, "id", None) or getattr(node, "arg", None)
            if isinstance(name, str):
                found += [
                    f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)} {name!r}: say {ours!r}"
                    for other, ours in SECOND_WORDS.items()
                    if other in name.lower()
                ]
    assert not found


def test_no_module_is_a_drawer() -> None:
    assert not [str(path.relative_to(ROOT)) for path in sources() if DRAWERS.search(path.stem)]


def test_every_error_code_is_documented_once() -> None:
    documented = re.findall(r"^\| `([a-z0-9-]+)` \|", (ROOT / "docs" / "errors.md").read_text(), re.M)
    used = set()
    for path in sources():
        for node in nodes(path):
            if isinstance(node, ast.Call):
                for keyword in node.keywords:
                    if (
                        keyword.arg == "code"
                        and isinstance(keyword.value, ast.Constant)
                        and isinstance(keyword.value.value, str)
                    ):
                        used.add(keyword.value.value)
    assert sorted(documented) == documented, "docs/errors.md is not sorted by code"
    assert len(set(documented)) == len(documented), "docs/errors.md lists a code twice"
    assert not used - set(documented), f"not in docs/errors.md: {sorted(used - set(documented))}"


def test_shared_guards_data_with_raise_not_assert() -> None:
    """python-for-android compiles with -OO: an assert in shared would vanish on the phone."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in (ROOT / "shared").rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.Assert)
    ]
    assert not found


def test_no_machine_path_or_registry_in_the_tree() -> None:
    pattern = re.compile(
        "/" + r"(?:work|root/\.pyenv|farm)" + r"/\w|(?:index-url|index_url|registry)\s*[=:]\s*\W?https?:"
    )
    found = []
    for path in tracked():
        if path.suffix in {".py", ".md", ".toml", ".sh", ".yml", ".txt", ".html", ".js", ".json", ".spec", ""}:
            try:
                text = path.read_text()
            except UnicodeDecodeError:
                continue
            found += [f"{path.relative_to(ROOT)}: {match.group(0)}" for match in pattern.finditer(text)]
    assert not found


def test_python_is_held_to_what_android_runs() -> None:
    """shared and mobile_app must compile with the oldest Python we promise; feature_version checks the syntax."""
    for package in ("shared", "mobile_app"):
        for path in (ROOT / package).rglob("*.py"):
            ast.parse(path.read_text(), feature_version=(3, 11))
