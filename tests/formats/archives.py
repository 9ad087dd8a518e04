"""Frozen files lie in archives; this unpacks one, whatever Python runs it."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(path: Path, into: Path) -> None:
    with tarfile.open(path) as archive:
        # Python 3.11.3 and older have no filters and need none; later ones want to be told of one.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(into)
