"""`resurge plan FILE`: what a stream program means, before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, help="Explain what a stream program means: graph, cut, vertices.")


@app.command()
def plan(
    file: Annotated[Path, typer.Argument(help="a program: a Python file that uses resurge")],
    as_json: Annotated[bool, typer.Option("--json", help="print the plan itself as one JSON object")] = False,
    output: Annotated[Path | None, typer.Option(help="write the plan, as nodes take it, to this file")] = None,
) -> None:
    """Check a program and explain its plan."""
    from shared.plan.encoding import encode_plan
    from shared.plan.explain import explain
    from shared.stream.program import load_program

    found = load_program(file)
    encoded = encode_plan(found)
    if output is not None:
        output.write_bytes(encoded)
    print(json.dumps(json.loads(encoded)) if as_json else explain(found), end="\n" if as_json else "")
