"""An app with a program's own operators: what goes in, what is refused by name, and what the folder holds then."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import yaml

from mobile_app.own_operators import bundle
from resurge.app_build import own_modules
from resurge.app_build.android import plain_name, recipes
from resurge.app_build.own_modules import OwnModules, imports_of
from resurge.app_build.staging import ROOT, AppName, rendered_workflow, spec_list, spec_value, stage
from resurge.cli import run_noun
from shared.errors import UsageError
from shared.language import registry
from shared.plan.encoding import decode_plan
from shared.stream.program import read_program
from tests.packaging import spec

NAME = AppName("Walks", "org.example.walks", "1.2")
PROGRAM = """
import resurge as rs
import {module}

walked = rs.sensor("gps", every="1s").apply("app_walk").sync("walk")
walked.apply("app_cloud").sync_back("told")
"""
OPERATORS = """
from __future__ import annotations
import math
from typing import TYPE_CHECKING
import numpy as np
import resurge as rs
from {package} import rules
{imports}
if TYPE_CHECKING:
    import only_for_readers

walk = rs.operator("app_walk", takes={{"speed": "float64"}}, gives={{"fast": "bool"}}, version=4)(rules.fast)

@rs.operator("app_cloud", takes={{"fast": "bool"}}, gives={{"slow": "bool"}})
def slow(columns):
    return {{"slow": ~columns["fast"]}}
"""
RULES = "LIMIT = {limit}\n\ndef fast(columns):\n    return {{'fast': columns['speed'] > LIMIT}}\n"


class Author:
    """Somebody's folder with a program and a package of operators beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = f"walks_{folder.name.replace('-', '_')}"
        self.write()

    def write(self, *, imports: str = "", limit: int = 3) -> Path:
        package = self.folder / self.package
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text("")
        (package / "operators.py").write_text(OPERATORS.format(package=self.package, imports=imports))
        (package / "rules.py").write_text(RULES.format(limit=limit))
        path = self.folder / "walks.py"
        path.write_text(PROGRAM.format(module=f"{self.package}.operators"))
        return path

    def stage(self, target: Path, **changes):
        self.forget()
        return stage(target, read_program(self.write(**changes)), NAME)

    def forget(self) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == self.package]:
            del sys.modules[name]
        for name in ("app_walk", "app_cloud"):
            registry._types.pop(name, None)


@pytest.fixture
def author(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "author"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    someone = Author(folder)
    yield someone
    someone.forget()


def test_an_operator_type_knows_the_module_that_registers_it(author):
    """Not the one its code is in: importing that would register nothing."""
    read_program(author.write())
    kind = registry.operator_type("app_walk")
    assert kind.implementation.__module__ == f"{author.package}.rules"
    assert kind.module == f"{author.package}.operators"


def test_the_folder_is_a_whole_project_with_the_programs_own_files_and_nothing_of_the_clouds(author, tmp_path):
    staged = author.stage(tmp_path / "app")
    own = {f"{author.package}/{name}.py" for name in ("__init__", "operators", "rules")}
    assert set(staged.found.files) == own | {"resurge/__init__.py"}
    assert {path.name for path in (tmp_path / "app").iterdir()} == {
        "main.py", "service.py", "mobile_app", "shared", "LICENSE", "constraints.txt", "packaging", "resurge",
        author.package, "operators.json", "buildozer.spec", ".github",
    }  # fmt: skip
    assert [path.name for path in (tmp_path / "app" / "resurge").iterdir()] == ["__init__.py"]
    assert not list((tmp_path / "app").rglob("__pycache__"))
    listed = bundle(tmp_path / "app")
    assert listed == staged.bundle
    assert listed.modules == (f"{author.package}.operators",)
    assert [each.reference for each in listed.operators] == ["app_cloud@1", "app_walk@4"]
    assert listed.build == "Walks 1.2 (org.example.walks)"
    assert decode_plan((tmp_path / "app" / "packaging" / "plan.json").read_bytes()).sensors[0].name == "gps"


def test_the_spec_is_resurges_own_with_another_name(author, tmp_path):
    author.stage(tmp_path / "app")
    path = tmp_path / "app" / "buildozer.spec"
    assert spec.check(path, tmp_path / "app") == []
    assert spec.package(path) == "org.example.walks"
    before, after = spec.load(), spec.load(path)
    changed = {key for key, value in after.items("app") if value != before.get("app", key)}
    assert changed == {
        "title", "package.name", "package.domain", "version", "source.include_exts", "source.include_patterns",
        "source.exclude_dirs",
    }  # fmt: skip


def test_the_workflow_is_resurges_own_build_without_its_gate(author, tmp_path):
    author.stage(tmp_path / "app")
    ours = yaml.safe_load((ROOT / ".github/workflows/apk.yml").read_text())
    theirs = yaml.safe_load((tmp_path / "app" / ".github/workflows/apk.yml").read_text())
    assert set(theirs["jobs"]) == {"build"}
    assert "needs" not in theirs["jobs"]["build"]
    text = json.dumps(ours["jobs"]["build"]["steps"]).replace("resurge-apk", "org.example.walks-apk")
    assert json.dumps(theirs["jobs"]["build"]["steps"]) == text
    assert "schedule" not in theirs[True]  # YAML reads `on` as true
    for step in theirs["jobs"]["build"]["steps"]:  # every file it names is in the folder
        for named in re.findall(r"(?:packaging/[a-z_/]+\.py|constraints\.txt)", step.get("run", "")):
            assert (tmp_path / "app" / named).is_file(), named
    with pytest.raises(UsageError, match="app-clone"):
        rendered_workflow("jobs:\n", "a.b")


@pytest.mark.parametrize(
    ("imports", "said"),
    [
        ("import tkinter", r"'tkinter' \(imported by walks_author.operators\) is not in a phone's Python"),
        ("import distutils.version", "'distutils' .* is not in a phone's Python"),
        ("def later():\n    import cloud_backend.log", "'cloud_backend' .* is of the cloud's half"),
        ("import nowhere_at_all", "'nowhere-at-all' .* is not installed here, and no file beside the program"),
        ("from polars import col", r"'polars' .* neither a recipe of python-for-android nor a wheel of polars=="),
    ],
)
def test_what_no_phone_can_have_is_refused_by_name_before_anything_is_written(
    author, monkeypatch, imports, said, tmp_path
):
    author.forget()
    read = read_program(author.write())
    if "polars" in imports:  # a package with compiled parts, whether it is installed here or not
        monkeypatch.setattr(own_modules.metadata, "distribution", lambda _name: Compiled())
        monkeypatch.setattr(own_modules, "has_wheel", lambda _: False)
    author.write(imports=imports)  # after the program was read: nothing of this is run
    own = OwnModules(["numpy"], frozenset(), lambda _requirement: False)
    with pytest.raises(UsageError, match=rf"not for a phone: .*{said}.*\[app-import\]"):
        own.check(read_modules(read))


def read_modules(program) -> tuple[str, ...]:
    return own_modules.operator_modules(program.plan(), program.modules)


class Compiled:
    version, requires = "1.0", ()

    def read_text(self, _name: str) -> str:
        return "Root-Is-Purelib: false\nTag: cp311-cp311-manylinux_2_17_x86_64\n"


def test_packages_that_a_phone_can_have_become_requirements(author, monkeypatch):
    author.forget()
    read = read_program(author.write())
    author.write(imports="import yaml_like, pandas, requests, hypothesis")
    names = {"yaml_like": ["yaml-like"], "pandas": ["pandas"], "requests": ["requests"], "hypothesis": ["hypothesis"]}
    monkeypatch.setattr(own_modules.metadata, "packages_distributions", lambda: names)
    made = {"yaml-like": Compiled(), "hypothesis": Pure(["sortedcontainers<3", "django; extra == 'django'"]),
            "sortedcontainers": Pure([])}  # fmt: skip
    monkeypatch.setattr(own_modules.metadata, "distribution", made.__getitem__)
    asked: list[str] = []
    own = OwnModules(
        ["numpy", "requests"], frozenset({"pandas"}), lambda requirement: asked.append(requirement) is None
    )
    found = own.check(read_modules(read))
    assert found.requirements == {
        "yaml-like": "yaml-like==1.0", "pandas": "pandas", "hypothesis": "hypothesis==2.0",
        "sortedcontainers": "sortedcontainers==2.0",
    }  # fmt: skip
    assert asked == ["yaml-like==1.0"]  # only what has compiled parts is looked for in an index


class Pure:
    version = "2.0"

    def __init__(self, requires: list[str]) -> None:
        self.requires = requires

    def read_text(self, _name: str) -> str:
        return "Root-Is-Purelib: true\nTag: py3-none-any\n"


def test_an_import_that_may_fail_is_left_out_and_said(author):
    author.forget()
    read = read_program(author.write())
    author.write(imports="try:\n    import nowhere_at_all\nexcept ImportError:\n    nowhere_at_all = None")
    found = OwnModules(["numpy"], frozenset(), lambda _requirement: False).check(read_modules(read))
    assert found.left_out == ["nowhere_at_all (in walks_author.operators)"]
    assert not found.requirements


def test_imports_are_found_wherever_they_stand(tmp_path):
    path = tmp_path / "inner.py"
    path.write_text(
        "import a.b, c\nfrom . import near\nfrom ..far import thing\nfrom typing import TYPE_CHECKING\n"
        "def f():\n    from d import e\nclass G:\n    import h\n"
        "if TYPE_CHECKING:\n    import never\nelse:\n    import always\n"
        "try:\n    import maybe\nexcept (ValueError, ModuleNotFoundError):\n    import instead\n"
    )
    found = {(each.module, each.is_optional) for each in imports_of(path, "top.middle.inner", is_package=False)}
    assert found == {
        ("a.b", False), ("c", False), ("top.middle", False), ("top.far", False), ("typing", False), ("d", False),
        ("h", False), ("always", False), ("maybe", True), ("instead", False),
    }  # fmt: skip


def test_an_operator_in_the_program_itself_is_refused(tmp_path):
    path = tmp_path / "whole.py"
    path.write_text(
        "import resurge as rs\n"
        "@rs.operator('app_inside', takes={'speed': 'float64'}, gives={'fast': 'bool'})\n"
        "def fast(columns):\n    return {'fast': columns['speed'] > 3}\n"
        "rs.sensor('gps', every='1s').apply('app_inside').sync('fast')\n"
    )
    try:
        with pytest.raises(UsageError, match=r"app_inside is registered in the program itself.*\[app-operator\]"):
            stage(tmp_path / "app", read_program(path), NAME)
    finally:
        registry._types.pop("app_inside", None)
    assert not (tmp_path / "app").exists()


def test_a_program_without_operators_of_its_own_needs_no_app(tmp_path):
    path = tmp_path / "plain.py"
    path.write_text("import resurge as rs\nrs.sensor('gps', every='1s').sync('raw')\n")
    with pytest.raises(UsageError, match="app-nothing-own"):
        stage(tmp_path / "app", read_program(path), NAME)


def test_changed_code_under_the_same_version_is_warned_about(author, tmp_path):
    assert author.stage(tmp_path / "app").warnings == ()
    assert author.stage(tmp_path / "app").warnings == ()
    digests = {each.digest for each in bundle(tmp_path / "app").operators}
    changed = author.stage(tmp_path / "app", limit=5)  # in a module that the operators' own imports
    assert [text.partition(" ")[0] for text in changed.warnings] == ["app_cloud@1", "app_walk@4"]
    assert digests.isdisjoint(each.digest for each in bundle(tmp_path / "app").operators)
    assert "LIMIT = 5" in (tmp_path / "app" / author.package / "rules.py").read_text()


def test_a_folder_of_somebody_elses_is_not_touched(author, tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "thesis.txt").write_text("years")
    with pytest.raises(UsageError, match="app-folder"):
        author.stage(tmp_path / "app")
    assert [path.name for path in (tmp_path / "app").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("title", "id", "version", "code"),
    [
        ("Walks", "walks", "1.0", "app-id"), ("Walks", "org.Example", "1.0", "app-id"), ("Walks", "org.1st", "1.0", "app-id"),
        ("Walks", "org.new.walks", "1.0", "app-id"), ("Walks", "org.a-b", "1", "app-id"), ("", "org.a", "1", "app-title"),
        ("x" * 31, "org.a", "1", "app-title"), ("a\nb = c", "org.a", "1", "app-title"), ("Walks", "org.a", "1.0b", "app-version"),
    ],
)  # fmt: skip
def test_a_name_that_android_would_refuse_is_refused_first(title, id, version, code):
    with pytest.raises(UsageError, match=code):
        AppName(title, id, version)


def test_the_command_says_what_it_made_as_json(author, tmp_path, capsys, monkeypatch):
    for name in ("ANDROIDSDK", "ANDROID_HOME", "ANDROID_SDK_ROOT"):
        monkeypatch.delenv(name, raising=False)
    arguments = ["build", "--program", str(author.write()), "--output", str(tmp_path / "app"), "--no-gate", "--json"]
    with pytest.raises(SystemExit) as end:
        run_noun("app", arguments)
    assert end.value.code == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (said["title"], said["id"], said["apk"], said["gate"]) == ("Walks", "org.resurge.walks", [], "not asked for")
    assert said["folder"] == str(tmp_path / "app")


def test_recipes_and_requirements_are_compared_as_indexes_do():
    known = recipes(ROOT / "packaging" / "android" / "recipes")
    assert {"numpy", "pyzmq", "cryptography", "ruamel-yaml"} <= known
    assert [plain_name(each) for each in ("PyYAML>=6", "a_b.c[x]==1", "d (>=2)", "e; f")] == [
        "pyyaml",
        "a-b-c",
        "d",
        "e",
    ]
    text = (ROOT / "buildozer.spec").read_text()
    assert "numpy" in spec_list(text, "requirements")
    with pytest.raises(UsageError, match="app-clone"):
        spec_value(text, "nothing.of.this")
