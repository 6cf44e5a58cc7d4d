"""Tables in Parquet files, without Spark: what is written is read, and what is no table is said."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.batches import of_rows, rows_of
from pipeline.errors import Failure
from pipeline.sources import parquet
from pipeline.sources.parquet import ParquetReader, ParquetWriter, local_path
from pipeline.table import ZNODES, AclRow, ZnodeRow
from tests.pipeline.trees import node

ROWS = [
    node("/", 0),
    node("/a", data=None),
    node("/b", data=b"1", acl=(AclRow(1, "ip", "::1"),)),
    *(node(f"/b/{number:03}", acl=()) for number in range(100)),
]


def read(path: Path) -> list[ZnodeRow]:
    reader = ParquetReader(str(path))
    parts = reader.partitions()
    rows = [row for part in parts for batch in reader.read(part) for row in rows_of(batch)]
    assert len(rows) == reader.rows
    return sorted(rows)


def test_there_and_back(tmp_path: Path) -> None:
    writer = ParquetWriter(str(tmp_path / "made" / "t"))
    parts = [writer.write(of_rows(ROWS[start::3])) for start in range(3)]
    again = writer.write(of_rows(ROWS[::3]))  # a task that ran twice: one of both counts
    assert not (tmp_path / "made" / "t").exists()
    writer.commit([again, *parts[1:]])
    assert read(tmp_path / "made" / "t") == ROWS
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["t"]
    with pytest.raises(Failure, match="is there already"):
        ParquetWriter(str(tmp_path / "made" / "t"))


def test_nothing_stays_of_what_was_broken_off(tmp_path: Path) -> None:
    writer = ParquetWriter(str(tmp_path / "t"))
    writer.write(of_rows(ROWS))
    writer.abort()
    assert list(tmp_path.iterdir()) == []


def test_small_row_groups_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_PARTITION", 50)
    pq.write_table(pa.Table.from_batches(of_rows(ROWS), ZNODES), tmp_path / "t", row_group_size=20)
    assert [part.groups for part in ParquetReader(str(tmp_path / "t")).partitions()] == [[0, 1, 2], [3, 4, 5]]
    assert read(tmp_path / "t") == ROWS


def test_columns_may_come_in_any_order_and_as_others_write_them(tmp_path: Path) -> None:
    table = pa.Table.from_batches(of_rows(ROWS), ZNODES)
    table = table.set_column(0, "path", table.column("path").cast(pa.large_string()))
    table = table.select(["owner", *[name for name in table.column_names if name != "owner"]])
    pq.write_table(table.append_column("more", pa.nulls(len(ROWS))), tmp_path / "0.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".0.parquet.crc").touch()
    assert read(tmp_path) == ROWS


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("drop", "the columns version, owner are missing"),
        ("type", "acl is not of array<struct<perms:int,scheme:string,id:string>>"),
    ],
)
def test_other_tables_are_told(tmp_path: Path, change: str, reason: str) -> None:
    table = pa.Table.from_batches(of_rows(ROWS[:2]), ZNODES)
    table = table.drop_columns(["version", "owner"]) if change == "drop" else table
    table = table.set_column(2, "acl", pa.array([1, 2])) if change == "type" else table
    pq.write_table(table, tmp_path / "0.parquet")
    with pytest.raises(Failure, match="is no table of znodes") as raised:
        ParquetReader(str(tmp_path))
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("name", "path"), [("parquet:/a", "/a"), ("parquet:file:///a", "/a"), ("parquet:s3a://b/t", None)]
)
def test_which_tables_are_here(name: str, path: str | None) -> None:
    assert local_path(name) == path
