"""Where a stage's tests keep their files: in memory, where there is plenty of it. A sync costs nothing there.

Nothing that the suite shows is lost by it: a killed process leaves the page cache behind on a disk too, and what a
machine that stops leaves behind is shown by crash images. `make soak` writes to the disk.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")  # Linux keeps it in memory
FREE_MIN = 4 << 30
AVAILABLE_MIN = 8 << 30  # processes of the tests need some too


def available(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Bytes that processes could still have; zero where nobody says."""
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)


def has_room(directory: Path) -> bool:
    """Whether tests may write there and start what they write; containers often allow neither."""
    if not os.access(directory, os.W_OK | os.X_OK):
        return False
    system = os.statvfs(directory)
    return not system.f_flag & os.ST_NOEXEC and system.f_bavail * system.f_frsize >= FREE_MIN


@contextmanager
def scratch() -> Iterator[dict[str, str]]:
    """What to add to the environment of a stage. Whoever has set TMPDIR keeps it."""
    if "TMPDIR" in os.environ or not has_room(MEMORY) or available() < AVAILABLE_MIN:
        yield {}
        return
    directory = tempfile.mkdtemp(prefix="resurge-", dir=MEMORY)
    Path(directory).chmod(0o711)  # a database's server is another user than root
    try:
        yield {"TMPDIR": directory}
    finally:
        shutil.rmtree(directory, ignore_errors=True)
