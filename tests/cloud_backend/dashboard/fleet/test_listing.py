"""Lists of devices that are kept: after any changes they are what listing anew gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cloud_backend.dashboard.fleet.device import Device
from cloud_backend.dashboard.fleet.listing import COORDINATING, LOCATED, SHOWN, App, Listing, kinds_of
from cloud_backend.dashboard.fleet.phones import Phone
from cloud_backend.dashboard.history.trails import Point
from shared.wire.fleet_status import FleetStatus
from shared.wire.status import NO_PLAN, DeviceStatus


@st.composite
def devices(draw) -> Device:
    number, held, lost = draw(st.integers(0, 9)), draw(st.integers(0, 1)), draw(st.integers(0, 1))
    since = draw(st.sampled_from((None, 5)))
    connected = since is not None and draw(st.booleans())
    name = draw(st.sampled_from(("Tram 1", "tram 2", "bus")))
    phone = Phone(f"{number:02x}", name, "", connected, since, held, 0, 0, lost, 0, (), None)
    status = DeviceStatus(fleet=FleetStatus(1) if draw(st.booleans()) else None)
    position = Point(1, 2.0, 3.0) if draw(st.booleans()) else None
    return Device(phone, 1, 1, draw(st.sampled_from((None, None, 7))), status, position)


@given(st.lists(devices(), max_size=50), st.sampled_from(sorted(SHOWN)), st.sampled_from(("", "tram", "0", "none")))
def test_after_any_changes_it_lists_what_listing_anew_does(said: list[Device], kind: str, query: str):
    listing = Listing()
    for each in said:
        listing.put(each)
    known = {each.phone.id: each for each in said}
    ordered = sorted(known.values(), key=lambda each: (each.phone.name, each.phone.id))
    assert listing.counts() == {kind: sum(kind in kinds_of(each) for each in ordered) for kind in SHOWN}
    expected = [
        each
        for each in ordered
        if kind in kinds_of(each) and (query in each.phone.name.casefold() or each.phone.id.startswith(query))
    ]
    assert listing.devices(listing.matching(kind, query)) == expected
    assert listing.has(LOCATED) == any(each.position and each.revoked_us is None for each in ordered)
    assert listing.has(COORDINATING) == any(each.status.fleet and each.revoked_us is None for each in ordered)
    assert all(listing.find(device) == each for device, each in known.items())


def test_a_revoked_device_is_in_the_list_of_those_only():
    phone = Phone("aa", "tram", "", True, 5, 3, 0, 0, 2, 0, (), None)
    assert kinds_of(Device(phone, 1, 1, 7, DeviceStatus(), None)) == {"revoked"}
    kinds = kinds_of(Device(phone, 1, 1, None, DeviceStatus(), None))
    assert kinds == {"all", "connected", "waiting", "ledgered", App(None, NO_PLAN)}
