"""What contracts keep on a phone: cut off, killed and full, under every policy, with the production machines."""

from __future__ import annotations

import pytest

from shared.identity import edge_id
from shared.spool.evict import Evict
from tests.claims import Claim
from tests.simulation.faults import Fault
from tests.simulation.phone import PhoneSettings
from tests.simulation.world import Settings, World

pytestmark = pytest.mark.sim
# Cut off for a minute and killed twice in it: more than 16 KB come.
FAULTS = (Fault(5.0, "cut", 0, 70.0), Fault(30.0, "phone-crash", 0, 3.0), Fault(55.0, "phone-crash-at-write", 0, 7))


def ended(seed: int, evict: Evict, promises: tuple[float, ...]) -> list[tuple[int, int]]:
    """(numbered, given up) of each edge, when everything healed and no checker complained."""
    phone = PhoneSettings(
        edges=2, every_s=0.7, capacity_bytes=16_384, evict=evict, payload_bytes_max=300, promises=promises
    )  # fmt: skip
    world = World(Settings(seed, (phone,), 90.0, faults=FAULTS))
    outcome = world.run()
    assert outcome.violation is None
    spool = world.phones[0].spool
    return [(spool.head(edge_id(name)), spool.ledger.elements(edge_id(name))) for name in world.phones[0].edge_names]


@pytest.mark.covers("EC-10")
@pytest.mark.parametrize("evict", [Evict.OLDEST, Evict.QUERY_AWARE, Evict.QUERY_AWARE_BYTES])
def test_a_lossless_edge_loses_nothing_while_another_edge_can_make_room(evict: Evict, claim: Claim) -> None:
    worlds = unpromised = lost = 0
    for seed in range(8):
        (_, dear), (_, cheap) = ended(seed, evict, (1.0, 0.0))
        assert dear == 0
        worlds, lost = worlds + 1, lost + cheap
        unpromised += ended(seed, evict, ())[0][1]
    assert unpromised > 0, "without the promise the same faults would have taken some of it"
    assert lost > 0
    claim(f"{worlds} worlds cut off and killed: 0 elements of the lossless edge lost, {unpromised} without its promise")


@pytest.mark.covers("EC-10")
def test_limited_loss_is_kept_to_while_room_can_be_made_and_all_loss_is_declared(claim: Claim) -> None:
    lost = 0
    for seed in range(8):
        (numbered, limited), (_, cheap) = ended(seed, Evict.OLDEST, (0.7, 0.0))
        assert limited <= 0.3 * numbered
        lost += cheap + limited
    assert lost > 0
    claim(f"{lost} elements given up within the promises")


def test_only_promised_edges_still_give_up_as_the_policy_says_and_in_the_ledger(claim: Claim) -> None:
    """There is nothing else to give up and the policy is not `block`: the promise is broken, in the open."""
    lost = sum(given_up for seed in range(3) for _, given_up in ended(seed, Evict.QUERY_AWARE, (1.0, 1.0)))
    assert lost > 0
    claim(f"{lost} elements of lossless edges declared lost")


def test_block_gives_nothing_up_whatever_is_promised() -> None:
    for seed in range(3):
        assert [given_up for _, given_up in ended(seed, Evict.BLOCK, (1.0, 0.0))] == [0, 0]
