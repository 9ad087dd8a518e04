"""`--module NAME`: a program's own operator modules, beside those that `resurge.toml` lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import typer

Modules: TypeAlias = Annotated[
    Sequence[str],
    typer.Option(
        "--module", metavar="NAME", help="A module with operators of your own, beside those that resurge.toml lists."
    ),
]
