"""The command line: `resurge NOUN VERB`, plus `up node plan doctor bench`.

Every noun is one module here with a typer `app`. The root knows only their names and one line of help
each; a module is imported when its noun is typed, so `resurge --help` stays fast and needs no Spark.
"""

from __future__ import annotations

import importlib
import sys

NOUNS = {
    "up": "Start the whole product here: gateway, Spark, simulated phones, dashboard.",
    "node": "Run a device without a screen, or a relay; see what it holds.",
    "fleet": "Run one program's vertices on several nodes; see where they are and what came out.",
    "region": "Let phones that stand together run a program; list and drop such places.",
    "program": "Deploy a changed program to phones and Spark; see who runs which version.",
    "app": "Build the Android app with a program's own operators in it.",
    "plan": "Explain what a stream program means: graph, cut, vertices.",
    "device": "Pair, list, configure and revoke devices, and delete what they delivered.",
    "stream": "See what arrives: rates, lag, complete hours, batches.",
    "query": "Ask the streams something: submit, explain, stop, export.",
    "results": "Send what sinks say to receivers, or keep a Delta table level.",
    "alert": "See what needs attention; watch results, and let phones ring.",
    "job": "See and roll back Spark vertices.",
    "log": "Verify the ingest log.",
    "contract": "See what was promised and what was kept; verify the signed reports.",
    "ledger": "List every range that was given up, and why.",
    "example": "Play a finished application over recorded or made-up people.",
    "audit": "See who did what, and what needs attention.",
    "person": "Say who may sign in to the dashboard.",
    "backup": "Take a backup while running, or restore one on an empty machine.",
    "lab": "Reproduce a figure of the papers.",
    "bench": "Measure speed and memory against peers.",
    "doctor": "Check this machine: Python, Java, ports, disk, packages.",
}
FORMER = {"account": "person"}  # what a noun was called before; scripts go on working


def main() -> None:
    """Entry point of the `resurge` command."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print_help()
        return
    if arguments[0] == "--version":
        from resurge import __version__

        print(f"resurge {__version__}")
        return
    noun = FORMER.get(arguments[0], arguments[0])
    if noun not in NOUNS:
        import difflib

        near = difflib.get_close_matches(noun, NOUNS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        print(
            f"resurge: {noun!r} is not a command{hint} Known: {', '.join(NOUNS)} [cli-unknown]",
            file=sys.stderr,
        )
        raise SystemExit(2)
    run_noun(noun, arguments[1:])


def run_noun(noun: str, arguments: list[str]) -> None:
    """Import one noun's module and hand it the rest of the line; our errors end in one clear line, not a traceback."""
    from shared.errors import ResurgeError

    module = importlib.import_module(f"resurge.cli.{noun}")
    try:
        module.app(args=arguments, prog_name=f"resurge {noun}")
    except ResurgeError as error:
        print(f"resurge {noun}: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError) as error:
        if error.filename is None:
            raise
        print(f"resurge {noun}: {error.filename}: {(error.strerror or '').lower()} [cli-file]", file=sys.stderr)
        raise SystemExit(1) from None


def print_help() -> None:
    print("resurge: one stream program for phones and Spark\n\nUsage: resurge NOUN [VERB] [OPTIONS]\n")
    width = max(map(len, NOUNS))
    for noun, line in NOUNS.items():
        print(f"  {noun:<{width}}  {line}")
    print("\n`resurge NOUN --help` says more. Anything that reports takes --json: its last line is one JSON object.")
