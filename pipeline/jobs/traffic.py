"""`zketcd inspect --traffic SOURCE`: what clients wrote, from a log.

One process has to replay zketcd's log. So this process does it, and reads small logs of ZooKeeper, without
Spark. Spark reads large logs, and tables that a stream has written. What these and logs of ZooKeeper need is
imported where it is used: a log of zketcd is read without the pipeline's libraries.
"""

import argparse
import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from archive.files.moment import NOW
from cli.output import show
from pipeline.addresses import ARCHIVE, ETCD, PARQUET, is_in_etcd
from pipeline.errors import Failure, MissingPackage
from pipeline.etcd import log
from pipeline.etcd.options import Connection
from pipeline.etcd.reach import reached
from pipeline.etcd.replayed import replayed
from pipeline.options import check_trees
from pipeline.sources.archive_log import ArchiveOptions, ArchiveReader, rows_of
from pipeline.traffic import report
from pipeline.traffic.budgets import VIEW as BUDGETS
from pipeline.traffic.budgets import Request as BudgetedRequest
from pipeline.traffic.budgets import Trial
from pipeline.traffic.database import Database
from pipeline.traffic.report import Query, Report, Section
from pipeline.traffic.table import TrafficRow, check
from proxy.support.libraries import how_to_add
from proxy.support.rates import rules_of
from schema.budgets import Rule

_LARGE = 256 << 20  # bytes; Spark reads logs from this size on; about a million transactions
_LARGE_ARCHIVE = 64 << 20  # bytes; its segments are compressed
_HTML, _PNG = ".html", ".png"


def run(arguments: argparse.Namespace) -> int:
    """Read, print, write the report."""
    _check_options(arguments)
    write = None if arguments.report is None else _writer(arguments.report)
    trial = Trial(_rules(arguments.budget)) if arguments.budget else None
    with _query(arguments, trial) as query:
        more = [] if trial is None else [Section(BUDGETS, trial.rows)]
        found = report.made(arguments.tree, query, max(1, arguments.top), more)
    show(json.dumps(report.document(found), indent=2) if arguments.json else report.text(found))
    if write is not None:
        write(found)
    return 0


def _rules(texts: Sequence[str]) -> tuple[Rule, ...]:
    """Raises Failure for what is no budget, or gives a path two of them."""
    try:
        return rules_of(",".join(texts))
    except ValueError as error:
        raise Failure(f"--budget: {error}") from error


def _check_options(arguments: argparse.Namespace) -> None:
    """Raises Failure for options that have no effect here."""
    for option, value in (("--snapshot", arguments.snapshot), ("--no-logs", arguments.no_logs)):
        if value:
            raise Failure(f"--traffic has no use for {option}: it reads all logs, and nothing else")
    if arguments.at != NOW:
        raise Failure("--traffic reads a time, not a moment: --since and --until instead of --at")
    for option, value in (("--since", arguments.since), ("--until", arguments.until)):
        if value and not arguments.tree.startswith(ARCHIVE):
            raise Failure(f"{option} is for {ARCHIVE}URL: other logs are read as a whole")
    check_trees(arguments, arguments.tree)


def _writer(name: str) -> Callable[[Report], None]:
    """The function that writes the report. Raises Failure now, before the work, if it cannot."""
    file = Path(name)
    kind = file.suffix.lower()
    if kind not in (_HTML, _PNG):
        raise Failure(f"--report {name}: the name has to end with {_HTML} or {_PNG}")
    if not file.parent.is_dir():
        raise Failure(f"--report {name}: there is no directory {file.parent}")
    if file.is_dir():
        raise Failure(f"--report {name}: {file.name} is a directory")
    try:
        from pipeline.traffic import plots
    except ImportError as error:
        raise MissingPackage(f"--report needs the package {error.name}: {how_to_add('pipeline')}") from error

    def write(found: Report) -> None:
        content = plots.png(found) if kind == _PNG else report.page(found, plots.svgs(found)).encode()
        try:
            file.write_bytes(content)
        except OSError as error:
            raise Failure(f"--report {name}: {error.strerror}") from error

    return write


@contextlib.contextmanager
def _query(arguments: argparse.Namespace, trial: Trial | None) -> Iterator[Query]:
    """The views of the source's traffic, on SQLite or Spark. `trial` sees all rows."""
    source: str = arguments.tree
    in_etcd = is_in_etcd(source)
    in_archive = source.startswith(ARCHIVE)
    if "://" in source and not in_etcd and not in_archive and not source.startswith(PARQUET):
        urls = ", ".join(f"{scheme}://HOST:PORT/PREFIX" for scheme in ETCD)
        raise Failure(
            f"{source}: --traffic reads {urls}, {ARCHIVE}URL, {PARQUET}DIRECTORY or a ZooKeeper directory"
        )
    if _wants_spark(arguments, in_etcd):
        with _on_spark(arguments, in_etcd, trial) as query:
            yield query
        return
    if in_etcd:
        rows = iter(asyncio.run(_applied(Connection.from_url(source, arguments))))
    elif in_archive:
        rows = _archived(arguments)
    else:
        rows = _logged(arguments)
    with contextlib.closing(Database()) as database:
        database.add(rows if trial is None else trial.passing(rows), arguments.depth)
        yield database.query


def _wants_spark(arguments: argparse.Namespace, in_etcd: bool) -> bool:
    if arguments.tree.startswith(PARQUET):
        _check_table(arguments)
        return True
    if arguments.spark is not None:
        return bool(arguments.spark)
    if arguments.tree.startswith(ARCHIVE):
        return ArchiveReader(_archive(arguments)).bytes > _LARGE_ARCHIVE
    return not in_etcd and _log_bytes(arguments) > _LARGE


def _check_table(arguments: argparse.Namespace) -> None:
    """Refuse at once what Spark would refuse only after its start. Raises Failure, ValueError."""
    if arguments.spark is False:
        raise Failure(f"{arguments.tree}: only Spark reads a table of traffic; --no-spark was given")
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    from pipeline.sources import parquet

    path = parquet.local_path(arguments.tree)
    if path is None:
        return

    folder = Path(path)
    files = sorted(folder.rglob("*.parquet")) or parquet.files_of(path, "traffic")  # it may be partitioned
    folders = files[0].relative_to(folder).parts if folder.is_dir() else ()
    try:
        names = read_schema(files[0]).names
    except (ArrowException, OSError) as error:
        raise Failure(f"{files[0]} is no Parquet file: {error}") from error
    check([*names, *(part.partition("=")[0] for part in folders)])


async def _applied(connection: Connection) -> list[TrafficRow]:
    """All requests in zketcd's log. Raises NotReadable, TreeNotServable, EtcdError."""
    async with reached(connection) as etcd:
        start, end = await log.whole(etcd, connection.keys)
        return await replayed(etcd, connection.keys, start, end)


def _archive(arguments: argparse.Namespace) -> ArchiveOptions:
    return ArchiveOptions.of(_archive_options(arguments), results=True)


def _archive_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The options of the format "zketcd-archive"."""
    given = {"path": arguments.tree.removeprefix(ARCHIVE), "since": arguments.since, "until": arguments.until}
    return {name: value for name, value in given.items() if value}


def _archived(arguments: argparse.Namespace) -> Iterator[TrafficRow]:
    """All requests in an archive, of the wanted time. Raises Failure, ValueError."""
    reader = ArchiveReader(_archive(arguments))
    for stretch in reader.partitions():
        for rows in rows_of(reader.options, stretch):
            yield from rows


def _directory(arguments: argparse.Namespace) -> dict[str, str]:
    """The options of the format "zookeeper"."""
    from pipeline.sources.options import TRAFFIC_TABLE, local_path

    given = {
        "path": local_path(arguments.tree),
        "table": TRAFFIC_TABLE,
        "dataLogDir": arguments.data_log_dir,
        "repair": arguments.repair,
    }
    return {name: value for name, value in given.items() if value}


def _log_bytes(arguments: argparse.Namespace) -> int:
    from pipeline.formats import directory

    given = _directory(arguments)
    snapshots, logs = directory.files(given["path"], given.get("dataLogDir"))
    if not snapshots and not logs:
        raise Failure(f"{arguments.tree}: holds no snapshot and no log")
    return sum(Path(file).stat().st_size for file in logs)


def _logged(arguments: argparse.Namespace) -> Iterator[TrafficRow]:
    """All requests in ZooKeeper's logs. Raises BadFile."""
    from pipeline.sources.options import options_of
    from pipeline.sources.zookeeper_log import LogReader, traffic_rows

    for run in LogReader(options_of(_directory(arguments))).partitions():
        yield from traffic_rows(run)


@contextlib.contextmanager
def _on_spark(arguments: argparse.Namespace, in_etcd: bool, trial: Trial | None) -> Iterator[Query]:
    """Raises MissingPackage."""
    source: str = arguments.tree
    try:
        from pipeline.sources import parquet
        from pipeline.sources.options import TRAFFIC_TABLE, local_path
        from pipeline.sources.traffic_views import register_views
        from pipeline.spark import session
    except ModuleNotFoundError as error:
        raise MissingPackage(
            f"{source} needs Spark, which is not installed: {how_to_add('pipeline')}"
        ) from error
    spark = session("zketcd traffic")
    if source.startswith(PARQUET):
        path = parquet.local_path(source)
        frame = spark.read.parquet(source.removeprefix(PARQUET) if path is None else local_path(path))
    elif source.startswith(ARCHIVE):
        frame = spark.read.format("zketcd-archive").options(**_archive_options(arguments)).load()
    elif in_etcd:
        options = {**Connection.from_url(source, arguments).options(), "table": TRAFFIC_TABLE}
        frame = spark.read.format("zketcd").options(**options).load()
    else:
        frame = spark.read.format("zookeeper").options(**_directory(arguments)).load()
    frame = frame.persist()
    try:
        register_views(frame, arguments.depth)
        if trial is not None:
            rows = frame.orderBy("position", "number", "request", "zxid").select(*BudgetedRequest._fields)
            for row in rows.toLocalIterator():
                trial.count(BudgetedRequest(*row))

        def query(sql: str) -> list[dict[str, Any]]:
            return [row.asDict() for row in spark.sql(sql).collect()]

        yield query
    finally:
        frame.unpersist()
