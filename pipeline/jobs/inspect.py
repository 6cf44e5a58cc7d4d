"""`python -m pipeline inspect`: what a tree holds, and what its logs tell of the writes.

One pass over the tree makes a slim table, which the questions are then asked of.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from codec.constants import ErrorCode, OpCode
from pipeline.formats.directory import Survey
from pipeline.jobs import sides, tables
from pipeline.jobs.progress import told
from pipeline.jobs.sides import Side
from pipeline.jobs.summary import number, positive
from pipeline.spark import session

_EPHEMERAL = "ephemeral"
_KINDS = ("persistent", _EPHEMERAL, "container", "ttl")

Report = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add = parser.add_argument
    add("tree", help="a ZooKeeper directory, parquet:DIRECTORY, zk://HOST:PORT or etcd://HOST:PORT/PREFIX")
    sides.add_arguments(parser)
    add("--top", type=number, default=10, metavar="N", help="lines of each list (default: 10)")
    add(
        "--depth",
        type=positive,
        default=3,
        metavar="N",
        help="number of names in a path prefix (default: 3)",
    )
    add("--no-logs", action="store_true", help="leave out the statistics of a directory's logs")
    add("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Look, print, and return 0; 1 where the tree's digest is not the one that its files promise."""
    spark = session("zketcd inspect")
    side = sides.side_of(spark, arguments.tree, arguments)
    with told(spark, "inspect"):
        report = {} if side.survey is None else files_report(side.survey)
        report |= tree_report(side, arguments.top, arguments.depth)
        if side.survey is not None and not arguments.no_logs:
            reader = tables.directory_reader(spark, arguments).option("table", "transactions")
            frame = reader.load(str(Path(arguments.tree).absolute()))
            report |= log_report(frame, arguments.top, arguments.depth)
    print(json.dumps(report, indent=2) if arguments.json else _text(report))
    return 1 if str(report.get("digest", "")).startswith("WRONG") else 0


def files_report(survey: Survey) -> Report:
    """What the files' heads say."""
    logs = ", ".join(Path(log.file).name for log in survey.logs)
    return {
        "snapshot": f"{Path(survey.snapshot).name}, {survey.checked.size} bytes uncompressed"
        + (", fuzzy" if survey.fuzzy else ""),
        "logs behind it": f"{logs or 'none'}, {survey.transactions} transactions",
        "zxid": f"{survey.snapshot_zxid:#x} to {survey.last_zxid:#x}",
        "sessions": len(survey.sessions),
        "passed over": [other.reason for other in survey.rejected],
        "notes": list(survey.notes),
    }


def tree_report(side: Side, top: int, depth: int) -> Report:
    """What the tree holds. `depth` is how many steps of a path make a prefix."""
    slim = _slim(side.znodes, depth).persist()
    try:
        total = slim.agg(
            F.count("*").alias("nodes"),
            F.sum("bytes").alias("bytes"),
            F.max("zxid").alias("zxid"),
            F.max(F.size(F.split("path", "/"))).alias("depth"),
            F.sum("crc").alias("digest"),
            F.sum("ascii_crc").alias("ascii_digest"),
            F.count_if(F.col("is_null")).alias("null"),
            *(F.count_if(F.col("kind") == kind).alias(kind) for kind in _KINDS),
        ).first()
        assert total is not None
        report: Report = {
            "nodes": total["nodes"],
            "bytes of data": total["bytes"] or 0,
            "nodes with null data": total["null"],
            "depth": max(0, (total["depth"] or 1) - 1),
            "largest zxid in a node": f"{total['zxid'] or 0:#x}",
            **{f"{kind} nodes": total[kind] for kind in _KINDS},
        }
        if side.survey is not None:
            report["digest"] = _judged(side.survey.digest, total["digest"] or 0, total["ascii_digest"] or 0)
        children = (
            slim.filter("path != '/'")
            .groupBy("parent")
            .agg(
                F.count("*").alias("children"),
                # As getChildren answers them: a length and the name.
                F.sum(F.octet_length("name") + 4).alias("bytes of names"),
            )
        )
        report["largest lists of children"] = _top(children, "children", top)
        report["largest data"] = _top(slim.select("path", "bytes"), "bytes", top)
        prefixes = slim.groupBy("prefix").agg(
            F.count("*").alias("nodes"),
            F.sum("bytes").alias("bytes"),
            F.count_if(F.col("kind") == _EPHEMERAL).alias("ephemerals"),
        )
        report["prefixes"] = _top(prefixes, "nodes", top)
        owners = (
            slim.filter(F.col("kind") == _EPHEMERAL)
            .groupBy("session", "prefix")
            .agg(F.count("*").alias("ephemerals"))
        )
        report["owners of ephemerals"] = _top(owners, "ephemerals", top)
        report["ACLs"] = _top(slim.groupBy("acl").agg(F.count("*").alias("nodes")), "nodes", top)
        return report
    finally:
        slim.unpersist()


def log_report(frame: DataFrame, top: int, depth: int) -> Report:
    """What the logs say of the writes, all of them that are there."""
    rows = frame.select(
        "zxid",
        "part",
        "type",
        "session_id",
        "error",
        (F.col("time") / 1000).cast("long").alias("second"),
        F.octet_length("data").alias("bytes"),
        _prefix(F.col("path"), depth).alias("prefix"),
    ).persist()
    try:
        spans = rows.agg(
            F.countDistinct("zxid").alias("transactions"),
            F.min("second").alias("first"),
            F.max("second").alias("last"),
            F.count_if(F.col("type") == OpCode.CREATE_SESSION).alias("opened"),
            F.count_if(F.col("type") == OpCode.CLOSE_SESSION).alias("closed"),
        ).first()
        assert spans is not None
        if not spans["transactions"]:
            return {"transactions in logs": 0}
        seconds = spans["last"] - spans["first"] + 1
        busiest = rows.groupBy("second").agg(F.countDistinct("zxid").alias("n")).agg(F.max("n")).first()
        assert busiest is not None
        operation = _named(F.col("type"), OpCode).alias("operation")
        kinds = rows.groupBy("type").agg(F.count("*").alias("writes"), F.sum("bytes").alias("bytes"))
        by_prefix = rows.filter("prefix is not null").groupBy(
            "prefix", _named(F.col("type"), OpCode).alias("operation")
        )
        parts = rows.filter("part >= 0").groupBy("zxid").agg(F.count("*").alias("parts"))
        return {
            "transactions in logs": spans["transactions"],
            "seconds": seconds,
            "transactions per second": round(spans["transactions"] / seconds, 1),
            "in the busiest second": busiest[0],
            "sessions opened": spans["opened"],
            "sessions closed": spans["closed"],
            "operations": _top(kinds.select(operation, "writes", "bytes"), "writes", 30),
            "writes by prefix": _top(
                by_prefix.agg(F.count("*").alias("writes"), F.sum("bytes").alias("bytes")), "writes", top
            ),
            "errors": _top(
                rows.filter("error is not null and error != 0")
                .groupBy(_named(F.col("error"), ErrorCode).alias("error"))
                .agg(F.count("*").alias("times")),
                "times",
                top,
            ),
            "parts of multis": _top(parts.groupBy("parts").agg(F.count("*").alias("multis")), "multis", top),
            "sessions by writes": _top(
                rows.groupBy(F.lower(F.hex("session_id")).alias("session")).agg(F.count("*").alias("writes")),
                "writes",
                top,
            ),
        }
    finally:
        rows.unpersist()


def _slim(znodes: DataFrame, depth: int) -> DataFrame:
    owner = F.col("owner")
    kind = (
        F.when(owner == 0, "persistent")
        .when(owner == F.lit(-(1 << 63)).cast("long"), "container")
        .when((owner < 0) & (F.shiftrightunsigned(owner, 56) == 0xFF), "ttl")
        .otherwise(_EPHEMERAL)
    )
    raw = F.when(F.col("path") == "/", "").otherwise(F.col("path"))
    # What a server whose locale is POSIX takes for the path.
    ascii_only = F.regexp_replace(raw, r"[^\x00-\x7f]", "?")
    return znodes.select(
        "path",
        tables.parent_of_column("path").alias("parent"),
        F.regexp_extract("path", "[^/]*$", 0).alias("name"),
        _prefix(F.col("path"), depth).alias("prefix"),
        F.coalesce(F.octet_length("data"), F.lit(0)).alias("bytes"),
        F.col("data").isNull().alias("is_null"),
        kind.alias("kind"),
        F.lower(F.hex("owner")).alias("session"),
        F.coalesce(_acl_text(), F.lit("open")).alias("acl"),
        F.greatest("czxid", "mzxid", "pzxid").alias("zxid"),
        _crc(raw).alias("crc"),
        _crc(ascii_only).alias("ascii_crc"),
    )


def _acl_text() -> Column:
    entry: Callable[[Column], Column] = lambda acl: F.concat_ws(":", acl["scheme"], acl["id"], acl["perms"])  # noqa: E731
    return F.array_join(F.transform("acl", entry), ", ")


def _prefix(path: Column, depth: int) -> Column:
    return F.when(path.isNotNull(), F.regexp_extract(path, rf"^((?:/[^/]+){{1,{depth}}}|/)", 1))


def _crc(path: Column) -> Column:
    """pipeline.formats.digest.of_node in Spark's own terms."""
    longs = [F.unhex(F.lpad(F.hex(name), 16, "0")) for name in ("czxid", "mzxid", "pzxid", "ctime", "mtime")]
    ints = [
        F.unhex(F.substring(F.lpad(F.hex(F.col(name).cast("long")), 16, "0"), 9, 8))
        for name in ("version", "created", "aversion")
    ]
    owner = F.unhex(F.lpad(F.hex("owner"), 16, "0"))
    data = F.coalesce("data", F.lit(b""))
    whole = F.concat(F.encode(path, "UTF-8"), data, *longs, *ints, owner)
    return F.when(path.startswith("/zookeeper/"), F.lit(0)).otherwise(F.crc32(whole))


def _judged(promised: int | None, total: int, ascii_total: int) -> str:
    if promised is None:
        return f"{total:#x}; the files do not say what it should be"
    if promised == total:
        return f"{total:#x}, as the files promise"
    if promised == ascii_total:
        return f"{total:#x}; as the files promise, of a server whose locale knew ASCII only"
    return f"WRONG: {total:#x}, but the files promise {promised & (1 << 64) - 1:#x}"


def _named(number: Column, names: type[OpCode] | type[ErrorCode]) -> Column:
    result = number.cast("string")
    for member in names:
        result = F.when(number == int(member), F.lit(member.name.lower())).otherwise(result)
    return result


def _top(frame: DataFrame, by: str, most: int) -> list[Report]:
    order = [F.col(by).desc(), *(F.col(name) for name in frame.columns if name != by)]
    return [row.asDict() for row in frame.orderBy(*order).limit(most).collect()]


def _text(report: Report) -> str:
    lines = []
    for name, value in report.items():
        if not isinstance(value, list):
            lines.append(f"{name:<26} {value}")
            continue
        if not value:
            continue
        rows = (_row(row) if isinstance(row, dict) else str(row) for row in value)
        lines += [f"\n{name}", *(f"  {row}" for row in rows)]
    return "\n".join(lines)


def _row(row: Report) -> str:
    numbers = [f"{value:>12} {name}" for name, value in row.items() if isinstance(value, int)]
    texts = [str(value) for value in row.values() if isinstance(value, str)]
    return "  ".join([*numbers, *texts])
