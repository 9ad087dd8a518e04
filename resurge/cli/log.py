"""`resurge log`: check the ingest log, and repair it from its copies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)

DEFAULT_HOME = Path(".resurge/gateway")


@app.callback()
def _log() -> None:
    """Check the ingest log."""


@app.command()
def verify(
    home: Annotated[Path, typer.Option(help="the gateway's home")] = DEFAULT_HOME,
    copy: Annotated[list[Path] | None, typer.Option(help="a directory with a copy of the log; may be repeated")] = None,
    repair: Annotated[bool, typer.Option(help="first make every copy whole from the best; stop the gateway")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="last line is one JSON object")] = False,
) -> None:
    """Walk every record of every segment: checksums, hash chain, numbering. Exits 1 if anything is damaged."""
    from cloud_backend.log.copies import repair as repair_copies
    from cloud_backend.log.verify import verify as verify_log
    from shared.errors import DamagedData, UsageError
    from shared.spool.disk import PosixDisk

    directories = [home / "log", *(copy or [])]
    for directory in directories[:1] if repair else directories:
        if not directory.is_dir():
            raise UsageError(f"no log in {str(directory)!r}; give the gateway's --home", code="gateway-home")
    disks = [PosixDisk(directory) for directory in directories]
    repaired = repair_copies(disks) if repair else []
    reports: list[dict[str, object]] = []
    sound = True
    for directory, disk in zip(directories, disks, strict=True):
        report: dict[str, object] = {"directory": str(directory)}
        try:
            found = verify_log(disk)
        except DamagedData as error:
            sound = False
            report |= {"sound": False, "error": error.message, "code": error.code}
        else:
            report |= {
                "sound": not (found.duplicates or found.gaps),
                "segments": found.segments,
                "records": found.records,
                "bytes": found.bytes,
                "torn_bytes": found.torn_bytes,
                "delivered": found.delivered,
                "ledgered": found.ledgered,
                "duplicates": found.duplicates,
                "gaps": found.gaps,
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
