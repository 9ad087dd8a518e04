"""The pages as scripts: their fenced blocks, and the commands in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
MARKER = re.compile(r"<!-- (not run: [^>]+|run by [^>]+) -->\s*\Z")
COMMAND = re.compile(r"(resurge|make|python -m (?:cloud_backend|resurge|mobile_app)\S*)(?: |$)")


@dataclass(frozen=True, slots=True)
class Block:
    page: str
    line: int
    language: str
    text: str
    marker: str = ""  # why it is not run here, or which tests run it

    @property
    def commands(self) -> list[str]:
        """The commands of a block, continued lines joined, comments left out."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [bare for line in lines if (bare := re.sub(r"\s+# .*", "", line).strip())]


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for block in FENCE.finditer(text):
        before = MARKER.search(text[: block.start()])
        line = text.count("\n", 0, block.start()) + 2
        found.append(Block(page, line, block[1], block[2], before[1] if before else ""))
    return found


def mentioned(page: str) -> list[tuple[int, str]]:
    """(line, command) of what a page mentions between single backquotes."""
    text = FENCE.sub(lambda block: "\n" * block[0].count("\n"), (ROOT / page).read_text(encoding="utf-8"))
    found = []
    for code in re.finditer(r"`([^`]+)`", text):
        command = " ".join(code[1].split())
        if COMMAND.match(command):
            found.append((text.count("\n", 0, code.start()) + 1, command))
    return found
