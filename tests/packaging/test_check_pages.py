"""The check of 16 KB pages, on libraries made here."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.packaging.build_steps import load
from tests.packaging.java import ROOT

pages = load("check_pages", ROOT / "packaging" / "android" / "check_pages.py")


def library(*alignments: int) -> bytes:
    """A 64-bit ELF header with a loaded segment per alignment, and one that is not loaded."""
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", header, 32, 64)
    struct.pack_into("<HH", header, 54, 56, len(alignments) + 1)
    segments = [struct.pack("<IIQQQQQQ", 1, 0, 0, 0, 0, 0, 0, alignment) for alignment in alignments]
    return bytes(header) + b"".join(segments) + struct.pack("<IIQQQQQQ", 2, 0, 0, 0, 0, 0, 0, 8)


def bundle(*libraries: tuple[str, bytes]) -> bytes:
    """Python's packages, as python-for-android packs them."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", format=tarfile.USTAR_FORMAT) as archive:
        for name, body in (("_python_bundle/stdlib.zip", b"PK"), *libraries):
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
    return packed.getvalue()


NUMPY = "_python_bundle/site-packages/numpy/_core/_multiarray_umath.cpython-314-aarch64-linux-android.so"


@pytest.mark.parametrize(
    ("files", "failed"),
    [
        ({"lib/arm64-v8a/liba.so": library(0x4000, 0x10000)}, 0),
        ({"lib/arm64-v8a/liba.so": library(0x4000), "lib/arm64-v8a/libb.so": library(0x4000, 0x1000)}, 1),
        ({"lib/arm64-v8a/libpybundle.so": bundle()}, 1),  # nothing looked at shows nothing
        ({"lib/arm64-v8a/libpybundle.so": b"damaged"}, 1),
        ({"lib/arm64-v8a/libpybundle.so": bundle((NUMPY, library(0x4000)))}, 0),
        (
            {
                "lib/arm64-v8a/liba.so": library(0x4000),
                "lib/arm64-v8a/libpybundle.so": bundle((NUMPY, library(0x1000))),
            },
            1,
        ),
    ],
)
def test_an_apk_fails_when_a_library_has_small_pages(tmp_path: Path, files, failed, capsys):
    apk = tmp_path / "resurge.apk"
    with zipfile.ZipFile(apk, "w") as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    assert pages.main([str(apk)]) == failed
    assert "libraries" in capsys.readouterr().out
