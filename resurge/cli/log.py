"""`resurge log`: check the ingest log, and repair it from its copies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from resurge.cli.gateway_api import DEFAULT_HOME, AsJson, Home

if TYPE_CHECKING:
    from cloud_backend.log.signed_runs import IsSigned

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


@app.callback()
def _log() -> None:
    """Check the ingest log."""


def signatures_of(home: Path) -> IsSigned:
    """Checks a device's signature with the key it enrolled in this home; None for one that is not in its roster."""
    from cloud_backend.coordinator.roster import Roster
    from cloud_backend.database import in_home, is_there
    from cloud_backend.gateway.keys import is_signed_by
    from shared.identity import DeviceId

    keys: dict[DeviceId, bytes | None] = {}
    where = in_home(home, "roster.sqlite")
    roster = Roster(where) if is_there(where) else None

    def is_signed(device: DeviceId, message: bytes, signature: bytes) -> bool | None:
        if device not in keys:
            enrolment = None if roster is None else roster.find(device)
            keys[device] = None if enrolment is None else enrolment.public_key
        key = keys[device]
        return None if key is None else is_signed_by(key, message, signature)

    return is_signed


def gateway_signed(home: Path) -> Callable[[bytes, bytes], bool]:
    """Checks a signature of the gateway of this home."""
    from cloud_backend.gateway.keys import is_signed_by, load_keys

    def is_signed(message: bytes, signature: bytes) -> bool:
        return is_signed_by(load_keys(home).public_key, message, signature)

    return is_signed


@app.command("anchor")
def print_anchor(home: Home = DEFAULT_HOME) -> None:
    """Print the newest end of the log that the gateway signed, one line of JSON. Kept on another machine, it shows
    later whether the log was cut off or written anew: resurge log verify --anchor FILE. The audit log has a chain and
    an anchor of its own: resurge audit anchor."""
    from cloud_backend.log.heads import read_heads
    from shared.errors import UsageError

    found = read_heads(home)
    if not found:
        raise UsageError(
            f"the gateway in {str(home)!r} has signed nothing yet; it does a minute after its start",
            code="gateway-home",
        )
    print(found[-1].encode())


@app.command()
def verify(
    home: Home = DEFAULT_HOME,
    copy: Annotated[list[Path] | None, typer.Option(help="a directory with a copy of the log; may be repeated")] = None,
    anchor: Annotated[Path | None, typer.Option(help="a file of heads that `log anchor` kept elsewhere")] = None,
    *,
    log: Annotated[str | None, typer.Option(help="a log in Kafka, kafka://..., instead of the home's")] = None,
    repair: Annotated[bool, typer.Option(help="first make every copy whole from the best; stop the gateway")] = False,
    as_json: AsJson = False,
) -> None:
    """Walk every record of every segment: checksums, hash chain, numbering, what devices have signed, and the ends that
    the gateway signed. Exits 1 if anything is damaged, cut off or written anew."""
    if log is not None:
        verify_in_kafka(log, as_json=as_json)
        return
    from cloud_backend.log.heads import SignedHead, check_signatures, read_heads
    from cloud_backend.log.segment_copies import repair as repair_copies
    from cloud_backend.log.verify import verify as verify_log
    from shared.errors import DamagedData, UsageError
    from shared.spool.disk import PosixDisk

    directories = [home / "log", *(copy or [])]
    for directory in directories[:1] if repair else directories:
        if not directory.is_dir():
            raise UsageError(f"no log in {str(directory)!r}; give the gateway's --home", code="gateway-home")
    ends = read_heads(home)  # before the log, which may be growing
    if anchor is not None:
        ends += [SignedHead.decode(line) for line in anchor.read_text("ascii", "replace").splitlines() if line.strip()]
    disks = [PosixDisk(directory) for directory in directories]
    repaired = repair_copies(disks) if repair else []
    reports: list[dict[str, object]] = []
    sound = True
    for directory, disk in zip(directories, disks, strict=True):
        report: dict[str, object] = {"directory": str(directory)}
        try:
            check_signatures(ends, gateway_signed(home))
            found = verify_log(disk, is_signed=signatures_of(home), heads=ends)
        except DamagedData as error:
            sound = False
            report |= {"sound": False, "error": error.message, "code": error.code}
        else:
            report |= {
                "sound": not (found.duplicates or found.gaps or found.signed.wrong),
                "segments": found.segments,
                "records": found.records,
                "bytes": found.bytes,
                "torn_bytes": found.torn_bytes,
                "delivered": found.delivered,
                "ledgered": found.ledgered,
                "duplicates": found.duplicates,
                "gaps": found.gaps,
                "signed_batches": found.signed.batches,
                "unsigned_batches": found.signed.unsigned,
                "signers": {signer.hex(): batches for signer, batches in sorted(found.signed.signers.items())},
                "unchecked_runs": found.signed.unchecked,
                "wrong_signatures": found.signed.wrong,
                "signed_heads": found.heads,
            }
            sound = sound and bool(report["sound"])
        reports.append(report)
    fixed = [{"copy": str(directories[item.copy]), "segment": item.segment, "was": item.reason} for item in repaired]
    if as_json:
        print(json.dumps({"sound": sound, "repaired": fixed, "logs": reports}))
    else:
        for item in fixed:
            print(f"repaired {item['segment']} in {item['copy']}: it was {item['was']}")
        for report in reports:
            print("  ".join(f"{name}={value}" for name, value in report.items()))
    if not sound:
        raise typer.Exit(1)


def verify_in_kafka(location: str, *, as_json: bool) -> None:
    """The same of a log in Kafka: every record, its chain and numbering, against the index."""
    from cloud_backend.log.kafka.verify import verify as verify_log
    from shared.errors import DamagedData

    report: dict[str, object] = {"log": location}
    try:
        found = verify_log(location)
    except DamagedData as error:
        report |= {"sound": False, "error": error.message, "code": error.code}
    else:
        report |= {
            "sound": not (found.duplicates or found.gaps),
            "partitions": found.partitions,
            "records": found.records,
            "bytes": found.bytes,
            "delivered": found.delivered,
            "ledgered": found.ledgered,
            "duplicates": found.duplicates,
            "gaps": found.gaps,
        }
    if as_json:
        print(json.dumps({"sound": report["sound"], "repaired": [], "logs": [report]}))
    else:
        print("  ".join(f"{name}={value}" for name, value in report.items()))
    if not report["sound"]:
        raise typer.Exit(1)
