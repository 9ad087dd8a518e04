"""Is every library of an APK aligned for phones with 16 KB pages? Android 15 and later refuse those that are not.

python packaging/android/check_pages.py bin/*.apk
"""

from __future__ import annotations

import io
import struct
import sys
import tarfile
import zipfile
from collections.abc import Iterator

PAGE = 16 * 1024
LOAD = 1


def least_alignment(library: bytes) -> int | None:
    """The smallest alignment of the segments that are loaded; None for what is no 64-bit ELF file."""
    if library[:4] != b"\x7fELF" or library[4] != 2:
        return None
    order = "<" if library[5] == 1 else ">"
    (offset,) = struct.unpack_from(f"{order}Q", library, 32)
    size, count = struct.unpack_from(f"{order}HH", library, 54)
    alignments = []
    for number in range(count):
        header = struct.unpack_from(f"{order}IIQQQQQQ", library, offset + number * size)
        if header[0] == LOAD:
            alignments.append(header[7])
    return min(alignments, default=None)


def libraries(apk: str) -> Iterator[tuple[str, bytes]]:
    """Every library, also those of Python's packages: they are in `libpybundle.so`, an archive despite its name."""
    with zipfile.ZipFile(apk) as archive:
        for name in archive.namelist():
            if not name.endswith(".so"):
                continue
            body = archive.read(name)
            if not name.endswith("/libpybundle.so"):
                yield name, body
                continue
            with tarfile.open(fileobj=io.BytesIO(body), mode="r:*") as bundle:
                for member in bundle:
                    inside = bundle.extractfile(member) if member.isfile() and ".so" in member.name else None
                    if inside is not None:
                        yield f"{name}/{member.name}", inside.read()


def unaligned(apk: str) -> tuple[list[str], int]:
    """The libraries that a 16 KB phone would refuse, and how many were looked at."""
    wrong, seen = [], 0
    for name, body in libraries(apk):
        alignment = least_alignment(body)
        if alignment is not None:
            seen += 1
            if alignment < PAGE:
                wrong.append(f"{name}: {alignment} bytes")
    return wrong, seen


def main(apks: list[str]) -> int:
    failed = not apks
    for apk in apks:
        try:
            wrong, seen = unaligned(apk)
        except tarfile.TarError as error:
            wrong, seen = [f"libpybundle.so cannot be read: {error}"], 0
        print(f"{apk}: {seen} libraries, {len(wrong)} not aligned to {PAGE} bytes", *wrong, sep="\n  ")  # noqa: T201
        failed |= bool(wrong) or not seen
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
