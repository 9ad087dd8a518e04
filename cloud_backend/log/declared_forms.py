"""Which columns a device meant by a batch whose form is not the one that the reader expects.

A batch says the number of its schema only, and the device has declared the schema before, in the same log. Most batches
have the expected form and nobody looks here. Where one has not, the declarations before the slice at hand are read,
once and as far as needed, and what was found is kept for as long as the process runs: phones of an older program send
their form for weeks. What a device declared under a number never changes: whoever reads the log again finds the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cloud_backend.log.partitions import LogReader
from shared.errors import PeerError
from shared.language.schema import Schema
from shared.wire import frame
from shared.wire.frame import HEADER_BYTES
from shared.wire.messages import Data, Declare

FORMS_MAX = 200_000  # from which on a process begins anew with the next slice; one slice needs what its log declares

Form = tuple[str, bytes, int, int]  # log, device, edge, number of the schema


@dataclass(slots=True)
class _Known:
    forms: dict[Form, Schema] = field(default_factory=dict)
    schemas: dict[Schema, Schema] = field(default_factory=dict)  # many devices declare the same ones


_kept = [_Known()]  # by the process, for the next slice


class DeclaredForms:
    """The forms of some edges of a log."""

    def __init__(self, log: Path | str, reader: LogReader, edges: Collection[int]) -> None:
        self._log, self._reader, self._edges = str(log), reader, edges
        if len(_kept[0].forms) >= FORMS_MAX:
            _kept[0] = _Known()
        self._known = _kept[0]  # nothing that a slice has found is forgotten before its end
        self._met: list[bytes] = []  # declarations that nobody had to look at yet
        self._before: dict[str, Iterator[bytes]] = {}  # the same, by partition, of what lies before

    def note(self, declaration: bytes | memoryview) -> None:
        """A DECLARE frame that was met while reading."""
        self._met.append(bytes(declaration))

    def schema(self, data: Data, partition: str, start: int) -> Schema | None:
        """What the batch's device has declared under its number: in what was read so far, or before `start`."""
        wanted: Form = (self._log, bytes(data.device), int(data.edge), data.schema_id)
        forms = self._known.forms
        while wanted not in forms and self._met:
            self._keep(self._met.pop())
        if wanted not in forms:
            if partition not in self._before:
                self._before[partition] = self._reader.declared_before(partition, start)
            for each in self._before[partition]:
                if frame.stored_header(each).edge in self._edges:
                    self._keep(each)
                    if wanted in forms:
                        break
        return forms.get(wanted)

    def _keep(self, data: bytes) -> None:
        try:
            said = Declare.of(frame.frame_of(frame.stored_header(data), data[HEADER_BYTES:]))
        except PeerError:  # the gateway would have refused it; its batches stay unread
            return
        schema = self._known.schemas.setdefault(said.schema, said.schema)
        self._known.forms[self._log, bytes(said.device), int(said.edge), schema.id] = schema
