"""`resurge lab run FIGURE`: reproduce a figure of the papers, the paper's points beside ours."""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path
from typing import Annotated

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
    from rich.console import Console
    from rich.table import Table

    from shared.errors import UsageError

    unknown = [name for name in names if name not in known_figures()]
    if unknown:
        raise UsageError(f"no figure {unknown[0]!r}; known: {', '.join(known_figures())}", code="lab-unknown")
    reports = []
    for name in names:
        report = importlib.import_module(f"resurge.lab.{name.replace('-', '_')}").run()
        reports.append(report)
        table = Table(title=f"{name}: {report.get('figure', '')}")
        for column in ("shape", "paper", "ours", "holds"):
            table.add_column(column)
        for shape in report["shapes"]:
            holds = shape.get("holds", shape.get("ok"))
            ours = shape.get("ours", shape.get("value"))
            table.add_row(str(shape["name"]), str(shape.get("paper", "")), str(ours), "yes" if holds else "NO")
        Console(stderr=as_json).print(table)
        if save is not None:
            (save / f"{name}.json").write_text(json.dumps(report, indent=2) + "\n")
    if as_json:
        print(json.dumps(reports[0] if len(reports) == 1 else {"labs": reports, "ok": all(r["ok"] for r in reports)}))
    if not all(report["ok"] for report in reports):
        raise typer.Exit(1)
