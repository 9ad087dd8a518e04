"""Sums over all devices that are kept: after any changes they are what counting anew gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cloud_backend.dashboard.fleet.crowd import Crowd
from cloud_backend.dashboard.fleet.phones import Phone


@st.composite
def changes(draw) -> Phone | str:
    """A device as it is now, or the id of one that goes."""
    device = f"{draw(st.integers(0, 9)):02x}"
    if draw(st.integers(0, 4)) == 0:
        return device
    counts = [draw(st.integers(0, 3)) for _ in range(4)]
    return Phone(device, draw(st.sampled_from("abc")), "", draw(st.booleans()), 1, *counts, 0, (), None)


@given(st.lists(changes(), max_size=60), st.integers(0, 12))
def test_after_any_changes_it_says_what_counting_anew_says(said: list[Phone | str], shown: int):
    crowd, known = Crowd(), {}
    for each in said:
        if isinstance(each, str):
            crowd.remove(each)
            known.pop(each, None)
        else:
            crowd.put(each)
            known[each.id] = each
    phones = list(known.values())
    offline = sorted((phone.name, phone.id) for phone in phones if not phone.connected)
    assert (len(crowd), crowd.connected, crowd.offline) == (len(phones), len(phones) - len(offline), len(offline))
    assert crowd.first_offline(3) == [name for name, _ in offline[:3]]
    assert crowd.unheard == sum(phone.unheard for phone in phones)
    account = crowd.account
    assert account.delivered == sum(phone.delivered for phone in phones)
    assert account.spooled == sum(phone.buffered for phone in phones)
    assert account.ledgered == sum(phone.ledgered for phone in phones)
    if len(phones) > shown:
        order = sorted(phones, key=lambda each: (each.connected, -each.ledgered, -each.buffered, each.name, each.id))
        assert list(crowd.concerning(shown)) == order[:shown]
    else:
        assert [phone.name for phone in crowd.concerning(shown)] == sorted(phone.name for phone in phones)
