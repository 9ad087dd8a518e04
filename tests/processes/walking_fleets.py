"""Fleets whose phone really loses and gains links (`resurge/lab/_linked_nodes.py`). Their file says which there are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from resurge.lab._linked_nodes import Links, Network
from tests.processes.fleets import COORDINATOR, Fleet, Program


class WalkingFleet(Fleet):
    def __init__(
        self, folder: Path, program: Program, network: Network, *, links: Links, hosts: Mapping[str, str], rows: int,
        strategy: str = "ecoc", keepers: int = 1, forward: str = "dynamic",
    ) -> None:  # fmt: skip
        self.network = network
        hubs = sum(name.startswith("hub") for name in network.names)
        super().__init__(folder, program, hubs=hubs, strategy=strategy, rows=rows, hosts=hosts, keepers=keepers)
        listed = [f"[[link]]\nbetween = {json.dumps(list(link))}\n" for link in links]
        # The coordinator is reached over others: rows shall not go that way.
        said = self.file.read_text().replace(f'name = "{COORDINATOR}"\n', f'name = "{COORDINATOR}"\ncapacity = 0\n')
        said = said.replace("[[query]]\n", f'[[query]]\nforward = "{forward}"\n')
        self.file.write_text("\n".join([said, *listed]))

    def address(self, name: str) -> str:
        return self.network.address(name)

    def run_by(self, name: str) -> list[str]:
        return self.network.run_by(name)

    def said(self, text: str, name: str = COORDINATOR) -> int:
        """How often a node's log has this."""
        return (self.folder / f"{name}.log").read_text().count(text)
