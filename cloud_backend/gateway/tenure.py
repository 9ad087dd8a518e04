"""Which process may be the gateway of a home: the one that has its lease and its lock.

The lock is what keeps two appenders apart, and it is let go when a process ends, however that happens. The lease is how
a standby knows that the other one stopped working, and how a gateway that was paused for longer finds out that it
should end. A standby takes the lease first and the lock second, so there are never two at work. One that is paused and
does not wake up cannot end itself: after a while the standby kills it, if it runs on this machine. All that it has
answered for is on the disk.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import signal
import socket
import time
from pathlib import Path

from cloud_backend.coordinator.fleets import FILE, FleetStore
from cloud_backend.gateway.address_file import ADDRESS_FILE, read_address
from cloud_backend.lease import Lease
from shared.errors import UsageError

LEASE_S = 10.0
ENDS_S = 30.0  # that a gateway which lost its lease has to end by itself
LOCK_FILE = "lock"
LOCKS = Path("/proc/locks")
_log = logging.getLogger("resurge.gateway")


class Tenure:
    def __init__(self, home: Path) -> None:
        self._home = home
        self._store = FleetStore(home / FILE)
        owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._lease = Lease(self._store, owner=owner, duration_s=LEASE_S, now=time.time)
        self._held_since: float | None = None  # this process has the lease, and not the lock

    def may_begin(self) -> bool:
        """Take the lease once it has run out, and keep it until the home is free, too."""
        if not self._lease.acquire():
            self._held_since = None
            return False
        handle = take_lock(self._home)
        if handle is None:
            now = time.monotonic()
            self._held_since = now if self._held_since is None else self._held_since
            if now - self._held_since >= ENDS_S:
                end_paused(self._home)
            return False
        os.close(handle)
        self._lease.release()  # the gateway that begins now takes its own
        return True

    def begin(self) -> None:
        """This process has the lock, so whoever held the lease is gone or waits for this one to end."""
        self._lease.take()

    def goes_on(self) -> bool:
        """Renew it; False where another process has taken it meanwhile."""
        return self._lease.acquire()

    def end(self) -> None:
        self._lease.release()
        self._store.close()

    def close(self) -> None:
        self._store.close()


def end_paused(home: Path) -> bool:
    """Kill the gateway of a home that has lost its lease and does not end. False where it is not known to run here:
    then the standby goes on waiting."""
    pid = read_address(home).get("pid") if (home / ADDRESS_FILE).exists() else None
    if not isinstance(pid, int) or pid == os.getpid() or not _has_lock(pid, home / LOCK_FILE):
        return False
    _log.warning("the gateway of %s lost its lease and does not end; killing process %d", home, pid)
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError as error:  # it has ended meanwhile, or is somebody else's
        _log.warning("it cannot be killed: %s", error.strerror)
        return False
    return True


def _has_lock(pid: int, lock: Path) -> bool:
    """Whether this process holds the lock of a file, as the kernel says; a pid alone may be another process by now."""
    try:
        locks, inode = LOCKS.read_text().splitlines(), lock.stat().st_ino
    except OSError:
        return False
    held = [line.split() for line in locks]
    return any(
        len(each) >= 6 and each[1] == "FLOCK" and each[4] == str(pid) and each[5].rpartition(":")[2] == str(inode)
        for each in held
    )


def take_lock(home: Path) -> int | None:
    """The home's lock, for as long as this stays open; None while another process has it."""
    handle = os.open(home / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def require_lock(home: Path) -> int:
    """Hold the home for this process: two appenders would overwrite each other's records."""
    handle = take_lock(home)
    if handle is None:
        raise UsageError(
            f"another gateway is running on {str(home)!r}; stop it, choose another --home, or wait with --standby",
            code="gateway-home-busy",
        )
    return handle
