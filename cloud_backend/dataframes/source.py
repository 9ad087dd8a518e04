"""`spark.read.format("resurge")`: a stream, a job's records, results, the ledger, epochs or devices as a DataFrame.

    option("log", DIR).option("stream", "gps")                  rows as they arrived; also as a stream
    option("log", DIR).option("table", "ledger")                what devices had to give up
    option("store", URI).option("edge", E).option("epochs", "41..57")   what a job recorded
    option("store", URI).option("table", "epochs")
    option("results", FILE).option("sink", "my_trips")          what a sink says now
    option("roster", FILE)                                      the devices

Spark makes one of these in a process of its own for each question, and sends readers to its workers: they hold places
and names, and open files where they read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from cloud_backend.database import location
from cloud_backend.dataframes import arrow, epoch_rows, stream_rows, tables
from cloud_backend.dataframes.epoch_rows import EpochRows
from cloud_backend.dataframes.stream_rows import StreamRows
from cloud_backend.log.kafka.location import is_kafka
from cloud_backend.log.partitions import ONLY, LogReader, Place, open_log, place_in
from shared.errors import DamagedData, UsageError

MODES = {"FAILFAST": False, "DROPMALFORMED": True}  # Spark's own words: whether undecodable batches are left out
OF_STREAM = {"log", "stream", "device", "mode", "startingoffset", "endingoffset"}
KNOWN = {  # what may be said beside each thing that is read
    "stream": OF_STREAM,
    "ledger": {"log", "table", "startingoffset", "endingoffset"},
    "records": {"store", "edge", "epochs"},
    "epochs": {"store", "table"},
    "results": {"results", "sink", "store"},
    "devices": {"roster"},
}


@dataclass
class Part(InputPartition):
    """One task's share."""

    piece: Any


class ResurgeSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "resurge"

    def schema(self) -> str:
        return arrow.spark_schema(self._table(None).columns())

    def reader(self, schema: StructType) -> DataSourceReader:
        return TableReader(self._table(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if _wanted(self.options) != "stream":
            raise _option('only a stream of a log can be followed: option("log", ...) with option("stream", ...)')
        if "endingoffset" in self.options:
            raise _option("a stream that is followed has no end: endingOffset is for reading")
        return StreamReader(_stream(self.options, schema), dict(self.options))

    def _table(self, schema: StructType | None) -> Table:
        return _TABLES[_wanted(self.options)](self.options, schema)


class Table:
    """What is read: its columns, its parts, and the rows of each."""

    def __init__(
        self,
        columns: Callable[[], Mapping[str, str]],
        pieces: Callable[[], Sequence[Any]],
        read: Callable[[Any], Iterator[pa.RecordBatch]],
    ) -> None:
        self.columns, self.pieces, self.read = columns, pieces, read


class TableReader(DataSourceReader):
    def __init__(self, table: Table) -> None:
        self._pieces, self._read = table.pieces(), table.read

    def partitions(self) -> Sequence[InputPartition]:
        return [Part(piece) for piece in self._pieces]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        # Without a partition Spark still asks once.
        return self._read(partition.piece) if isinstance(partition, Part) else iter(())


class StreamReader(DataSourceStreamReader):
    """Follows a stream. A place is the log's offset, so what was read between two places is the same when it is read
    again, whatever happened in between."""

    def __init__(self, rows: StreamRows, options: Mapping[str, str]) -> None:
        self._rows, self._options = rows, options

    def initialOffset(self) -> dict[str, int]:
        return _bounds(self._options)[0]

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002
        ends = open_log(self._rows.log).ends()
        return {partition: max(ends[partition], at) for partition, at in start.items()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        _check_kept(self._rows.log, start)
        return [Part(piece) for piece in stream_rows.pieces(self._rows.log, start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._rows.read(partition.piece) if isinstance(partition, Part) else iter(())


# --- what the options mean ------------------------------------------------------------------------------------------


def _wanted(options: Mapping[str, str]) -> str:
    given = {name.lower() for name in options}
    if "stream" in given:
        wanted = "stream"
    elif "sink" in given:
        wanted = "results"
    elif "roster" in given:
        wanted = "devices"
    elif "edge" in given:
        wanted = "records"
    else:
        wanted = options.get("table", "")
    if wanted not in KNOWN:
        raise _option(
            'say what to read: option("log", DIR) with "stream", or "table" = "ledger"; option("store", URI) with '
            '"edge", or "table" = "epochs"; option("results", FILE) with "sink"; or option("roster", FILE)'
        )
    if extra := sorted(given - KNOWN[wanted] - {"path"}):
        raise _option(f"{wanted} has no option {extra[0]!r}; it has {', '.join(sorted(KNOWN[wanted]))}")
    return wanted


def _needed(options: Mapping[str, str], name: str) -> str:
    if not options.get(name):
        raise _option(f'option("{name}", ...) is missing')
    return str(options[name])


def _log(options: Mapping[str, str]) -> Path | str:
    location = _needed(options, "log")
    if is_kafka(location):
        return location
    path = Path(location).absolute()
    if not path.is_dir():
        raise UsageError(f"there is no log at {str(path)!r}; a gateway's home has one in log/", code="dataframe-log")
    return path


def _stream(options: Mapping[str, str], schema: StructType | None) -> StreamRows:
    log, stream = _log(options), _needed(options, "stream")
    mode = options.get("mode", "FAILFAST").upper()
    if mode not in MODES:
        raise _option(f"mode is one of {', '.join(MODES)}, not {mode!r}")
    device = options.get("device", "")
    if device and (len(device) != 32 or not all(digit in "0123456789abcdef" for digit in device)):
        raise _option(f"device is a whole id of 32 hex digits, not {device!r}; `resurge device list --json` has them")
    columns = stream_rows.stream_columns(log, stream) if schema is None else _chosen(schema, stream_rows.ADDED)
    return StreamRows(log, stream, columns, MODES[mode], device)


def _chosen(schema: StructType, added: Mapping[str, str]) -> dict[str, str]:
    """The columns of a schema that Spark hands back, or that a person gave, without those that are always there."""
    kinds = {word: kind for kind, (_, word) in reversed(arrow.TYPES.items())}
    found = {}
    for column in schema.fields:
        word = column.dataType.simpleString()
        if word not in kinds:
            raise _option(f"column {column.name!r} cannot be {word}; a stream's columns are {', '.join(sorted(kinds))}")
        found[column.name] = kinds[word]
    if missing := [name for name in added if name not in found]:
        raise _option(f".schema(...) lacks {missing[0]!r}; every row has {', '.join(added)}")
    return {name: kind for name, kind in found.items() if name not in added}


def _bounds(options: Mapping[str, str]) -> tuple[dict[str, int], dict[str, int]]:
    log = _log(options)
    reader = open_log(log)
    starts, ends = reader.starts(), reader.ends()
    first = _place(options.get("startingoffset"), starts)
    last = _place(options.get("endingoffset"), ends)
    if "startingoffset" in options:
        _check_kept(log, first)
        if not is_kafka(log):
            _check_begins(reader, first[ONLY])
    return first, {partition: min(at, ends[partition]) for partition, at in last.items()}


def _place(given: str | None, default: Mapping[str, int]) -> dict[str, int]:
    """A place as an option says it: a number where there is but one partition, else an object of all of them."""
    if given is None:
        return dict(default)
    try:
        found = place_in(json.loads(given))
    except ValueError:
        found = {}
    if found.keys() != default.keys():
        raise _option(
            "startingOffset and endingOffset are whole numbers: places in the log, as in _offset"
            if len(default) == 1
            else f'startingOffset and endingOffset name a place in each of {len(default)} partitions: {{"0": 12, ...}}'
        )
    return found


def _check_begins(reader: LogReader, offset: int) -> None:
    try:
        next(reader.read(ONLY, offset, offset + 1), None)
    except DamagedData:
        raise _option(f"no record of the log begins at {offset}; take a place from the column _offset") from None


def _check_kept(log: Path | str, place: Place) -> None:
    starts = open_log(log).starts()
    for start, offset in ((starts[partition], at) for partition, at in place.items()):
        if offset >= start:
            continue
        raise UsageError(
            f"the log begins at {start} by now, and {offset} was asked for: what lies between was trimmed. "
            f'option("startingOffset", "{start}") goes on with what there is, under a new checkpoint; keep the log '
            "longer with --rollback-hours",
            code="dataframe-trimmed",
        )


def _epochs(options: Mapping[str, str]) -> tuple[int, int]:
    first, dots, last = options.get("epochs", "1..").partition("..")
    try:
        found = int(first), int(last) if last else (2**62 if dots else int(first))
    except ValueError:
        raise _option(f"epochs are written as 41..57, 41.. or 41, not {options['epochs']!r}") from None
    if found[0] > found[1]:
        raise _option(f"epochs {options['epochs']!r} end before they begin")
    return found


def _option(text: str) -> UsageError:
    return UsageError(text, code="dataframe-option")


# --- what can be read -----------------------------------------------------------------------------------------------


def _stream_table(options: Mapping[str, str], schema: StructType | None) -> Table:
    rows = _stream(options, schema)
    return Table(lambda: rows.all_columns, lambda: stream_rows.pieces(rows.log, *_bounds(options)), rows.read)


def _ledger_table(options: Mapping[str, str], schema: StructType | None) -> Table:  # noqa: ARG001
    log = _log(options)
    return Table(
        lambda: stream_rows.LEDGER,
        lambda: stream_rows.pieces(log, *_bounds(options)),
        lambda piece: stream_rows.ledger_rows(log, piece),
    )


def _records_table(options: Mapping[str, str], schema: StructType | None) -> Table:
    location, edge = _needed(options, "store"), _needed(options, "edge")
    manifest, graph = epoch_rows.opened(location)
    columns = epoch_rows.edge_columns(graph, edge) if schema is None else _chosen(schema, epoch_rows.ADDED)
    rows = EpochRows(location, edge, columns)
    first, last = _epochs(options)
    return Table(lambda: rows.all_columns, lambda: epoch_rows.pieces(manifest, graph, edge, first, last), rows.read)


def _epochs_table(options: Mapping[str, str], schema: StructType | None) -> Table:  # noqa: ARG001
    store = _needed(options, "store")
    return Table(lambda: epoch_rows.EPOCHS, lambda: [None], lambda _: epoch_rows.epoch_list(*epoch_rows.opened(store)))


def _results_table(options: Mapping[str, str], schema: StructType | None) -> Table:
    where, sink = _absolute(_needed(options, "results")), _needed(options, "sink")
    keys = epoch_rows.key_names([options["store"]] if options.get("store") else [], sink)
    columns = tables.sink_columns(tables.sink_rows(where, sink), keys) if schema is None else _chosen(schema, {})
    return Table(
        lambda: columns,
        lambda: [None],
        lambda _: iter([tables.sink_batch(tables.sink_rows(where, sink), columns, keys)]),
    )


def _devices_table(options: Mapping[str, str], schema: StructType | None) -> Table:  # noqa: ARG001
    where = _absolute(_needed(options, "roster"))
    return Table(lambda: tables.DEVICES, lambda: [None], lambda _: tables.device_list(where))


def _absolute(text: str) -> Path | str:
    """A file as a worker finds it, too; a URL means the same everywhere."""
    where = location(text)
    return where.absolute() if isinstance(where, Path) else where


_TABLES: dict[str, Callable[[Mapping[str, str], StructType | None], Table]] = {
    "stream": _stream_table, "ledger": _ledger_table, "records": _records_table, "epochs": _epochs_table,
    "results": _results_table, "devices": _devices_table,
}  # fmt: skip
