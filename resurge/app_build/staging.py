"""A folder that is the app's whole project: buildozer builds it where Android's SDK is, its own workflow elsewhere.

buildozer.spec            rendered from Resurge's: title, id, version, requirements, what goes in
main.py service.py mobile_app/ shared/      every app's
resurge/ my_operators.py ...                the program's own modules, and of Resurge's front door what they import
operators.json            the list: name, version and digest of each operator type
packaging/android/        Java, recipes, hook, pictures
packaging/plan.json       the program's plan, with which the gate runs the app; phones get it from their gateway
.github/workflows/apk.yml builds the APK and keeps it
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mobile_app.own_operators import FILE, Bundle, BundledOperator, bundle
from resurge.app_build.android import recipes
from resurge.app_build.own_modules import Found, OwnModules, operator_modules, operators_of
from shared.errors import DamagedData, UsageError
from shared.plan.encoding import encode_plan
from shared.stream.drafts import Program

ROOT = Path(__file__).resolve().parents[2]
SPEC = "buildozer.spec"
PLAN = "packaging/plan.json"
WORKFLOW = ".github/workflows/apk.yml"
OF_EVERY_APP = ("main.py", "service.py", "mobile_app", "shared", "LICENSE", "constraints.txt", "packaging/android")
ANDROID_ID = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
VERSION = re.compile(r"[0-9]+(\.[0-9]+){0,3}")
TITLE_CHARACTERS_MAX = 30  # as stores have it
# Java refuses these as names of packages, and an id is one.
JAVA_WORDS = frozenset(
    {"abstract", "boolean", "break", "byte", "case", "catch", "char", "class", "const", "continue", "default", "do",
     "double", "else", "enum", "extends", "final", "finally", "float", "for", "goto", "if", "implements", "import",
     "instanceof", "int", "interface", "long", "native", "new", "package", "private", "protected", "public", "return",
     "short", "static", "super", "switch", "synchronized", "this", "throw", "throws", "try", "void", "volatile",
     "while"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AppName:
    """What a person and Android call the app."""

    title: str
    id: str
    version: str

    def __post_init__(self) -> None:
        words = self.id.split(".")
        if not ANDROID_ID.fullmatch(self.id) or JAVA_WORDS & set(words):
            raise UsageError(
                f"an app's id is small letters with dots, like org.example.walks, no words of Java; not {self.id!r}",
                code="app-id",
            )
        if not VERSION.fullmatch(self.version):
            raise UsageError(
                f"an app's version is numbers with dots, like 1.0; not {self.version!r}", code="app-version"
            )
        if not self.title.isprintable() or not 0 < len(self.title.strip()) <= TITLE_CHARACTERS_MAX:
            raise UsageError(f"an app's title has 1 to {TITLE_CHARACTERS_MAX} characters", code="app-title")


@dataclass(frozen=True, slots=True)
class Staged:
    """What lies in the folder now."""

    folder: Path
    bundle: Bundle
    found: Found
    warnings: tuple[str, ...]


def stage(folder: Path, program: Program, name: AppName, *, root: Path = ROOT) -> Staged:
    """Write the app's project into this folder, anew. Refuses, before anything is written, what no phone can have."""
    if not (root / SPEC).is_file():
        raise UsageError(
            "an app is built from a clone of Resurge, which has buildozer.spec and packaging/android; this "
            "installation has not",
            code="app-clone",
        )
    before = _earlier(folder)
    text = (root / SPEC).read_text(encoding="utf-8")
    own = OwnModules(spec_list(text, "requirements"), recipes(root / "packaging" / "android" / "recipes"))
    plan = program.plan()
    modules = operator_modules(plan, program.modules)
    if not modules:
        raise UsageError(
            "the program uses no operators of its own on the phone; the app as it is runs it", code="app-nothing-own"
        )
    found = own.check(modules)
    digests = {module: own.digest(module) for module in modules}
    operators = tuple(BundledOperator(kind.name, kind.version, digests[kind.module]) for kind in operators_of(modules))
    built = Bundle(name.title, name.version, name.id, modules, operators)
    _write(folder, root, found, built, rendered_spec(text, name, found))
    (folder / PLAN).write_bytes(encode_plan(plan))
    return Staged(folder, built, found, tuple(_changed(before, built)))


def _earlier(folder: Path) -> Bundle | None:
    """What the last build put in; a folder of somebody else's is never touched."""
    if not folder.exists() or not any(folder.iterdir()):
        return None
    if not (folder / FILE).is_file() or not (folder / SPEC).is_file():
        raise UsageError(
            f"{str(folder)!r} holds something else than an app's project; give --output another folder",
            code="app-folder",
        )
    try:
        return bundle(folder)
    except DamagedData:
        return None


def _write(folder: Path, root: Path, found: Found, built: Bundle, spec: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in [*OF_EVERY_APP, "resurge", ".github", *{path.split("/")[0] for path in found.files}]:
        target = folder / name.split("/")[0]
        shutil.rmtree(target, ignore_errors=True) if target.is_dir() else target.unlink(missing_ok=True)
    for name in OF_EVERY_APP:
        source, target = root / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        else:
            shutil.copyfile(source, target)
    for name, path in found.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / name)
    (folder / SPEC).write_text(spec, encoding="utf-8")
    (folder / FILE).write_text(json.dumps(built.to_json(), indent=1) + "\n", encoding="utf-8")
    workflow = folder / WORKFLOW
    workflow.parent.mkdir(parents=True, exist_ok=True)
    workflow.write_text(rendered_workflow((root / WORKFLOW).read_text(encoding="utf-8"), built.id), encoding="utf-8")


def _changed(before: Bundle | None, now: Bundle) -> list[str]:
    """Operator types whose code is another and whose version is not: states and plans take them for the same."""
    known = {} if before is None else {each.reference: each.digest for each in before.operators}
    return [
        f"{each.reference} has other code than in the build before and the same version; raise its version if it means "
        "something else now"
        for each in now.operators
        if known.get(each.reference, each.digest) != each.digest
    ]


def spec_list(text: str, key: str) -> list[str]:
    return [each.strip() for each in spec_value(text, key).split(",") if each.strip()]


def spec_value(text: str, key: str) -> str:
    found = re.search(rf"^{re.escape(key)} *= *(.*)$", text, re.M)
    if found is None:
        raise UsageError(f"Resurge's buildozer.spec has no {key!r}; the clone is not whole", code="app-clone")
    return found.group(1).strip()


def rendered_spec(text: str, name: AppName, found: Found) -> str:
    """Resurge's own spec with this app's name and what it brings."""
    domain, _, last = name.id.rpartition(".")
    tops = sorted({path.split("/")[0] + ("/*" if "/" in path else "") for path in found.files})
    excluded = [
        each for each in spec_list(text, "source.exclude_dirs") if each not in {top.split("/")[0] for top in tops}
    ]
    changed: Mapping[str, str] = {
        "title": name.title,
        "package.name": last,
        "package.domain": domain,
        "version": name.version,
        "requirements": _joined([*spec_list(text, "requirements"), *found.requirements.values()]),
        "source.include_exts": _joined([*spec_list(text, "source.include_exts"), "json"]),
        "source.include_patterns": _joined([*spec_list(text, "source.include_patterns"), FILE, *tops]),
        "source.exclude_dirs": _joined(excluded),
    }
    lines = [
        f"{key} = {changed[key]}" if (key := line.partition("=")[0].strip()) in changed else line
        for line in text.splitlines()
    ]
    return "\n".join(lines) + "\n"


def _joined(values: Sequence[str]) -> str:
    return ",".join(dict.fromkeys(values))


def rendered_workflow(text: str, id: str) -> str:
    """Resurge's own workflow without its gate, which ran before this was written, and its weekly run."""
    head, gate, build = text.partition("  gate:\n")
    _, found, build = build.partition("  build:\n")
    if not gate or not found:
        raise UsageError(f"{WORKFLOW} has no gate and build; the clone is not whole", code="app-clone")
    head = re.sub(r"  schedule:\n(    .*\n)+", "", head)
    build = build.replace("    needs: gate\n", "", 1).replace("resurge-apk", f"{id}-apk")
    return f"{head}{found}{build}"
