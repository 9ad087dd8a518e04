"""`resurge bench NAME`: speed and memory, each against its peer or limit in the same run."""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def known_benches() -> list[str]:
    import resurge.bench

    return sorted(m.name for m in pkgutil.iter_modules(resurge.bench.__path__) if not m.name.startswith("_"))


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="which one; `list` names them")],
    rounds: Annotated[int, typer.Option(help="interleaved rounds; the median counts")] = 5,
    quick: Annotated[bool, typer.Option(help="small inputs: shows that it runs, proves no figure")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="last line is one JSON object")] = False,
    save: Annotated[Path | None, typer.Option(help="also write the JSON here")] = None,
) -> None:
    """Measure one part against its peers; exits 1 if a goal is missed."""
    from rich.console import Console
    from rich.table import Table

    from shared.errors import UsageError

    if name == "list":
        print(json.dumps({"benches": known_benches()}) if as_json else "\n".join(known_benches()))
        return
    if name not in known_benches():
        raise UsageError(f"no bench {name!r}; known: {', '.join(known_benches())}", code="bench-unknown")
    try:
        module = importlib.import_module(f"resurge.bench.{name}")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"bench {name!r} needs the package {error.name!r}; install the peers with pip install 'resurge[bench]'",
            code="bench-peer-missing",
        ) from error
    report = module.run(rounds=rounds, quick=quick)
    table = Table(title=f"bench {name}")
    for column in ("check", "value", "goal", "ok"):
        table.add_column(column)
    for check in report["checks"]:
        value = check["value"]
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        known = f"{check['name']} ({check['context']})" if "context" in check else check["name"]
        table.add_row(known, shown, str(check["goal"]), "yes" if check["ok"] else "NO")
    for measured, value in report.get("figures", {}).get("reported", {}).items():
        table.add_row(measured, f"{value:.4g}", "none", "")
    Console(stderr=as_json).print(table)
    text = json.dumps(report)
    if save is not None:
        save.write_text(json.dumps(report, indent=2) + "\n")
    if as_json:
        print(text)
    if not all(check["ok"] for check in report["checks"]):
        raise typer.Exit(1)
