"""A node says which operators it has, brings those its app was built with, and tells why a plan is withheld."""

from __future__ import annotations

import json
import sys

import pytest

from mobile_app.own_operators import Bundle, BundledOperator, bundle, import_bundled
from shared.errors import DamagedData, UsageError
from shared.language import registry
from shared.sync.exchange import StatusReceived
from tests.mobile_app.node.test_loop import RAW, bench, plan  # noqa: F401 - bench is a fixture

BUILT = Bundle("Walks", "1.0", "org.example.walks", ("own_walks",), (BundledOperator("own_walk", 2, "ab" * 32),))
CODE = """
from resurge import operator

@operator("own_walk", takes={"speed": "float64"}, gives={"fast": "bool"}, version=2)
def walk(columns):
    return {"fast": columns["speed"] > 3}
"""


@pytest.fixture
def app(tmp_path, monkeypatch):
    """An app's folder with a module of its own."""
    (tmp_path / "own_walks.py").write_text(CODE)
    (tmp_path / "operators.json").write_text(json.dumps(BUILT.to_json()))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("own_walks", None)
    registry._types.pop("own_walk", None)


def test_a_list_comes_back_as_it_was_written(app):
    assert bundle(app) == BUILT
    assert BUILT.build == "Walks 1.0 (org.example.walks)"


def test_what_the_app_was_built_with_is_there_after_the_start(app):
    assert import_bundled(app) == BUILT
    assert "own_walk@2" in registry.references()


def test_the_app_without_operators_of_its_own_has_no_list(tmp_path):
    assert import_bundled(tmp_path) is None


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", json.dumps(BUILT.to_json() | {"format": 2}), json.dumps(BUILT.to_json() | {"operators": [1]})],
)
def test_a_damaged_list_is_refused(app, text):
    (app / "operators.json").write_text(text)
    with pytest.raises(DamagedData, match="operator-bundle"):
        import_bundled(app)


def test_a_list_that_promises_more_than_its_modules_bring_is_refused(app):
    """A gateway would send plans here that cannot run."""
    more = BUILT.to_json() | {"operators": [{"name": "own_walk", "version": 3, "digest": ""}]}
    (app / "operators.json").write_text(json.dumps(more))
    with pytest.raises(DamagedData, match=r"own_walk@3.*\[operator-bundle\]"):
        import_bundled(app)


def test_a_list_that_names_a_module_that_is_not_there_is_refused(app):
    (app / "operators.json").write_text(json.dumps(BUILT.to_json() | {"modules": ["gone_walks"]}))
    with pytest.raises(UsageError, match=r"gone_walks.*\[operator-module\]"):
        import_bundled(app)


def test_a_node_says_what_it_has_with_its_first_exchange(bench, tmp_path, app):  # noqa: F811
    import_bundled(app)
    bench.start(plan=plan(tmp_path, RAW))
    heard: list[object] = []

    def told() -> bool:
        heard.extend(bench.gateway.receiver.events())
        return any(isinstance(event, StatusReceived) for event in heard)

    bench.run_until(told)
    first = next(event.status for event in heard if isinstance(event, StatusReceived))
    assert "own_walk@2" in first.operators


def test_a_withheld_plan_is_told_in_health_and_forgotten_when_one_comes(bench, tmp_path):  # noqa: F811
    node = bench.start(plan=plan(tmp_path, RAW))
    bench.gateway.withhold = ("own_walk@2",), BUILT.build
    bench.gateway.plan_to_send = plan(tmp_path, RAW.replace("raw", "newer"), version=2)

    def troubles() -> dict[str, str]:
        return {entry["code"]: entry["what"] for entry in node.stores.health.entries()}

    bench.run_until(lambda: "plan-withheld" in troubles())
    assert "version 2 of the program needs own_walk@2" in troubles()["plan-withheld"]
    assert BUILT.build in troubles()["plan-withheld"]
    assert node.view()["plan"]["version"] == 1
    delivered = bench.delivered("raw")
    bench.run_until(lambda: bench.delivered("raw") > delivered)  # the plan before goes on
    bench.gateway.withhold = None
    bench.run_until(lambda: node.view()["plan"]["version"] == 2 and "plan-withheld" not in troubles())
