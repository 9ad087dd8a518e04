"""Everything durable that a node opens in its home, and closes when it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mobile_app.condition.health import Health
from mobile_app.home.clock import EventClock, boot_id, open_clock, wall_time_us
from mobile_app.home.files import write_durably
from mobile_app.home.keys import Keys, load_keys
from mobile_app.links.first_contact import FirstContact
from mobile_app.node.plans import Edges, Plans
from mobile_app.node.results import Results
from mobile_app.recordings.store import Recordings
from mobile_app.settings import Gateway, Settings
from mobile_app.spool.opening import STATE, open_spool, spool_cipher
from mobile_app.spool.snapshots import Snapshots
from shared.identity import DeviceId, device_id
from shared.spool.disk import PosixDisk
from shared.spool.ring import Spool

UNPAIRED_FILE = "ran-unpaired"


@dataclass(frozen=True, slots=True)
class Stores:
    """The files of one home, open. `clock` is here because its anchor is one of them."""

    device: DeviceId
    keys: Keys
    spool: Spool
    encrypted: bool
    results: Results
    edges: Edges
    plans: Plans
    snapshots: Snapshots
    clock: EventClock
    recordings: Recordings
    health: Health
    contact: FirstContact
    first_start: bool  # no plan has read a sensor in this home yet
    ran_unpaired: bool  # a node ran here before there was a gateway

    def close(self) -> None:
        """Let go of the files, without writing: as safe as a kill."""
        self.recordings.leave()
        self.health.close()
        self.results.close()


def open_stores(
    home: Path, settings: Settings, gateway: Gateway | None, *, speed: float, clock: EventClock | None = None
) -> Stores:
    keys = load_keys(home, gateway.key if gateway else b"")
    device = device_id(keys.public_key)
    spool = open_spool(home, device, settings, gateway)
    cipher = spool_cipher(home)
    snapshots = Snapshots(PosixDisk(home / STATE), cipher)
    newest = snapshots.newest()
    if gateway is None and not (home / UNPAIRED_FILE).exists():
        write_durably(home / UNPAIRED_FILE, b"a node ran here before there was a gateway\n")
    not_before_us = None if newest is None else newest.read_until_us
    health = Health(home, wall_us=wall_time_us, boot=boot_id())
    health.began()
    return Stores(
        device=device,
        keys=keys,
        spool=spool,
        encrypted=cipher is not None,
        results=Results(home),
        edges=Edges(home),
        plans=Plans(home),
        snapshots=snapshots,
        clock=clock or open_clock(home, speed=speed, not_before_us=not_before_us),
        recordings=Recordings(home, device, cipher, loss_window_s=settings.loss_window_s),
        health=health,
        contact=FirstContact(home / STATE, {edge: spool.head(edge) for edge in spool.edges()}),
        first_start=newest is None,
        ran_unpaired=(home / UNPAIRED_FILE).exists(),
    )
