"""The home directory: settings, keys, the lock, enrolment kept."""

from __future__ import annotations

import stat

import pytest

from mobile_app.home.files import HomeLock
from mobile_app.home.keys import Keys, load_keys
from mobile_app.node.plans import Edges, Plans
from mobile_app.settings import Gateway, Settings, load_gateway, load_settings, save_gateway, settings_toml
from shared.errors import DamagedData, PeerError, UsageError
from shared.language.schema import Schema


def test_without_a_file_every_setting_has_its_default(tmp_path):
    assert load_settings(tmp_path) == Settings()


@pytest.mark.parametrize(
    "name", ['Ann\'s "old" phone', "back\\slash", "Zoë 🚲", "tab\tline\nend\x7f", "]\nspool_mb = 1"]
)
def test_a_name_is_kept_whatever_characters_it_has(tmp_path, name):
    (tmp_path / "settings.toml").write_text(settings_toml(name=name, spool_mb=8, adaptive=True))
    assert load_settings(tmp_path) == Settings(name=name, spool_mb=8, adaptive=True)


def test_a_person_sets_what_they_like(tmp_path):
    (tmp_path / "settings.toml").write_text('name = "attic"\nspool_mb = 8\nloss_window_s = 2\n')
    assert load_settings(tmp_path) == Settings(name="attic", spool_mb=8, loss_window_s=2)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("spool_mb = ", "settings-format"),
        ("spool_gb = 8", "settings-name"),
        ('spool_mb = "8"', "settings-value"),
        ("spool_mb = 0", "settings-value"),
        ("loss_window_s = 0", "settings-value"),
        ("capacity = -1", "settings-value"),
        ('lane = "pigeon"', "settings-value"),
        ('position = "north"', "settings-value"),
        ('position = "91, 0"', "settings-value"),
    ],
)
def test_a_setting_nobody_knows_or_of_another_kind_is_refused(tmp_path, text, code):
    (tmp_path / "settings.toml").write_text(text)
    with pytest.raises(UsageError, match=code):
        load_settings(tmp_path)


def test_the_key_is_made_once_and_only_its_owner_can_read_it(tmp_path):
    first, second = load_keys(tmp_path), load_keys(tmp_path)
    assert first.public_key == second.public_key
    assert stat.S_IMODE((tmp_path / "device.key").stat().st_mode) == 0o600


def test_a_damaged_key_is_named_and_never_replaced_in_silence(tmp_path):
    load_keys(tmp_path)
    (tmp_path / "device.key").write_bytes(b"short")
    with pytest.raises(DamagedData, match="key-damaged"):
        load_keys(tmp_path)
    assert (tmp_path / "device.key").read_bytes() == b"short"


def test_signatures_bind_key_and_message_and_agreement_gives_both_sides_the_same_secret():
    device, gateway = Keys(b"d" * 32), Keys(b"g" * 32)
    device = Keys(b"d" * 32, gateway.public_key)
    assert device.verify_gateway(b"hello", gateway.sign(b"hello"))
    assert not device.verify_gateway(b"hallo", gateway.sign(b"hello"))
    assert not device.verify_gateway(b"hello", device.sign(b"hello"))
    assert not Keys(b"d" * 32).verify_gateway(b"hello", gateway.sign(b"hello"))
    ours, theirs = device.ephemeral(), gateway.ephemeral()
    assert ours.agree(theirs.public) == theirs.agree(ours.public)
    with pytest.raises(PeerError, match="session-key"):
        ours.agree(bytes(32))


def test_the_enrolment_survives(tmp_path):
    assert load_gateway(tmp_path) is None
    gateway = Gateway("http://127.0.0.1:1", b"k" * 32, b"", 3)
    save_gateway(tmp_path, gateway)
    assert load_gateway(tmp_path) == gateway
    (tmp_path / "gateway.json").write_text('{"url": 1}')
    with pytest.raises(DamagedData, match="home-damaged"):
        load_gateway(tmp_path)


def test_a_home_has_one_node(tmp_path):
    lock = HomeLock(tmp_path)
    with pytest.raises(UsageError, match="home-busy"):
        HomeLock(tmp_path)
    lock.release()
    HomeLock(tmp_path).release()


def test_the_newest_plan_and_every_declared_edge_survive(tmp_path):
    plans, edges = Plans(tmp_path), Edges(tmp_path)
    assert plans.load() is None
    plans.store(4, b"plan")
    first, second = Schema.of({"a": "int64"}), Schema.of({"a": "float64"})
    edges.store("gps", first)
    edges.store("gps", second)
    assert Plans(tmp_path).load() == (4, b"plan")
    assert Edges(tmp_path).all() == [("gps", first), ("gps", second)]
    assert Edges(tmp_path).names() == ["gps"]
