"""`python -m bench.pipeline.make NODES DIRECTORY`: so many znodes in a snapshot, and a log behind it."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bench.pipeline import tree
from pipeline.batches import ROWS, batch_of
from pipeline.formats import log, transactions
from pipeline.sources.spark import struct_of
from pipeline.spark import session
from pipeline.table import ZNODES

_TABLES_A_TASK = 50
_PADDING = 1 << 16


def frame(spark: SparkSession, nodes: int) -> DataFrame:
    """The tree as a table of znodes, made on the workers."""
    tables = tree.tables_of(nodes)

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                rows = list(tree.trunk(nodes) if number < 0 else tree.table(number))
                for start in range(0, len(rows), ROWS):
                    yield batch_of(rows[start : start + ROWS])

    numbers = spark.range(-1, tables, 1, max(1, tables // _TABLES_A_TASK))
    return numbers.mapInArrow(make, struct_of(ZNODES))


def snapshot(spark: SparkSession, nodes: int, folder: str) -> None:
    """Write the tree into a data directory, with the digest that ZooKeeper would have written."""
    options = {
        "zxid": str(tree.last_zxid(nodes)),
        "sessions": json.dumps([list(row) for row in tree.sessions()]),
        "trailer": "full",
    }
    frame(spark, nodes).write.format("zookeeper").options(**options).mode("append").save(folder)


def write_log(nodes: int, inserts: int, folder: str) -> None:
    """Write a log of `inserts` transactions behind the tree's snapshot."""
    made = tree.inserts(nodes, inserts)
    first = next(made, None)
    if first is None:
        return
    with (Path(folder) / "version-2" / f"log.{first[0].zxid:x}").open("wb") as file:
        file.write(log.pack_header())
        file.writelines(log.pack_entry(transactions.pack(parts)) for parts in chain([first], made))
        file.write(bytes(_PADDING))


def main(arguments: Sequence[str] | None = None) -> int:
    """Make one tree."""
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline.make", description=__doc__)
    parser.add_argument("nodes", type=int)
    parser.add_argument("folder")
    parser.add_argument("--inserts", type=int, default=0, help="transactions of a log behind the snapshot")
    given = parser.parse_args(arguments)
    spark = session("zketcd bench")
    snapshot(spark, given.nodes, given.folder)
    write_log(given.nodes, given.inserts, given.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
