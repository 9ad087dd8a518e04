"""Zipped exports, as Sensor Logger and phyphox share them: their recordings unpacked into a directory of our own.

An archive says how large it is before a byte of it is read, so it is judged by that first: how many files, how large,
how much larger than packed. Then no more is read than it said. A name that leads anywhere but below (`..`, an
absolute path, a link) is no recording of anybody; the whole archive is refused, since whoever made it meant harm.
"""

from __future__ import annotations

import errno
import stat
import zipfile
import zlib
from pathlib import Path, PurePath, PurePosixPath

from shared.errors import UsageError

SUFFIXES = frozenset((".plt", ".gpx", ".csv"))
MEMBERS_MAX = 50_000  # all of GeoLife are 18,739 files
MEMBER_BYTES_MAX = 256 * 1024 * 1024
ARCHIVE_BYTES_MAX = 2 * 1024 * 1024 * 1024
RATIO_MAX = 100  # tables of readings pack five- to twentyfold
SMALL_BYTES = 1024 * 1024  # below that a ratio says little
CHUNK_BYTES = 1024 * 1024
NAME_BYTES_MAX, NAME_SHOWN = 200, 80
ENCRYPTED = 0x1


def unpack(archive: Path, into: Path) -> None:
    """Write an archive's recordings below `into`, under the names they have there. UsageError for any other archive."""
    try:
        with zipfile.ZipFile(archive) as packed:
            members = packed.infolist()
            if len(members) > MEMBERS_MAX:
                raise _refused(archive, f"{len(members):,} files; at most {MEMBERS_MAX:,}")
            total = 0
            for member in members:
                _check(archive, member)
                total += member.file_size
                if total > ARCHIVE_BYTES_MAX:
                    raise _refused(archive, f"more than {ARCHIVE_BYTES_MAX:,} bytes unpacked; cut it into parts")
            for member in members:
                path = PurePosixPath(member.filename)
                if not member.is_dir() and path.suffix.lower() in SUFFIXES and not is_hidden(path):
                    _write(archive, packed, member, into / path)
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise _refused(archive, f"one name for a file and for a folder ({error.filename})") from error
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        raise _unreadable(archive, error) from error
    except OSError as error:  # a member that begins before the archive does; anything else is the disk's
        if error.errno != errno.EINVAL:
            raise
        raise _unreadable(archive, error) from error


def is_hidden(path: PurePath) -> bool:
    """macOS puts beside each file one of its own, `._NAME`, in archives below `__MACOSX`: no recordings."""
    return any(part.startswith(".") or part == "__MACOSX" for part in path.parts)


def _check(archive: Path, member: zipfile.ZipInfo) -> None:
    # zipfile cuts a name at NUL and turns the system's separators into slashes: what was written is in orig_filename.
    name, path = member.orig_filename, PurePosixPath(member.filename)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or not path.parts:
        raise _refused(archive, f"a file named {name[:NAME_SHOWN]!r}, which leads out of it")
    if any(len(part.encode()) > NAME_BYTES_MAX for part in path.parts):
        raise _refused(archive, f"a name of more than {NAME_BYTES_MAX} bytes, {name[:NAME_SHOWN]!r}...")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise _refused(archive, f"a link, {name!r}; only files are read")
    if member.flag_bits & ENCRYPTED:
        raise _refused(archive, f"{name!r} under a password; unpack it yourself")
    if member.file_size > MEMBER_BYTES_MAX:
        raise _refused(archive, f"{name!r} of {member.file_size:,} bytes; at most {MEMBER_BYTES_MAX:,}")
    if member.file_size > SMALL_BYTES and member.file_size > RATIO_MAX * member.compress_size:
        raise _refused(
            archive,
            f"{name!r}, {member.file_size:,} bytes packed into {member.compress_size:,}; no recording packs that well",
        )


def _write(archive: Path, packed: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    left = member.file_size
    with packed.open(member) as source, path.open("wb") as out:
        while chunk := source.read(CHUNK_BYTES):
            left -= len(chunk)
            if left < 0:
                raise _refused(archive, f"{member.orig_filename!r}, which is longer than the archive says")
            out.write(chunk)


def _unreadable(archive: Path, error: Exception) -> UsageError:
    return _refused(archive, f"nothing that can be read: it is damaged, or packed in a way nobody here reads ({error})")


def _refused(archive: Path, what: str) -> UsageError:
    return UsageError(f"archive {archive.name!r} holds {what}", code="example-archive")
