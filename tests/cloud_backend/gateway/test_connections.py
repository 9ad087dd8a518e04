from __future__ import annotations

import pytest

from cloud_backend.gateway.connections import FILES_KEPT, FILES_WANTED, Connections, address_group


class Connection:
    def __init__(self, name: str = "", *, busy: bool = False) -> None:
        self.name = name
        self.busy = busy
        self.dropped = False

    def is_busy(self) -> bool:
        return self.busy

    def drop(self) -> None:
        self.dropped = True


def opened(connections: Connections, count: int, address: str) -> list[Connection]:
    made = [Connection(f"{address} {number}") for number in range(count)]
    for connection in made:
        connections.opened(connection, address)
    return made


def test_strangers_of_one_address_push_out_their_own_oldest_and_nobody_elses():
    connections = Connections()
    neighbour = opened(connections, 1, "b")[0]
    crowd = opened(connections, connections.strangers_per_address_max + 10, "a")
    assert [connection.dropped for connection in crowd] == [True] * 10 + [False] * (len(crowd) - 10)
    assert not neighbour.dropped
    assert len(connections) == connections.strangers_per_address_max + 1


def test_fifty_thousand_devices_behind_one_address_are_fine():
    connections = Connections()
    fleet = []
    for number in range(50_000):
        connection = Connection(str(number))
        connections.opened(connection, "a")
        connections.used(connection, "a")
        fleet.append(connection)
    assert len(connections) == 50_000
    assert connections.strangers == 0
    assert not any(connection.dropped for connection in fleet)
    opened(connections, 10_000, "a")  # and strangers among them change nothing
    assert not any(connection.dropped for connection in fleet)


def test_strangers_of_many_addresses_are_limited_together_and_the_largest_crowd_pays():
    connections = Connections()
    crowd = opened(connections, connections.strangers_per_address_max, "a")
    single = [opened(connections, 1, f"single {number}")[0] for number in range(connections.strangers_max)]
    assert connections.strangers == connections.strangers_max
    assert sum(connection.dropped for connection in crowd) >= len(crowd) - 2
    assert sum(connection.dropped for connection in single) <= 2


def test_one_that_is_being_answered_is_not_dropped_while_another_waits():
    connections = Connections()
    busy = Connection("busy", busy=True)
    connections.opened(busy, "a")
    crowd = opened(connections, connections.strangers_per_address_max, "a")
    assert not busy.dropped
    assert crowd[0].dropped


@pytest.mark.parametrize("files", [64, 1024, 4096, FILES_WANTED])
def test_some_files_are_kept_for_the_log_however_few_there_are(files):
    connections = Connections(files)
    for number in range(files):
        connection = Connection()
        connections.opened(connection, f"address {number}")
        connections.used(connection, f"address {number}")
    assert len(connections) <= files - min(FILES_KEPT, files // 4)


def test_devices_beyond_all_room_push_out_the_one_idle_longest():
    connections = Connections(64)
    fleet = []
    for number in range(connections.connections_max):
        fleet.append(Connection(str(number)))
        connections.opened(fleet[-1], str(number))
        connections.used(fleet[-1], str(number))
    connections.used(fleet[0], "0")
    opened(connections, 1, "new")
    assert [connection.name for connection in fleet if connection.dropped] == ["1"]


def test_a_connection_is_forgotten_when_it_ends_in_whatever_order_things_happen():
    connections = Connections(64)
    first, second = opened(connections, 2, "a")
    connections.used(first, "a")
    for connection in (first, second):
        connections.closed(connection, "a")
        connections.closed(connection, "a")
        connections.used(connection, "a")  # an answer that came too late
    assert len(connections) == 0
    assert connections._strangers == {}


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not:an:address", "not:an:address"),
        ("", ""),
    ],
)
def test_a_network_of_ipv6_counts_as_one_address(address, counted):
    assert address_group(address) == counted
