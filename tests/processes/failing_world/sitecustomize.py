"""A disk that is full and a wall clock that jumps, for one process and without any right of root.

Python imports `sitecustomize` before anything else, so a process that is started with this directory on its path has
its calls replaced. What is wrong with the world stands in the directory named by FAILING_WORLD: `full`, while the
disk has no room, and `clock`, how many seconds the wall clock is off.
"""

import errno
import os
import stat
import time
from pathlib import Path
from types import SimpleNamespace

WORLD = Path(os.environ["FAILING_WORLD"])
FULL, CLOCK = WORLD / "full", WORLD / "clock"
WALL_NS, STATVFS, WRITE, PWRITE, PWRITEV = time.time_ns, os.statvfs, os.write, os.pwrite, os.pwritev


def wall_ns() -> int:
    return WALL_NS() + (int(CLOCK.read_text()) if CLOCK.exists() else 0) * 1_000_000_000


def need_room(file: int, end: int) -> None:
    """What lies on blocks that the file already has can be written; a new block cannot be had."""
    found = os.fstat(file)
    if FULL.exists() and stat.S_ISREG(found.st_mode) and end > found.st_blocks * 512:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def write(file: int, data: bytes) -> int:
    if stat.S_ISREG(os.fstat(file).st_mode):
        need_room(file, os.lseek(file, 0, os.SEEK_CUR) + len(data))
    return WRITE(file, data)


def pwrite(file: int, data: bytes, offset: int) -> int:
    need_room(file, offset + len(data))
    return PWRITE(file, data, offset)


def pwritev(file: int, parts: list[bytes], offset: int) -> int:
    need_room(file, offset + sum(map(len, parts)))
    return PWRITEV(file, parts, offset)


def statvfs(path: object) -> object:
    found = STATVFS(path)
    return SimpleNamespace(f_bavail=0, f_frsize=found.f_frsize) if FULL.exists() else found


time.time_ns, time.time = wall_ns, lambda: wall_ns() / 1e9
os.write, os.pwrite, os.pwritev, os.statvfs = write, pwrite, pwritev, statvfs
