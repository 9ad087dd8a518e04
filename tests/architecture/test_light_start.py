"""`resurge --help` and `import resurge` stay light: no Spark, no web framework, no Kivy."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("pyspark", "fastapi", "kivy", "pandas", "pyarrow", "zmq", "uvicorn")


def loaded_after(statement: str) -> set[str]:
    script = f"import sys\n{statement}\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.splitlines()[-1].split()}


def test_importing_resurge_loads_nothing_heavy() -> None:
    assert not loaded_after("import resurge").intersection(HEAVY)


def test_help_loads_no_noun() -> None:
    loaded = loaded_after("import resurge.cli\nresurge.cli.print_help()")
    assert not loaded.intersection({*HEAVY, "typer", "rich"})
