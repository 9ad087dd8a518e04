"""`resurge lab run FIGURE`: reproduce a figure of the papers, the paper's points beside ours."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


def known_figures() -> list[str]:
    import resurge.lab

    names = (module.name for module in pkgutil.iter_modules(resurge.lab.__path__))
    return sorted(name.replace("_", "-") for name in names if not name.startswith("_"))


@app.command("list")
def list_figures(as_json: Annotated[bool, typer.Option("--json", help="last line is one JSON object")] = False) -> None:
    """The figures there are."""
    print(json.dumps({"figures": known_figures()}) if as_json else "\n".join(known_figures()))


@app.command("run")
def run_figures(
    names: Annotated[list[str], typer.Argument(help="which ones; `resurge lab list` names them")],
    as_json: Annotated[bool, typer.Option("--json", help="last line is one JSON object")] = False,
    save: Annotated[Path | None, typer.Option(help="write each report into this directory, too")] = None,
) -> None:
    """Run the experiments behind figures; exits 1 if a shape is not the paper's."""
    from shared.errors import UsageError

    unknown = [name for name in names if name not in known_figures()]
    if unknown:
        raise UsageError(f"no figure {unknown[0]!r}; known: {', '.join(known_figures())}", code="lab-unknown")
    reports = []
    for name in names:
        reports.append(_experiment(name).run())
        _show(name, reports[-1], save, as_json=as_json)
    if as_json:
        print(json.dumps(reports[0] if len(reports) == 1 else {"labs": reports, "ok": all(r["ok"] for r in reports)}))
    if not all(report["ok"] for report in reports):
        raise typer.Exit(1)


@app.command("all")
def run_all(
    quick: Annotated[bool, typer.Option(help="on less data, within 15 minutes on two cores; draws nothing")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="last line is one JSON object")] = False,
    save: Annotated[Path | None, typer.Option(help="write each report into this directory, too")] = None,
) -> None:
    """Run every experiment there is, one after the other; exits 1 if a shape is not the paper's or one fails."""
    from resurge.lab._figure import undrawn

    found = []
    for name in known_figures():
        begun, used = time.perf_counter(), time.process_time()
        entry: dict[str, Any] = {"lab": name}
        try:
            experiment = _experiment(name)
            with undrawn() if quick else nullcontext():
                report = experiment.run(**(getattr(experiment, "QUICK", {}) if quick else {}))
        except Exception as error:  # the others are still worth running
            entry |= {"ok": False, "error": f"{type(error).__name__}: {error}"[:500]}
        else:
            _show(name, report, save, as_json=as_json)
            missed = [shape["name"] for shape in report["shapes"] if not shape["holds"]]
            entry |= {"figure": report["figure"], "ok": report["ok"], "shapes": len(report["shapes"]), "missed": missed}
            entry["missed_in_record"] = _missed_in_record(name, missed)
        entry |= {"seconds": round(time.perf_counter() - begun, 1), "cpu_s": round(time.process_time() - used, 1)}
        found.append(entry)
        print(f"{name}: {_verdict(entry)} after {entry['seconds']} s", file=sys.stderr, flush=True)
    ok = all(entry["ok"] for entry in found)
    if as_json:
        print(
            json.dumps({"labs": found, "quick": quick, "seconds": round(sum(e["seconds"] for e in found), 1), "ok": ok})
        )
    if not ok:
        raise typer.Exit(1)


def _missed_in_record(name: str, missed: list[str]) -> list[str]:
    """Which of these shapes the record of the whole run misses as well; none where there is no checkout to look in."""
    from resurge.lab._figure import RECORDS

    record = RECORDS / f"{name}.json"
    if not missed or not record.is_file():
        return []
    shapes = json.loads(record.read_text())["shapes"]
    return [each["name"] for each in shapes if not each["holds"] and each["name"] in missed]


def _verdict(entry: dict[str, Any]) -> str:
    if entry["ok"]:
        return "ok"
    known = entry.get("missed_in_record", [])
    return "NOT OK, as in its record" if known and len(known) == len(entry["missed"]) else "NOT OK"


def _experiment(name: str) -> Any:
    """The module of a figure: its `run()`, and in `QUICK` what to call it with where there is little time."""
    return importlib.import_module(f"resurge.lab.{name.replace('-', '_')}")


def _show(name: str, report: dict[str, Any], save: Path | None, *, as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{name}: {report['figure']}")
    for column in ("shape", "paper", "ours", "holds"):
        table.add_column(column)
    for shape in report["shapes"]:
        holds = "yes" if shape["holds"] else "NO"
        table.add_row(str(shape["name"]), str(shape["paper"]), str(shape["ours"]), holds)
    Console(stderr=as_json).print(table)
    if save is not None:
        (save / f"{name}.json").write_text(json.dumps(report, indent=2) + "\n")
