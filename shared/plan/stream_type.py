"""The type of a stream: its columns and its key, and the names that every plan knows."""

from __future__ import annotations

from dataclasses import dataclass

from shared.language.schema import Field, Schema

DEVICE = "device"
WINDOW_START, WINDOW_END, COMPLETE = "window_start", "window_end", "complete"


@dataclass(frozen=True, slots=True)
class StreamType:
    """The columns of a stream (key columns included, `time` not) and the columns that key it."""

    schema: Schema
    key: tuple[str, ...]

    def __str__(self) -> str:
        """In one line, for errors and explanations."""
        columns = ", ".join(f"{column.name} {column.kind}" for column in self.schema)
        return f"({columns}) by {', '.join(self.key) or 'nothing'}"


def with_device(schema: Schema) -> Schema:
    """The schema with `device` first, as streams that come from a device have it."""
    return schema if DEVICE in schema else Schema((Field(DEVICE, "str"), *schema.fields))


def without_device(schema: Schema) -> Schema:
    """The schema as it travels: the frame already says which device."""
    return Schema(tuple(column for column in schema if column.name != DEVICE))
