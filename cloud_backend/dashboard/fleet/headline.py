"""Is everything all right, and if not, what: the two sentences at the top of the overview."""

from __future__ import annotations

from collections.abc import Sequence

from cloud_backend.dashboard.fleet.crowd import Crowd

NAMED = 3  # of more only two have their names said


def headline(crowd: Crowd, quarantined: int = 0, alerts: int = 0) -> tuple[str, str]:
    """Is everything all right, and if not, what: a sentence, and one that explains it. `quarantined` elements were
    delivered, and Spark could not use them; `alerts` are open beside what is said of contact."""
    offline, unseen, total = crowd.offline, crowd.unseen, crowd.account
    if not len(crowd):
        return "No phone is paired yet", "Everything is ready for the first one."
    said = []
    if offline:
        said.append(f"{_listed(crowd.first_offline(NAMED), offline)} {'is' if offline == 1 else 'are'} offline")
    if unseen:
        said.append(f"{_listed(crowd.first_unseen(NAMED), unseen)} {'was' if unseen == 1 else 'were'} not seen yet")
    first = ", ".join(said) or _all_connected(crowd)
    if alerts:
        first += f"{' and' if said else ', but'} {'an alert is' if alerts == 1 else f'{alerts} alerts are'} open"
    if total.ledgered:
        second = f"{total.ledgered:,} readings had to be given up; the ledger says which and why."
    elif quarantined:
        second = f"Nothing is lost, but Spark could not use {quarantined:,} readings; the ledger says which and why."
    elif offline:
        second = _known_of_silent(total.spooled, crowd.unheard)
    elif total.spooled:
        second = f"Nothing is lost: {total.spooled:,} readings wait on the phones, everything else is in the log."
    else:
        second = "Nothing is lost: every reading is in the log."
    return first, second


def _all_connected(crowd: Crowd) -> str:
    if len(crowd) == 1:
        return f"{crowd.concerning(1)[0].name} is connected"
    return f"{'Both' if len(crowd) == 2 else f'All {len(crowd)}'} phones are connected"


def _known_of_silent(spooled: int, unheard: int) -> str:
    """Nobody knows what a silent phone does. What is known is what it held when it was last heard."""
    if spooled:
        held = f"When last heard, the phones held {spooled:,} readings; everything else is in the log."
    else:
        held = "When last heard, the phones had delivered every reading."
    return f"{held} If they go on, they hold about {unheard:,} more by now." if unheard else held


def _listed(names: Sequence[str], count: int) -> str:
    if count > NAMED:
        return f"{', '.join(names[:2])} and {count - 2} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
