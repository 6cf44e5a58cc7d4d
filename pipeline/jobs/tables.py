"""Data directories and Parquet tables as frames of znodes, with the options of the command line for them."""

import argparse
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from pipeline.errors import Failure
from pipeline.formats import directory
from pipeline.formats.directory import REPAIRS, Survey
from pipeline.jobs.rows import Rows
from pipeline.sources.spark import struct_of
from pipeline.sources.zookeeper import ZooKeeperSource
from pipeline.table import ZNODES

PARQUET = "parquet:"


class Directory(NamedTuple):
    """A data directory."""

    survey: Survey
    znodes: DataFrame

    def rows(self, spark: SparkSession, path: str, arguments: argparse.Namespace) -> Rows:
        """Its nodes, read where they are worked on."""
        source = ZooKeeperSource({"path": str(Path(path).absolute()), **_options(arguments)})
        return Rows(spark, self.znodes, source.reader(struct_of(ZNODES)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How to read a directory."""
    add = parser.add_argument
    add("--data-log-dir", metavar="DIR", help="ZooKeeper's dataLogDir, if its logs lie elsewhere")
    add("--snapshot", metavar="NAME", help="start from this snapshot instead of the newest valid one")
    add(
        "--repair",
        default="",
        metavar="WHAT",
        help=f"damage of files to accept, separated by commas: {', '.join(sorted(REPAIRS))}",
    )


def of_directory(spark: SparkSession, path: str, arguments: argparse.Namespace) -> Directory:
    """A directory's state and nodes. Raises BadFile, Failure."""
    repair = frozenset(filter(None, arguments.repair.split(",")))
    if repair - REPAIRS:
        unknown = ", ".join(sorted(repair - REPAIRS))
        raise Failure(f"--repair is of {', '.join(sorted(REPAIRS))}, not {unknown}")
    survey = directory.survey(path, arguments.data_log_dir, chosen=arguments.snapshot, repair=repair)
    return Directory(survey, directory_reader(spark, arguments).load(str(Path(path).absolute())))


def of_parquet(spark: SparkSession, name: str) -> DataFrame:
    """The table that `parquet:DIRECTORY` names. Raises Failure."""
    path = name.removeprefix(PARQUET)
    frame = spark.read.parquet(path)
    missing = [field.name for field in struct_of(ZNODES) if field.name not in frame.columns]
    if missing:
        raise Failure(f"{path} is no table of znodes: the columns {', '.join(missing)} are missing")
    types = [(field.name, field.dataType.simpleString()) for field in struct_of(ZNODES)]
    wrong = [
        f"{name} is not of {kind}"
        for name, kind in types
        if frame.schema[name].dataType.simpleString() != kind
    ]
    if wrong:
        raise Failure(f"{path} is no table of znodes: {', '.join(wrong)}")
    return frame.select(ZNODES.names)


def parent_of_column(path: str) -> Column:
    """schema.paths.parent_of of a column of paths other than the root's."""
    parent = F.regexp_replace(path, "/[^/]*$", "")
    return F.when(parent == "", "/").otherwise(parent)


def directory_reader(spark: SparkSession, arguments: argparse.Namespace) -> DataFrameReader:
    """A reader of directories as the command line wants them."""
    return spark.read.format("zookeeper").options(**_options(arguments))


def _options(arguments: argparse.Namespace) -> dict[str, str]:
    options = {
        "dataLogDir": arguments.data_log_dir,
        "snapshot": arguments.snapshot,
        "repair": arguments.repair,
    }
    return {option: value for option, value in options.items() if value}
