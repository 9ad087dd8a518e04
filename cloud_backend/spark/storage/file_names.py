"""What the name of a file in a store says: who wrote it, which attempt, for which slots, and the digest of its content.

    VERTEX.RANGE.eEPOCH.gTERM.tDRIVER[.pLO-HI | .OUTPUT][.atOFFSET+LENGTH].ATTEMPT.DIGEST.SUFFIX

The manifest names files and says all else about them. Three things are only in the name: which driver's term it was
written in, so that collection spares a later driver's files; for which slots a state was written, which is more than a
range owns after a split; and the attempt, by which a vertex that merges by arrival takes its inputs. Where a task's
files are one object, the name of each also says where in it; that object is
VERTEX.RANGE.eEPOCH.gTERM.tDRIVER.ATTEMPT.bundle.
"""

from __future__ import annotations

import re

from cloud_backend.spark.slots import Range


def file_name(prefix: str, attempt: str, digest: str, suffix: str) -> str:
    return f"{prefix}.{attempt}.{digest}.{suffix}"


def digest_in(name: str) -> str:
    return name.split(".")[-2]


def attempt_in(name: str) -> str:
    return name.split(".")[-3]


def driver_term(name: str) -> int:
    """The term of the driver whose task wrote it; 0 where the name does not say."""
    terms = [part[1:] for part in name.split(".") if part[0] == "t" and part[1:].isdigit()]
    return int(terms[0]) if terms else 0


def for_slots(prefix: str, range_: Range) -> str:
    """The prefix of a file that holds state of these slots."""
    return f"{prefix}.p{range_.lo}-{range_.hi}"


def slots_in(name: str) -> tuple[int, int] | None:
    """The slots that a file, or its prefix, is for; None where the name does not say."""
    for part in name.split("."):
        lo, dash, hi = part[1:].partition("-")
        if part.startswith("p") and dash and lo.isdigit() and hi.isdigit():
            return int(lo), int(hi)
    return None


def piece_suffix(part: int, parts: int) -> str:
    """The suffix of a delta that is also one part of a base."""
    return f"{part}of{parts}"


def piece_in(name: str) -> tuple[int, int] | None:
    """Which piece of a base a file is, and of how many; None for one that is none."""
    part, of, parts = name.rpartition(".")[2].partition("of")
    return (int(part), int(parts)) if of and part.isdigit() and parts.isdigit() else None


_OF_TASK = 5  # parts of a name before those that tell a task's files apart
_PLACE = re.compile(r"at([0-9]{1,15})\+([0-9]{1,15})")


def bundle_name(prefix: str, attempt: str) -> str:
    """The object that holds all files of a task."""
    return f"{prefix}.{attempt}.bundle"


def in_bundle(prefix: str, offset: int, length: int) -> str:
    """The prefix of a file that is a part of a bundle."""
    return f"{prefix}.at{offset}+{length}"


def place_in_bundle(name: str) -> tuple[int, int] | None:
    """Where a file lies in its bundle, offset and length; None for one that is an object of its own."""
    parts = name.split(".")
    found = _PLACE.fullmatch(parts[-4]) if len(parts) > _OF_TASK + 3 else None
    return (int(found[1]), int(found[2])) if found else None


def object_name(name: str) -> str:
    """The object that holds a file: its bundle, or itself."""
    if place_in_bundle(name) is None:
        return name
    return bundle_name(".".join(name.split(".")[:_OF_TASK]), attempt_in(name))
