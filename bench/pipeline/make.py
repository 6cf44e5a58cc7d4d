"""`python -m bench.pipeline.make NODES DIRECTORY`: so many znodes in a snapshot, and a log behind it."""

import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from bench.pipeline import tree
from pipeline.batches import batch_of
from pipeline.formats import log, transactions
from pipeline.options import add_progress, add_spark
from pipeline.reading import Runner, Table
from pipeline.running import runner as running
from pipeline.sources.zookeeper_sink import SinkOptions, ZooKeeperWriter, folder_of
from pipeline.table import ZNODES
from proxy.support.usage import Parser

_TABLES_A_TASK = 50
_PADDING = 1 << 16
_ROWS = 4096  # in one batch


class TreeReader(NamedTuple):
    """The tree as a table of znodes, made where it is read."""

    nodes: int

    def partitions(self) -> list[range]:
        """Numbers of tables; -1 is what is above them."""
        tables = tree.tables_of(self.nodes)
        return [
            range(start, min(start + _TABLES_A_TASK, tables)) for start in range(-1, tables, _TABLES_A_TASK)
        ]

    def read(self, partition: range) -> Iterator[pa.RecordBatch]:
        """Their rows."""
        for number in partition:
            rows = list(tree.trunk(self.nodes) if number < 0 else tree.table(number))
            for start in range(0, len(rows), _ROWS):
                yield batch_of(rows[start : start + _ROWS])


def table(nodes: int) -> Table:
    """The tree, for a runner."""
    return Table(TreeReader(nodes), nodes)


def snapshot(runner: Runner, nodes: int, folder: str) -> None:
    """Write the tree into a data directory, with the digest that ZooKeeper would have written."""
    options = SinkOptions(folder_of(folder), tree.last_zxid(nodes), tree.sessions(), "full", "", False)
    writer = ZooKeeperWriter(options, ZNODES.names)
    try:
        writer.commit(runner.each("make", table(nodes), writer.write))
    finally:
        writer.abort()


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
    parser = Parser(prog="python -m bench.pipeline.make", description=__doc__)
    parser.add_argument("nodes", type=int)
    parser.add_argument("folder")
    parser.add_argument("--inserts", type=int, default=0, help="transactions of a log behind the snapshot")
    add_spark(parser)
    add_progress(parser)
    given = parser.parse_args(arguments)
    snapshot(running.runner_for(given, "zketcd bench", [table(given.nodes)]), given.nodes, given.folder)
    write_log(given.nodes, given.inserts, given.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
