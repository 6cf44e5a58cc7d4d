"""The rows and columns that a program asks for."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from pipeline.sources.selection import Selection
from pipeline.sources.spark import SparkReader
from pipeline.table import ZNODES
from tests.pipeline.trees import MemoryReader, node

PATHS = st.text("/a-\u00e9\U0001f600", max_size=4).map(lambda text: f"/{text}")
_ONLY_PATHS = pa.schema([ZNODES.field("path")])


@given(st.lists(PATHS, min_size=1), PATHS)
def test_a_page_that_may_be_skipped_has_no_wanted_path(paths: list[str], subtree: str) -> None:
    selection = Selection(subtree=subtree)
    wanted = [path for path in paths if subtree == "/" or path == subtree or path.startswith(f"{subtree}/")]
    batch = pa.RecordBatch.from_arrays([pa.array(paths)], schema=_ONLY_PATHS)
    assert selection.of(batch).column(0).to_pylist() == wanted
    ordered = sorted(paths, key=str.encode)
    assert selection.may_match(ordered[0], ordered[-1]) or not wanted


def test_times_are_timestamps_if_the_program_says_so() -> None:
    wanted = StructType().add("path", StringType()).add("mtime", TimestampType()).add("ctime", LongType())
    reader = SparkReader(MemoryReader([node("/a", mtime=1_700_000_000_123, ctime=5)]), ZNODES, wanted)
    (batch,) = map(reader.selection.of, reader.batches(reader.partitions()[0].value))
    moment = datetime.fromtimestamp(1_700_000_000, UTC).replace(microsecond=123_000)
    assert batch.to_pylist() == [{"path": "/a", "mtime": moment, "ctime": 5}]
    for name in ("czxid", "other"):
        with pytest.raises(ValueError, match=f"no column {name} timestamp"):
            SparkReader(MemoryReader([]), ZNODES, StructType().add(name, TimestampType()))
