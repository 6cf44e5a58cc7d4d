"""Data directories and Parquet tables as tables for jobs, with the options of the command line for them."""

import argparse
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import Failure
from pipeline.formats import directory
from pipeline.formats.directory import REPAIRS, Survey
from pipeline.running.table import Table
from pipeline.sources.options import Options, options_of
from pipeline.sources.parquet import PREFIX, ParquetReader, RemoteParquet, local_path
from pipeline.sources.zookeeper_files import ZnodeReader
from pipeline.sources.zookeeper_log import LogReader


class Directory(NamedTuple):
    """A data directory."""

    survey: Survey
    znodes: Table
    options: Options

    def transactions(self) -> Table:
        """All existing logs. Raises BadFile."""
        _, logs = directory.files(self.options.path, self.options.log_path)
        return Table(LogReader(self.options), None, sum(Path(file).stat().st_size for file in logs))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for reading a directory."""
    add = parser.add_argument
    add("--data-log-dir", metavar="DIR", help="ZooKeeper's dataLogDir, if its logs lie elsewhere")
    add("--snapshot", metavar="NAME", help="start from this snapshot instead of the newest valid one")
    add(
        "--repair",
        default="",
        metavar="WHAT",
        help=f"damage of files to accept, separated by commas: {', '.join(sorted(REPAIRS))}",
    )


def check_options(arguments: argparse.Namespace, *trees: str) -> None:
    """Raises Failure for an option that none of the trees uses."""
    if not all(tree.startswith(PREFIX) or "://" in tree for tree in trees):
        return
    for option, value in (
        ("--data-log-dir", arguments.data_log_dir),
        ("--snapshot", arguments.snapshot),
        ("--repair", arguments.repair),
    ):
        if value:
            raise Failure(f"{option} is for data directories: {', '.join(trees)} is none")


def check_repair(words: str) -> None:
    """Raises Failure if --repair names something that is not in REPAIRS."""
    unknown = frozenset(filter(None, words.split(","))) - REPAIRS
    if unknown:
        raise Failure(f"--repair is of {', '.join(sorted(REPAIRS))}, not {', '.join(sorted(unknown))}")


def of_directory(path: str, arguments: argparse.Namespace) -> Directory:
    """A directory's state and nodes. Raises BadFile, Failure."""
    if not path:
        raise Failure("the path of a data directory is empty: name a dataDir, as /var/lib/zk")
    check_repair(arguments.repair)
    given = {
        "path": path,
        "dataLogDir": arguments.data_log_dir,
        "snapshot": arguments.snapshot,
        "repair": arguments.repair,
    }
    options = options_of({name: value for name, value in given.items() if value})
    return directory_of(options)


def directory_of(options: Options) -> Directory:
    """The same, for parsed options. Raises BadFile."""
    survey = options.survey()
    rows = directory.nodes_about(survey)
    return Directory(survey, Table(ZnodeReader(options, survey), rows, survey.checked.size), options)


def of_parquet(name: str) -> Table:
    """The table that `parquet:DIRECTORY` names. Raises Failure."""
    path = local_path(name)
    if path is None:
        return Table(RemoteParquet(name.removeprefix(PREFIX)))
    reader = ParquetReader(path)
    return Table(reader, reader.rows, reader.bytes)


class Side(NamedTuple):
    """A tree."""

    name: str
    znodes: Table
    on_the_wire: bool  # as clients see it: containers and TTL nodes look like other nodes
    directory: Directory | None  # None: it is not one
    # Before the walk of a running ensemble: a larger one in a node shows writes during the walk.
    zxid: int | None
