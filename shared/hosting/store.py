"""What a host keeps on disk, and how a driver stores what a step asks for."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TypeAlias

from shared.errors import DamagedData
from shared.hosting.fleet_events import StoreFleet
from shared.hosting.keeper import ForgetSnapshot, KeepSnapshot
from shared.hosting.sink import AppendToSink
from shared.spool.disk import Disk
from shared.spool.ring import Spool
from shared.sync.persist import SyncSpool

MEMORY = "hosting"  # the file of what a host must know after a restart
FLEET = "fleet"  # of what a coordinator must
FORMAT = 1


@dataclass(frozen=True, slots=True)
class StoreMemory:
    """Replace what the host remembers."""

    data: bytes


HostPersist: TypeAlias = KeepSnapshot | ForgetSnapshot | AppendToSink | StoreMemory | SyncSpool


@dataclass(slots=True)
class Memory:
    """What must survive a restart: which deployment was last, and which terms were begun here.

    An instance lives in memory. After a restart its term is spent: whatever it had sent may be ahead of any snapshot,
    so it begins again only under a term that its readers have not met."""

    boot: int = 0
    deployment: bytes = b""
    version: int = 0
    lease: int = 0
    begun: dict[str, int] = field(default_factory=dict)  # "query/incarnation/vertex" -> greatest term
    signature: bytes = b""  # of the deployment, where its coordinator signed it as one
    coordinator: bytes = b""  # the public key of who gave it; empty where that was not written down

    def encode(self) -> bytes:
        value = {
            "format": FORMAT, "boot": self.boot, "deployment": self.deployment.decode(), "version": self.version,
            "lease": self.lease, "begun": self.begun,
        }  # fmt: skip
        if self.signature:
            value |= {"signature": self.signature.hex(), "coordinator": self.coordinator.hex()}
        return json.dumps(value, sort_keys=True).encode()

    @staticmethod
    def read(disk: Disk) -> Memory:
        if MEMORY not in disk.names():
            return Memory()
        file = disk.open(MEMORY)
        try:
            data = file.read(0, file.size())
        finally:
            file.close()
        try:
            value = json.loads(data)
            if value["format"] != FORMAT:
                raise DamagedData(f"what this host remembers is of form {value['format']}", code="hosting-memory")
            return Memory(
                value["boot"], value["deployment"].encode(), value["version"], value["lease"], dict(value["begun"]),
                bytes.fromhex(value.get("signature", "")), bytes.fromhex(value.get("coordinator", "")),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DamagedData(
                "what this host remembers cannot be read; move the file away and deploy again", code="hosting-memory"
            ) from None


def stored_fleet(disk: Disk) -> bytes:
    """What a coordinator stored here; empty when it never did."""
    if FLEET not in disk.names():
        return b""
    file = disk.open(FLEET)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def persist(item: HostPersist | StoreFleet, disk: Disk, sources: Spool) -> None:
    """Make one item of a step durable."""
    match item:
        case StoreFleet(data):
            disk.replace(FLEET, data)
        case SyncSpool():
            sources.sync()
        case StoreMemory(data):
            disk.replace(MEMORY, data)
        case KeepSnapshot(name, data):
            disk.replace(name, data)
        case ForgetSnapshot(name):
            if name in disk.names():
                disk.remove(name)
        case AppendToSink(name, offset, data):
            file = disk.open(name, create=name not in disk.names())
            try:
                file.write(offset, data)
                file.truncate(offset + len(data))
                file.sync()
            finally:
                file.close()
            if offset == 0:
                disk.sync()
