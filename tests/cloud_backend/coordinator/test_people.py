"""People and the audit log on disk."""

from __future__ import annotations

import pytest

from cloud_backend.coordinator.people import People
from shared.errors import UsageError


@pytest.fixture
def people(where):
    made = People(where("accounts.sqlite"))
    yield made
    made.close()


def test_no_secret_is_in_the_file(tmp_path):
    people = People(tmp_path / "accounts.sqlite")
    people.put("ada", "viewer", 1, "a very long password")
    link = people.new_link(1)
    session = people.open_session(people.check_password("ada", "a very long password"), 1)
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for secret in ("a very long password", link, session):
        assert secret.encode() not in stored
    assert (tmp_path / "accounts.sqlite").stat().st_mode & 0o077 == 0
    people.close()


@pytest.mark.parametrize("name", ["", "A", "a b", "-a", "a" * 41, "ä", "a\n", "<b>", "a/b", "../a"])
def test_a_name_is_short_and_plain(people, name):
    with pytest.raises(UsageError, match="account-name"):
        people.put(name, "viewer", 1)


def test_a_role_is_one_of_three_and_a_password_long_enough(people):
    with pytest.raises(UsageError, match="account-role"):
        people.put("ada", "king", 1)
    with pytest.raises(UsageError, match="account-password"):
        people.put("ada", "viewer", 1, "short")


def test_a_person_without_a_password_cannot_sign_in_with_none(people):
    people.put("ada", "admin", 1)
    assert people.check_password("ada", "") is None
    assert people.needs_admin()
