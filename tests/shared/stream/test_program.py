"""Programs are files; operator modules come from resurge.toml; every mistake names its place."""

from __future__ import annotations

import sys

import pytest

import resurge as rs
from shared.errors import UsageError
from shared.language import registry
from shared.stream.program import load_program, read_program, rollback_settings

OPERATORS = """
import resurge as rs

@rs.operator("program_double", takes={"v": "float64"}, gives={"v": "float64"}, version=3)
def double(columns, *, factor=2.0):
    return {"v": columns["v"] * factor}
"""

PROGRAM = """
import resurge as rs

def show(columns):
    pass

x = rs.stream("x", {"v": "float64"})
x.apply("program_double").subscribe(show)
"""


@pytest.fixture(autouse=True)
def forget_operators(monkeypatch: pytest.MonkeyPatch):
    before = dict(registry._types)
    yield
    registry._types.clear()
    registry._types.update(before)
    sys.modules.pop("program_operators", None)


@pytest.mark.covers("EC-2")
def test_operator_modules_of_resurge_toml_are_there_before_the_program_runs(tmp_path) -> None:
    (tmp_path / "program_operators.py").write_text(OPERATORS)
    (tmp_path / "resurge.toml").write_text('[operators]\nmodules = ["program_operators"]\n')
    (tmp_path / "program.py").write_text(PROGRAM)
    program = read_program(tmp_path / "program.py")
    assert list(program.callbacks) == ["show"]
    found = rs.evaluate(program.plan(version=4), {"x": {"time": [0], "v": [21.0]}})
    assert found["show"]["v"].tolist() == [42.0]
    assert "program_double@3" in registry.references()
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize(
    ("toml", "code"),
    [
        ("[operators\n", "settings-toml"),
        ("[operators]\nmodules = 3\n", "settings-toml"),
        ('[operators]\nmodules = ["no_such_module"]\n', "operator-module"),
        ("", "operator-unknown"),
    ],
)
def test_a_wrong_resurge_toml_says_so(tmp_path, toml: str, code: str) -> None:
    (tmp_path / "resurge.toml").write_text(toml)
    (tmp_path / "program.py").write_text(PROGRAM)
    with pytest.raises(UsageError) as caught:
        load_program(tmp_path / "program.py")
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("text", "code"),
    [("x = (", "program-syntax"), ("import resurge", "plan-sink"), ("\0", "program-syntax")],
)
def test_what_is_no_program_says_so(tmp_path, text: str, code: str) -> None:
    (tmp_path / "program.py").write_text(text)
    with pytest.raises(UsageError) as caught:
        load_program(tmp_path / "program.py")
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("up = gpss.sync('a')", "NameError: name 'gpss' is not defined; did you mean 'gps'?"),
        ("gps.synk('a')", "AttributeError: 'Stream' object has no attribute 'synk'; did you mean 'sync'?"),
        ("rs.cuont()", "AttributeError: module 'resurge' has no attribute 'cuont'; did you mean 'count'?"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_a_line_that_fails_is_named_with_what_python_says_of_it(tmp_path, line: str, said: str) -> None:
    (tmp_path / "program.py").write_text(f"import resurge as rs\ngps = rs.sensor('gps', every='1s')\n{line}\n")
    with pytest.raises(UsageError) as caught:
        load_program(tmp_path / "program.py")
    assert caught.value.code == "program-failed"
    assert caught.value.message == f"the program 'program.py' failed in line 3  `{line}`: {said}"


def test_a_file_that_is_not_there_says_so(tmp_path) -> None:
    with pytest.raises(UsageError, match="cannot read the program"):
        load_program(tmp_path / "absent.py")


def test_two_programs_do_not_see_each_other(tmp_path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(
            f'import resurge as rs\nrs.sensor("gps", every="1s").subscribe("{name}")\n'
        )
    plans = [load_program(tmp_path / f"{name}.py") for name in ("one", "two")]
    assert [[sink.operator.name for sink in plan.sinks] for plan in plans] == [["one"], ["two"]]
    assert [plan.name for plan in plans] == ["one", "two"]


def test_another_type_of_a_known_name_is_refused() -> None:
    @rs.operator("program_name", takes={"v": "float64"}, gives={"v": "float64"})
    def first(columns):
        return columns

    with pytest.raises(UsageError, match=r"already registered by .*first"):

        @rs.operator("program_name", takes={"v": "float64"}, gives={"v": "float64"})
        def second(columns):
            return columns


def test_parameters_need_defaults_and_keep_their_kind() -> None:
    with pytest.raises(UsageError, match="needs a default"):

        @rs.operator("program_no_default", takes={"v": "float64"}, gives={"v": "float64"})
        def wrong(columns, *, factor):
            return columns

    @rs.operator("program_parameters", takes={"v": "float64"}, gives={"v": "float64"})
    def right(columns, *, factor=1.5, label="x"):
        return columns

    kind = registry.operator_type("program_parameters")
    assert registry.parameters_of(kind, {"factor": 2}) == (("factor", 2.0), ("label", "x"))
    for given in ({"factor": "much"}, {"label": 3}, {"colour": 1}):
        with pytest.raises(UsageError, match="operator-parameter"):
            registry.parameters_of(kind, given)


def test_a_type_in_another_version_is_refused_by_name() -> None:
    @rs.operator("program_version", takes={"v": "float64"}, gives={"v": "float64"}, version=2)
    def versioned(columns):
        return columns

    with pytest.raises(UsageError, match="is here in version 2, the plan needs 1"):
        registry.operator_type("program_version", 1)


def test_how_far_back_a_rollback_goes_is_a_setting_of_the_folder(tmp_path) -> None:
    assert rollback_settings(tmp_path) == {}
    (tmp_path / "resurge.toml").write_text("[rollback]\nhours = 6\ngigabytes = 0.5\n")
    assert rollback_settings(tmp_path) == {"hours": 6.0, "gigabytes": 0.5}
    for wrong in ("hours = -1", 'hours = "a day"', "hours = true", "days = 1"):
        (tmp_path / "resurge.toml").write_text(f"[rollback]\n{wrong}\n")
        with pytest.raises(UsageError) as caught:
            rollback_settings(tmp_path)
        assert caught.value.code == "settings-toml"
