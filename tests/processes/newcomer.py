"""Somebody new, who types what a page says: in a home and a folder of their own, one terminal per lasting command."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from resurge.up.free_ports import free_ports
from tests.docs.pages import ROOT, Block, blocks
from tests.patience import PATIENCE_S, RAN_OUT, SPARK_PATIENCE_S

# What shows that a lasting command has come up.
SIGNS = {
    "resurge up": r"Dashboard  http",
    "make run": r"Dashboard  http",
    "python -m cloud_backend.gateway": r'"listening"',
    "python -m cloud_backend.spark.job": r'"ready": true',
    "resurge node run": r"device [0-9a-f]{32} incarnation \d+ running",
    "resurge node relay": r"relay on tcp://",
    "resurge device pair": r"(resurge://\S+)",
}
ROW = r"│ (yes|no) +│"  # whether its window is complete
# What a command must say at last; those that ask for what others compute are asked again until they do.
ANSWERS = {
    "resurge plan": r"on each device:|wrote|^$",
    "resurge node status": r"connected to http",
    "resurge node results": r"km=",
    "resurge node watch": r"delivered",
    "resurge node enrol": r"compare +\d{6}",
    "resurge node run": r"produced +[1-9]",
    "resurge query rows": ROW,
    "resurge query submit": r"is wanted",
    "resurge query export": r"wrote [1-9]",
    "resurge stream list": r"gps .*[1-9]",
    "resurge device list": r"enrolled",
    "resurge device configure": r"is asked for 50% of its rate",
    "resurge program deploy .*--dry-run": r"(?s)vertex .*nothing was changed|nothing would change",
    "resurge program deploy .*--yes": r"version 2 is deployed",
    "resurge program show": r"Spark +│ version [0-9]",
    "resurge job list": r"my_trips +epoch +[1-9]",
    "resurge job rollback .*--dry-run": r"nothing was changed",
    "resurge contract show gps": r"now .*(green|yellow|kept|at risk|unknown|broken)",
    "resurge contract show": r"gps ",
    "resurge contract verify": r"\d+ reports, all as they were signed",
    "resurge backup create": r"[1-9]",
    "resurge backup restore": r"[1-9]",
    "resurge example": r"[1-9]",
    "resurge fleet try": r"[1-9]\d* results, digest (\w+): the same as without failures \(\1\)",
    "make run .*--for": r'"produced": [1-9]',
}


def sign_of(command: str) -> str:
    """What shows that this command has come up; empty for one that ends by itself."""
    lasting = next((sign for start, sign in SIGNS.items() if command.startswith(start)), "")
    return "" if "--for" in command else lasting


def answer_of(command: str) -> str | None:
    return next((answer for start, answer in ANSWERS.items() if re.match(start, command)), None)


@dataclass
class Terminal:
    """A command that lasts, with what it says in a file."""

    command: str
    process: subprocess.Popen[bytes]
    output: Path

    def said(self) -> str:
        return self.output.read_text(errors="replace")

    def end(self) -> int:
        """Ctrl-C, as a person ends it; returns its status."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(SPARK_PATIENCE_S)


@dataclass
class Newcomer:
    folder: Path
    terminals: list[Terminal] = field(default_factory=list)
    link: str = ""
    link_used: bool = False
    names: dict[str, object] = field(default_factory=lambda: {"__name__": "program"})
    ports: list[int] = field(default_factory=lambda: free_ports(2))  # of a gateway, of a relay
    instead: dict[str, str] = field(default_factory=dict)  # what stands for a page's placeholders

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("resurge", "Makefile", ".venv", "tests", "pyproject.toml", "constraints.txt"):
            (self.folder / name).symlink_to(ROOT / name)

    def __enter__(self) -> Newcomer:
        return self

    def __exit__(self, *_: object) -> None:
        for terminal in reversed(self.terminals):
            if terminal.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(terminal.process.pid, signal.SIGTERM)
        for terminal in reversed(self.terminals):
            terminal.process.wait(SPARK_PATIENCE_S)

    @property
    def environment(self) -> dict[str, str]:
        venv = Path(sys.executable).parent
        return {
            **os.environ, "HOME": str(self.folder), "PATH": f"{venv}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
            "COLUMNS": "200", "RESURGE_HOME": self.instead.get("DIR", str(self.folder / "none")) + "/gateway",
        }  # fmt: skip

    def follow(self, page: str, *, first: int = 0, last: int = 10**9, without: str = "") -> int:
        """Do what the page says between two of its lines; returns how many commands that was."""
        done = 0
        for block in blocks(page):
            if not first <= block.line <= last or block.marker:
                continue
            if block.language == "python" and page.endswith("tutorial.md"):
                self.program(block)
            elif block.language == "sh":
                for command in block.commands:
                    if not without or not re.match(without, command):
                        self.type(command)
                        done += 1
        return done

    def program(self, block: Block) -> None:
        """Run a page's Python; its files lie in the folder."""
        here = Path.cwd()
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(block.text, f"{block.page}:{block.line}", "exec"), self.names)
        finally:
            os.chdir(here)

    def type(self, command: str) -> str:
        """Type one command: wait until it has answered, or, where it lasts, until it has come up."""
        written = self._written(command)
        if sign := sign_of(command):
            return self._open(written, sign).said()
        wanted = answer_of(command)
        assert wanted is not None, f"nobody knows what {command!r} answers"
        said = self.ask(written, wanted)
        if (epoch := re.search(r" epoch +(\d+) ", said)) is not None:
            self.instead["EPOCH"] = epoch[1]  # as somebody reads it off the screen
        return said

    def ask(self, command: str, wanted: str, *, status: int = 0) -> str:
        """Ask until the answer has what is wanted in it."""
        end = time.monotonic() + SPARK_PATIENCE_S
        while True:
            done = subprocess.run(
                ["bash", "-c", command], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
            )  # fmt: skip
            assert "Traceback" not in done.stderr, done.stderr
            if done.returncode == status and re.search(wanted, done.stdout + done.stderr, re.M):
                return done.stdout + done.stderr
            assert time.monotonic() < end, (
                f"{wanted} {RAN_OUT} patience; {command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
            for terminal in self.terminals:
                if terminal.process.poll() not in (None, 0):
                    raise AssertionError(f"{terminal.command} ended:\n{terminal.said()[-3000:]}")
            time.sleep(0.5)

    def _open(self, command: str, sign: str) -> Terminal:
        output = self.folder / f"terminal-{len(self.terminals)}.txt"
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"], cwd=self.folder, env=self.environment, stdout=file,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        terminal = Terminal(command, process, output)
        self.terminals.append(terminal)
        end = time.monotonic() + SPARK_PATIENCE_S
        while not (found := re.search(sign, terminal.said())):
            assert process.poll() is None, f"{command} ended:\n{terminal.said()}"
            assert time.monotonic() < end, f"{sign} {RAN_OUT} patience; {command} says:\n{terminal.said()}"
            time.sleep(0.1)
        if found.groups():
            self.link = found[1]
        return terminal

    def await_digits(self) -> str:
        """What the newest `device pair` shows once its code was used."""
        pairing = [each for each in self.terminals if " device pair" in each.command][-1]
        assert pairing.process.wait(PATIENCE_S) == 0, pairing.said()
        found = re.search(r"It must show (\d{6})", pairing.said())
        assert found, pairing.said()
        return found[1]

    def _written(self, command: str) -> str:
        written = command.replace("'resurge://...'", f"'{self.link}'")
        for name, instead in self.instead.items():
            written = re.sub(rf"\b{name}\b", instead, written)
        written = written.replace("tcp://0.0.0.0:8751", f"tcp://127.0.0.1:{self.ports[1]}")
        return written.replace("8750", str(self.ports[0]))
