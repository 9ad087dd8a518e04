"""`resurge plan FILE`: what a stream program means, before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from resurge.cli.own_modules import Modules

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Explain what a stream program means: graph, cut, vertices.",
)


@app.command()
def plan(
    file: Annotated[Path, typer.Argument(help="a program: a Python file that uses resurge")],
    as_json: Annotated[bool, typer.Option("--json", help="print the plan itself as one JSON object")] = False,
    svg: Annotated[Path | None, typer.Option(help="draw the plan into this SVG file")] = None,
    output: Annotated[Path | None, typer.Option(help="write the plan, as nodes take it, to this file")] = None,
    module: Modules = (),
) -> None:
    """Check a program and explain its plan."""
    from shared.contracts.promises import check_kept, contract_lines
    from shared.plan.drawing import svg as drawn
    from shared.plan.encoding import encode_plan
    from shared.plan.explain import explain
    from shared.plan.rewrites import rewrite
    from shared.stream.program import read_program

    rewritten = rewrite(read_program(file, module).written_plan())
    found = rewritten.plan
    encoded = encode_plan(found)
    if svg is not None:
        svg.write_text(drawn(found), encoding="utf-8")
    if output is not None:
        check_kept(found)
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(encoded)
    if as_json:
        print(json.dumps(json.loads(encoded)))
    else:
        print(explain(found, rewritten.notes, contract_lines(found)), end="")
    check_kept(found)
