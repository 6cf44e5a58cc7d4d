"""`zketcd inspect`: the contents of a tree, and the writes in its logs.

One pass over the tree, and one over its logs: every number is counted where the rows are read (tally.py).
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa

from cli.output import one_line, show
from codec.constants import ErrorCode, OpCode
from codec.jute import OPEN_ACL
from codec.longs import hex64, signed
from pipeline.errors import Failure
from pipeline.etcd import columns
from pipeline.formats.directory import Survey
from pipeline.job import Runner, Table
from pipeline.jobs.tally import Largest, List, Tally, key_of
from pipeline.jobs.trees import Tree, tree_of
from pipeline.options import check_trees
from pipeline.running import runner as running
from schema.paths import ROOT, prefix_of
from schema.znode import kind_of

_EPHEMERAL = "ephemeral"
_KINDS = ("persistent", _EPHEMERAL, "container", "ttl")
_TOTALS = "totals"
_MANY = 1000  # more keys than _TOTALS has
_MILLISECONDS = 1000

_CHILDREN = List("largest lists of children", ("parent",), ("children", "bytes of names"))
_DATA = List("largest data", ("path",), ("bytes",))
_PREFIXES = List("prefixes", ("prefix",), ("nodes", "bytes", "ephemerals"))
_OWNERS = List("owners of ephemerals", ("session", "prefix"), ("ephemerals",))
_ACLS = List("ACLs", ("acl",), ("nodes",))
_OF_TREES = (_CHILDREN, _DATA, _PREFIXES, _OWNERS, _ACLS)

_OPERATIONS = List("operations", ("operation",), ("writes", "bytes"))
_WRITES = List("writes by prefix", ("prefix", "operation"), ("writes", "bytes"))
_ERRORS = List("errors", ("error",), ("times",))
_PARTS = List("parts of multis", ("parts",), ("multis",))
_SESSIONS = List("sessions by writes", ("session",), ("writes",))
_OF_LOGS = (_OPERATIONS, _WRITES, _ERRORS, _PARTS, _SESSIONS)
_SECONDS = "seconds"

Report = dict[str, Any]


def run(arguments: argparse.Namespace) -> int:
    """Read, print, and return 0; 1 if the tree's digest is not the one in its files."""
    if arguments.report is not None:
        raise Failure("--report goes with --traffic")
    if arguments.budget:
        raise Failure("--budget goes with --traffic")
    if arguments.since or arguments.until:
        raise Failure("--since and --until go with --traffic archive:URL")
    check_trees(arguments, arguments.tree)
    tree = tree_of(arguments.tree, arguments)
    logs = None
    if tree.directory is not None and not arguments.no_logs:
        logs = tree.directory.transactions()
    read = [tree.znodes] if logs is None else [tree.znodes, logs]
    runner = running.runner_for(arguments, "zketcd inspect", read)
    report = {} if tree.directory is None else files_report(tree.directory.survey)
    report |= tree_report(runner, tree, arguments.top, arguments.depth)
    if logs is not None:
        report |= log_report(runner, logs, arguments.top, arguments.depth)
    show(json.dumps(report, indent=2) if arguments.json else _text(report))
    return 1 if str(report.get("digest", "")).startswith("WRONG") else 0


def files_report(survey: Survey) -> Report:
    """The data in the files' headers."""
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


def tree_report(runner: Runner, tree: Tree, top: int, depth: int) -> Report:
    """The contents of the tree. `depth` is how many names of a path make a prefix."""
    largest = Largest({_TOTALS: _MANY, **{one.name: top for one in _OF_TREES}})
    assign = _Tree(top, depth, tree.znodes.buckets)
    tops = largest.merged(runner.shuffled("inspect", [(tree.znodes, assign)], largest))
    total = dict(tops[_TOTALS])

    def count(name: str) -> int:
        return total[name][0] if name in total else 0

    def most(name: str) -> int:
        return total[name][3] if name in total else 0

    report: Report = {
        "nodes": count("nodes"),
        "bytes of data": count("bytes"),
        "nodes with null data": count("null"),
        "depth": most("depth"),
        "largest zxid in a node": f"{most('zxid'):#x}",
        **{f"{kind} nodes": count(kind) for kind in _KINDS},
    }
    if tree.directory is not None:
        promised = tree.directory.survey.digest
        report["digest"] = _judged(promised, count("digest"), count("ascii digest"))
    return report | {one.name: one.rows(tops) for one in _OF_TREES}


@dataclass(frozen=True)
class _Tree:
    """Counts the contents of a tree's rows."""

    top: int
    depth: int
    buckets: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        tally = Tally(self.buckets)
        for batch in batches:
            if batch.num_rows:
                self._add(tally, batch)
            yield from tally.full()
        yield from tally.rest()

    def _add(self, tally: Tally, batch: pa.RecordBatch) -> None:
        paths: list[str] = batch.column("path").to_pylist()
        sizes = columns.lengths(batch.column("data"))
        self._add_totals(tally, batch, paths, sizes)
        for at in numpy.argsort(-sizes, kind="stable")[: self.top].tolist():
            tally.add(_DATA.name, paths[at], int(sizes[at]))
        acls, indexes = columns.acl_table(batch.column("acl"))
        for acl, nodes in zip(acls, numpy.bincount(indexes, minlength=len(acls)).tolist(), strict=True):
            text = "open" if acl == OPEN_ACL else ", ".join(entry.text for entry in acl)
            tally.add(_ACLS.name, text, nodes)
        owners: list[int] = batch.column("owner").to_pylist()
        for path, size, owner in zip(paths, sizes.tolist(), owners, strict=True):
            prefix = prefix_of(path, self.depth)
            ephemeral = owner != 0 and kind_of(owner) == _EPHEMERAL
            tally.add(_PREFIXES.name, prefix, 1, size, int(ephemeral))
            if ephemeral:
                tally.add(_OWNERS.name, key_of(hex64(owner), prefix), 1)
            if path != ROOT:
                parent, _, name = path.rpartition("/")
                # Their size in getChildren's reply: a length and the name.
                tally.add(_CHILDREN.name, parent or ROOT, 1, 4 + len(name.encode()))

    def _add_totals(
        self, tally: Tally, batch: pa.RecordBatch, paths: list[str], sizes: columns.Numbers
    ) -> None:
        data = batch.column("data")
        zxid = max(int(columns.numbers(batch, name).max()) for name in ("czxid", "mzxid", "pzxid"))
        shares = columns.hashes(batch)
        # The paths' bytes at a server whose locale is POSIX.
        narrow = shares if "".join(paths).isascii() else columns.hashes(batch, ascii_only=True)
        owners, counts = numpy.unique(columns.numbers(batch, "owner"), return_counts=True)
        for owner, nodes in zip(owners.tolist(), counts.tolist(), strict=True):
            tally.add(_TOTALS, kind_of(owner), nodes)
        for name, value in (
            ("nodes", batch.num_rows),
            ("bytes", int(sizes.sum())),
            ("null", data.null_count),
            ("digest", sum(shares)),
            ("ascii digest", sum(narrow)),
        ):
            tally.add(_TOTALS, name, value)
        tally.add(_TOTALS, "zxid", most=zxid)
        tally.add(_TOTALS, "depth", most=max(path.count("/") for path in paths))


def log_report(runner: Runner, logs: Table, top: int, depth: int) -> Report:
    """The writes in all existing logs."""
    most = {one.name: top for one in _OF_LOGS} | {_OPERATIONS.name: _MANY}
    largest = Largest({_TOTALS: _MANY, _SECONDS: 1, **most})
    found = runner.shuffled("inspect logs", [(logs, _Log(depth, logs.buckets))], largest, "log rows")
    tops = largest.merged(found)
    total = dict(tops[_TOTALS])
    if not total:
        return {"transactions in logs": 0}
    transactions = total["transactions"][0]
    seconds = total["last"][3] + total["first"][3] + 1
    report: Report = {
        "transactions in logs": transactions,
        "seconds": seconds,
        "transactions per second": round(transactions / seconds, 1),
        "in the busiest second": tops[_SECONDS][0][1][0],
        "sessions opened": total["opened"][0],
        "sessions closed": total["closed"][0],
    }
    report |= {one.name: one.rows(tops) for one in _OF_LOGS}
    report[_PARTS.name] = [row | {"parts": int(row["parts"])} for row in report[_PARTS.name]]
    return report


@dataclass(frozen=True)
class _Log:
    """Counts the contents of a log's rows. The rows of a transaction are together, in one partition."""

    depth: int
    buckets: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        tally = Tally(self.buckets)
        parts = 0  # of the multi that the rows are in
        names = ("part", "type", "session_id", "error", "time", "data", "path")
        for batch in batches:
            table = [
                columns.lengths(batch.column(name)).tolist()
                if name == "data"
                else batch.column(name).to_pylist()
                for name in names
            ]
            for part, kind, session, error, time, size, path in zip(*table, strict=True):
                if part <= 0:
                    self._end_multi(tally, parts)
                    parts = 0
                    self._begin(tally, time // _MILLISECONDS)
                parts += part >= 0
                operation = _name(kind, OpCode)
                tally.add(_OPERATIONS.name, operation, 1, size)
                tally.add(_SESSIONS.name, hex64(session), 1)
                tally.add(_TOTALS, "opened", int(kind == OpCode.CREATE_SESSION))
                tally.add(_TOTALS, "closed", int(kind == OpCode.CLOSE_SESSION))
                if path is not None:
                    tally.add(_WRITES.name, key_of(prefix_of(path, self.depth), operation), 1, size)
                if error:
                    tally.add(_ERRORS.name, _name(error, ErrorCode), 1)
            yield from tally.full()
        self._end_multi(tally, parts)
        yield from tally.rest()

    def _begin(self, tally: Tally, second: int) -> None:
        tally.add(_TOTALS, "transactions", 1)
        tally.add(_SECONDS, str(second), 1)
        tally.add(_TOTALS, "last", most=second)
        tally.add(_TOTALS, "first", most=-second)

    def _end_multi(self, tally: Tally, parts: int) -> None:
        if parts:
            tally.add(_PARTS.name, f"{parts:09d}", 1)


def _judged(promised: int | None, total: int, ascii_total: int) -> str:
    if promised is None:
        return f"{hex64(total)}; the files do not say what it should be"
    if promised == signed(total):
        return f"{hex64(total)}, as the files promise"
    if promised == signed(ascii_total):
        return f"{hex64(total)}; as the files promise, of a server whose locale knew ASCII only"
    return f"WRONG: {hex64(total)}, but the files promise {hex64(promised)}"


def _name(number: int, names: type[OpCode] | type[ErrorCode]) -> str:
    try:
        return names(number).name.lower()
    except ValueError:
        return str(number)


def _text(report: Report) -> str:
    lines = []
    for name, value in report.items():
        if not isinstance(value, list):
            lines.append(f"{name:<26} {value}")
            continue
        if not value:
            continue
        rows = (_row(row) if isinstance(row, dict) else str(row) for row in value)
        lines += ["", name, *(f"  {row}" for row in rows)]
    return "\n".join(map(one_line, lines))


def _row(row: Report) -> str:
    numbers = [f"{value:>12} {name}" for name, value in row.items() if isinstance(value, int)]
    texts = [str(value) for value in row.values() if isinstance(value, str)]
    return "  ".join([*numbers, *texts])
