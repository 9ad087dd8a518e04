"""Opening a home's spool, and beginning a new one when the old has lost its memory.

The incarnation in the spool names every element in it, so the spool's own counts, not the newest enrolment's: a home
that is paired again goes on with its numbers. Only a spool that is behind (its home was restored from an older
copy, so it would give used numbers to new elements) must end: it is set aside, still readable, and the next
enrolment's incarnation starts a new one.

Spool and snapshots are encrypted under `spool.key` unless the settings said otherwise when the spool was made: the
file is there exactly when they are. It protects a stolen disk image or copy of `spool/` alone. Where the platform has
no key store the key lies beside them, readable by its owner only, and whoever can read the whole home can read all.
"""

from __future__ import annotations

from pathlib import Path

from mobile_app.home.files import write_durably
from mobile_app.settings import Gateway, Settings
from mobile_app.spool.cipher import KEY_BYTES, SpoolCipher, new_key
from shared.errors import DamagedData
from shared.identity import DeviceId
from shared.spool.disk import PosixDisk
from shared.spool.evict import Evict
from shared.spool.journal import INDEX_FILES
from shared.spool.ring import Spool

SPOOL, STATE = "spool", "state"
SPOOL_KEY_FILE = "spool.key"
BEHIND_FILE = "spool-behind"
BEHIND = frozenset({"sync-sequence-behind", "sync-overlap"})  # refusals that only a spool without memory gets
FIRST_INCARNATION = 1  # what the first enrolment of a key gets, so a spool made before it can be sent as it is


def open_spool(home: Path, device: DeviceId, settings: Settings, gateway: Gateway | None) -> Spool:
    """The spool of this home, made when there is none."""
    incarnation = FIRST_INCARNATION if gateway is None else gateway.incarnation
    if INDEX_FILES[0] in PosixDisk(home / SPOOL).names():  # the index makes it a spool: without it, it is half made
        spool = Spool.open(PosixDisk(home / SPOOL), spool_cipher(home))
        if not (home / BEHIND_FILE).exists() or incarnation <= spool.incarnation:
            return spool
        spool.close()
        _set_aside(home, spool.incarnation)
    (home / BEHIND_FILE).unlink(missing_ok=True)  # there is no spool that it could speak of
    _prepare_key(home, encrypt=settings.encrypt)
    return Spool.create(
        PosixDisk(home / SPOOL),
        capacity_bytes=settings.spool_mb << 20,
        device=device,
        incarnation=incarnation,
        evict=Evict.of_word(settings.evict),
        cipher=spool_cipher(home),
    )


def spool_cipher(home: Path) -> SpoolCipher | None:
    """What this home's spool and snapshots are encrypted with; None: they lie in the clear."""
    path = home / SPOOL_KEY_FILE
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(key) != KEY_BYTES:
        raise DamagedData(
            f"the spool's key in {str(path)!r} has {len(key)} bytes, expected {KEY_BYTES}; restore it from a copy",
            code="key-damaged",
        )
    return SpoolCipher(key)


def _prepare_key(home: Path, *, encrypt: bool) -> None:
    """Before a spool is made: a durable key, or none. What a half made spool left is used again or removed."""
    path = home / SPOOL_KEY_FILE
    if not encrypt:
        path.unlink(missing_ok=True)
    elif not path.exists():
        write_durably(path, new_key())


def note_behind(home: Path) -> None:
    """The gateway has numbers this spool never gave: the next enrolment begins a new spool."""
    if not (home / BEHIND_FILE).exists():
        write_durably(home / BEHIND_FILE, b"pair this device again\n")


def _set_aside(home: Path, incarnation: int) -> None:
    """Keep the old files under other names, the spool last: a kill before that repeats this. The key is copied."""
    if (home / SPOOL_KEY_FILE).exists():
        write_durably(home / f"{SPOOL_KEY_FILE}-behind-{incarnation}", (home / SPOOL_KEY_FILE).read_bytes())
    for name in (STATE, SPOOL):
        if (home / name).exists():
            (home / name).rename(home / f"{name}-behind-{incarnation}")
    PosixDisk(home).sync()
