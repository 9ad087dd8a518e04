"""What the options of `format("resurge")` mean, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import (
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from cloud_backend.dataframes.source import ResurgeSource
from cloud_backend.dataframes.stream_rows import ADDED
from shared.errors import UsageError
from shared.language.schema import Schema
from tests.cloud_backend.dataframes.test_stream_rows import ANN, Writer


def source(**options: object) -> ResurgeSource:
    return ResurgeSource(CaseInsensitiveDict({name: str(value) for name, value in options.items()}))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    schema = Schema.of({"v": "float64", "n": "uint32"})
    writer = Writer(tmp_path)
    writer.declare(ANN, "s", schema)
    writer.send(ANN, "s", schema, v=[1.0, 2.0], n=[1, 2])
    return writer.path


def test_the_schema_is_the_streams_with_what_every_row_has(log):
    assert source(log=log, stream="s").schema() == (
        "`v` double, `n` bigint, `_device` string, `_incarnation` bigint, `_edge` string, `_seq` bigint, "
        "`_time` timestamp, `_offset` bigint"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "say what to read"),
        ({"stream": "s"}, r'option\("log", \.\.\.\) is missing'),
        ({"stream": "s", "log": "nowhere"}, "there is no log at"),
        ({"stream": "s", "log": "LOG", "epochs": "1..2"}, "stream has no option 'epochs'"),
        ({"stream": "s", "log": "LOG", "mode": "LOUD"}, "mode is one of FAILFAST, DROPMALFORMED"),
        ({"stream": "s", "log": "LOG", "device": "tram"}, "whole id of 32 hex digits"),
        ({"stream": "t", "log": "LOG"}, r"no device has declared a stream 't' in this log \(s\)"),
        ({"table": "ledgers", "log": "LOG"}, "say what to read"),
        ({"edge": "e", "store": "nowhere"}, "no job store"),
        ({"sink": "s", "results": "nowhere"}, "no results store"),
        ({"roster": "nowhere"}, "no roster"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(options, said, log):
    given = {name: log if value == "LOG" else value for name, value in options.items()}
    with pytest.raises(UsageError, match=said) as refused:
        everything(**given)
    assert "\n" not in refused.value.message


def everything(**options: object) -> list[object]:
    table = source(**options)._table(None)
    table.columns()
    return [batch for piece in table.pieces() for batch in table.read(piece)]


def test_unsigned_columns_come_with_the_types_that_spark_hands_back(tmp_path):
    kinds = ("uint8", "uint16", "uint32", "uint64", "int64")
    schema = Schema.of({kind: kind for kind in kinds})
    writer = Writer(tmp_path)
    writer.declare(ANN, "s", schema)
    most = {kind: [np.iinfo(kind).max, 0] for kind in kinds}
    writer.send(ANN, "s", schema, **most)
    types = {"uint8": ShortType(), "uint16": IntegerType(), "uint32": LongType(), "uint64": DecimalType(20, 0)}
    added = {"_device": StringType(), "_edge": StringType(), "_time": TimestampType()}
    handed = StructType()
    for name in (*kinds, *ADDED):
        handed = handed.add(name, types.get(name) or added.get(name) or LongType())
    reader = source(log=writer.path, stream="s").reader(handed)
    (batch,) = (batch for part in reader.partitions() for batch in reader.read(part))
    assert {kind: list(map(int, batch.column(kind).to_pylist())) for kind in kinds} == most


def test_a_stream_that_is_followed_has_no_end(log):
    with pytest.raises(UsageError, match="endingOffset is for reading"):
        source(log=log, stream="s", endingOffset=5).streamReader(None)


@pytest.mark.parametrize(
    ("given", "said"), [("soon", "whole numbers"), ("-5", "was trimmed"), ("FIRST+3", "no record of the log begins at")]
)
def test_a_starting_offset_is_a_place_in_the_log(given, said, log):
    (batch,) = everything(log=log, stream="s")
    given = given.replace("FIRST+3", str(batch.column("_offset")[0].as_py() + 3))
    with pytest.raises(UsageError, match=said):
        source(log=log, stream="s", startingOffset=given)._table(None).pieces()


def test_only_a_stream_can_be_followed(log):
    with pytest.raises(UsageError, match="only a stream of a log can be followed"):
        source(log=log, table="ledger").streamReader(None)
