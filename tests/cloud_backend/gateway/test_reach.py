"""Links lead where a phone gets through, or say why it does not."""

from __future__ import annotations

import socket

import pytest

from cloud_backend.gateway.reach import machine_addresses, reach

HERE = ["192.168.1.20", "10.8.0.2"]


def test_a_gateway_on_every_address_is_reached_at_one_that_a_phone_can_use():
    way = reach("0.0.0.0", addresses=HERE)
    assert (way.host, way.others, way.warning) == ("192.168.1.20", ("10.8.0.2",), "")


def test_the_operators_word_counts_before_the_machines():
    way = reach("0.0.0.0", "10.8.0.2", addresses=HERE)
    assert (way.host, way.others, way.warning) == ("10.8.0.2", ("192.168.1.20",), "")
    assert reach("192.168.1.20", "gateway.example.org", addresses=HERE).host == "gateway.example.org"


@pytest.mark.parametrize("listens", ["127.0.0.1", "localhost", "::1"])
def test_a_gateway_that_only_this_machine_reaches_is_warned_about(listens):
    way = reach(listens, addresses=HERE)
    assert "only this machine reaches it" in way.warning
    assert "--host 192.168.1.20 or 0.0.0.0" in way.warning
    assert reach(listens, "192.168.1.20", addresses=HERE).warning  # saying another address opens no door


def test_a_link_to_the_phone_itself_is_warned_about():
    assert "look for the gateway on the phone" in reach("0.0.0.0", "127.0.0.1", addresses=HERE).warning


def test_a_machine_without_a_network_says_so():
    assert "no network address" in reach("0.0.0.0", addresses=[]).warning


def test_an_ipv6_address_is_written_as_links_write_it():
    assert reach("0.0.0.0", "fd00::2", addresses=HERE).host == "[fd00::2]"


def test_the_addresses_found_are_this_machines():
    for address in machine_addresses():
        assert not address.startswith("127.")
        with socket.socket() as probe:
            probe.bind((address, 0))  # raises for an address of another machine
