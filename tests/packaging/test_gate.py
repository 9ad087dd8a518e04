"""The quick part of `make apk-gate`, and proof that its checks can fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.packaging import gate, manifest, pythons, requirements, spec
from tests.packaging.build_steps import load
from tests.packaging.java import ROOT
from tests.skips import skip_download

build_version = load("build_version", ROOT / "packaging" / "android" / "build_version.py")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> manifest.Built:
    return manifest.build(tmp_path_factory.mktemp("apk"))


def test_the_spec_keeps_every_rule():
    assert spec.check() == []


@pytest.mark.parametrize(
    ("changed", "to", "said"),
    [
        ("android.api = 36", "android.api = 33", "android.api is '33'"),
        ("android.minapi = 24", "android.minapl = 24", "'android.minapl' is no key of buildozer's"),
        ("location|health", "dataSync", "the service's types are 'dataSync'"),
        ("allow_backup = False", "allow_backup = True", "android.allow_backup is 'True'"),
        (", WAKE_LOCK", "", "permission WAKE_LOCK is missing"),
        (", WAKE_LOCK", ", WAKE_LOCK, READ_CONTACTS", "permission READ_CONTACTS is asked for in vain"),
        ("p4a.commit = ", "p4a.commit = master #", "p4a.commit must be a full commit"),
        ("packaging/android/java", "packaging/java", "which is not there"),
        ("art/foreground.png", "art/icon.png", "icon.png is (512, 512), it must be (432, 432)"),
        (" Node:D", "", "android.logcat_filters hides Node"),
        ("presplash.filename", "presplash.nothing", "presplash.filename names None"),
    ],
)
def test_a_spec_that_breaks_a_rule_is_refused(tmp_path: Path, changed, to, said):
    text = spec.SPEC.read_text()
    assert changed in text
    path = tmp_path / "buildozer.spec"
    path.write_text(text.replace(changed, to))
    assert any(said in wrong for wrong in spec.check(path))


def test_everything_the_phone_imports_is_in_the_spec():
    assert requirements.missing_from_spec(requirements.modules_imported(), requirements.required()) == []


def test_an_import_that_nothing_brings_is_named_with_its_place():
    imported = {"orjson": "shared/wire/frame.py:3", "zmq": "mobile_app/links/relay.py:9", "curses": "main.py:1"}
    wrong = requirements.missing_from_spec(imported, ["numpy", "pyzmq"])
    assert ["curses (main.py:1)" in wrong[0], "orjson (shared/wire/frame.py:3)" in wrong[1]] == [True, True]
    assert len(wrong) == 2


def test_python_for_android_resolves_the_requirements_with_our_recipes():
    assert "Python 3.14" in gate.requirement_graph()


def test_the_rendered_manifest_keeps_every_rule_and_compiles_where_a_compiler_is(built, tmp_path):
    assert manifest.check(built.manifest.read_text()) == []
    assert manifest.drawn(built) == []
    if manifest.compiler() is None:
        assert manifest.compile_manifest(built, tmp_path) == ""


@pytest.mark.parametrize(
    ("changed", "to", "said"),
    [
        ('allowBackup="false"', 'allowBackup="true"', "allowBackup is 'true'"),
        ("org.resurge.phone.BootReceiver", "org.other.BootReceiver", "did not add the receiver BootReceiver"),
        ("location|health", "dataSync", "foregroundServiceType is 'dataSync'"),
        ('enableOnBackInvokedCallback="true"', 'enableOnBackInvokedCallback="false"', "enableOnBackInvokedCallback is"),
        ("org.resurge.phone.MainActivity", "org.kivy.android.PythonActivity", "the activities are"),
        ('scheme="resurge"', 'scheme="http"', "resurge://"),
        ('targetSdkVersion="36"', 'targetSdkVersion="33"', "targetSdkVersion is '33'"),
        ("FOREGROUND_SERVICE_HEALTH", "FOREGROUND_SERVICE_CAMERA", "needs FOREGROUND_SERVICE_HEALTH"),
    ],
)
def test_a_manifest_that_breaks_a_rule_is_refused(built, changed, to, said):
    text = built.manifest.read_text()
    assert changed in text
    assert any(said in wrong for wrong in manifest.check(text.replace(changed, to)))


def test_two_commits_make_two_versions_and_one_makes_one(tmp_path: Path):
    """Else an update keeps running the old Python: it is unpacked only when this key differs."""
    for time_s in (1_790_000_000, 1_790_000_059):
        moment = {"GIT_COMMITTER_DATE": f"{time_s} +0000", "GIT_AUTHOR_DATE": f"{time_s} +0000"}
        for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "a change"]):
            named = ["-c", "user.name=a", "-c", "user.email=a@b"]
            subprocess.run(["git", "-C", str(tmp_path), *named, *command], env=os.environ | moment, check=True)
    commits = [build_version.environment(commit, tmp_path) for commit in ("HEAD", "HEAD", "HEAD~1")]
    first, again, older = (
        manifest.build(tmp_path / str(number), environment=commit) for number, commit in enumerate(commits)
    )
    assert manifest.private_version(first) == manifest.private_version(again)
    assert manifest.private_version(first) != manifest.private_version(older)
    assert manifest.numeric_version(first) == int(commits[0]["SOURCE_DATE_EPOCH"]) // 60
    assert 1_024_100 < manifest.numeric_version(older) <= manifest.numeric_version(first) < 2_100_000_000


def test_the_workflow_takes_version_and_key_from_outside_the_build():
    """A version of its own and a key that stays: an update replaces the app and keeps its files."""
    steps = yaml.safe_load((ROOT / ".github" / "workflows" / "apk.yml").read_text())["jobs"]["build"]["steps"]
    assert not any("SOURCE_DATE_EPOCH" in step.get("env", {}) for step in steps)
    runs = [step.get("run", "") for step in steps]
    version = next(number for number, run in enumerate(runs) if "build_version.py" in run)
    builds = {run.split()[-1]: number for number, run in enumerate(runs) if run.startswith("buildozer")}
    assert version < min(builds.values())
    signed = steps[builds["release"]]
    assert set(signed["env"]) | {"P4A_RELEASE_KEYSTORE"} == {
        f"P4A_RELEASE_{name}" for name in ("KEYSTORE", "KEYSTORE_PASSWD", "KEYALIAS", "KEYALIAS_PASSWD")
    }
    assert all("secrets." in value for value in signed["env"].values())
    assert steps[builds["debug"]]["if"] == "env.P4A_RELEASE_KEYSTORE == ''"


def test_buildozer_signs_a_release_with_the_key_it_is_given(tmp_path: Path):
    key = {f"P4A_RELEASE_{name}": "given" for name in ("KEYSTORE", "KEYSTORE_PASSWD", "KEYALIAS", "KEYALIAS_PASSWD")}
    assert "--sign" in manifest.build(tmp_path / "signed", "release", key).command
    assert "--sign" not in manifest.build(tmp_path / "debug").command


def test_the_hook_changes_a_manifest_once(built):
    hook = load("hook", ROOT / "packaging" / "android" / "hook.py")
    text = built.manifest.read_text()
    assert hook.with_components(text) == text
    with pytest.raises(ValueError, match="no <application>"):
        hook.with_components("<manifest/>")


def test_the_apk_holds_the_phones_half_and_nothing_else(built):
    top = {path.name for path in built.app.iterdir()}
    assert {"main.py", "service.py", "mobile_app", "shared"} <= top
    assert not {"cloud_backend", "resurge", "tests", "docs", "packaging"} & top
    assert "public int startType()" in built.service.read_text()  # sticky


def test_device_code_runs_without_asserts_and_docstrings_from_the_apks_files_alone(built):
    done = pythons.device_run(pythons.Interpreter([sys.executable], "", {}), built.app)
    assert "device run: all parts passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.soak
def test_device_code_runs_on_the_phones_processor():
    try:
        said = gate.arm()
    except gate.NotRun as why:
        if isinstance(why.__cause__, pythons.NotReached):
            skip_download(str(why))
        raise
    assert "parts of the device run passed" in said
