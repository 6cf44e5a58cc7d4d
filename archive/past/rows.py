"""A tree, or a history, as rows of a table, and these as JSON lines or CSV.

Data that are text are in the column `data`; other data are in `data_base64`, so that nothing is lost.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from archive.past.history import Event
from codec.constants import Perms
from codec.packets import STAT
from proxy.state.acl import shown
from proxy.state.auth.scheme import Identities
from proxy.state.feed import data_members
from proxy.state.machine import Machine
from proxy.state.node import Node
from proxy.state.rights import permits
from schema.paths import ROOT, parent_of

Row = dict[str, Any]

_END = "\r\n"  # of a line of CSV, while it is made


class Column(NamedTuple):
    """`type`: of Arrow: string, binary, int32, int64, time (milliseconds), strings, or bool."""

    name: str
    type: str


TREE = (
    Column("path", "string"),
    Column("data", "binary"),
    Column("data_length", "int32"),
    Column("readable", "bool"),
    Column("czxid", "int64"),
    Column("mzxid", "int64"),
    Column("pzxid", "int64"),
    Column("ctime", "time"),
    Column("mtime", "time"),
    Column("version", "int32"),
    Column("cversion", "int32"),
    Column("aversion", "int32"),
    Column("ephemeral_owner", "int64"),
    Column("num_children", "int32"),
    Column("acl", "strings"),
)
HISTORY = (
    Column("time", "time"),
    Column("zxid", "int64"),
    Column("position", "int64"),
    Column("path", "string"),
    Column("change", "string"),
    Column("operation", "string"),
    Column("session", "string"),
    Column("identities", "strings"),
    Column("proxy", "string"),
    Column("version_before", "int32"),
    Column("version_after", "int32"),
    Column("size_before", "int32"),
    Column("size_after", "int32"),
    Column("reason", "string"),
)


def tree(machine: Machine, path: str, identities: Identities) -> Iterator[Row]:
    """The nodes at and below a path, by path, as far as a client with these identities sees them.

    A node that it may not read has only its path here, and no children: getChildren needs READ as well.
    """
    nodes = machine.tree.nodes
    below = path.rstrip("/") + "/"
    hidden: set[str] = set()  # nodes whose children are not seen
    if path != ROOT and not may_see(machine, parent_of(path), identities):
        return
    for each in sorted(name for name in nodes if name == path or name.startswith(below)):
        if each != path and parent_of(each) in hidden:
            hidden.add(each)
            continue
        node = nodes[each]
        readable = _readable(node, identities)
        if not readable:
            hidden.add(each)
        yield _node(each, node, identities) if readable else _UNREADABLE | {"path": each}


def may_see(machine: Machine, path: str, identities: Identities) -> bool:
    """Whether a client with these identities may read a node and all above it, as far as they exist."""
    nodes = machine.tree.nodes
    while (node := nodes.get(path)) is None or _readable(node, identities):
        if path == ROOT:
            return True
        path = parent_of(path)
    return False


def _readable(node: Node, identities: Identities) -> bool:
    return permits(node.rights, Perms.READ, identities)


_UNREADABLE: Row = dict.fromkeys([column.name for column in TREE]) | {"readable": False}


def _node(path: str, node: Node, identities: Identities) -> Row:
    czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, length, children, pzxid = _stat(node)
    return {
        "path": path,
        "data": node.data,
        "data_length": length,
        "readable": True,
        "czxid": czxid,
        "mzxid": mzxid,
        "pzxid": pzxid,
        "ctime": ctime,
        "mtime": mtime,
        "version": version,
        "cversion": cversion,
        "aversion": aversion,
        "ephemeral_owner": owner,
        "num_children": children,
        "acl": [each.text for each in shown(node.rights, identities)],
    }


def _stat(node: Node) -> tuple[int, ...]:
    return tuple(STAT.unpack(node.stat()))


def history(event: Event) -> Row:
    """A change."""
    row = event._asdict()
    del row["data"]
    row["version_before"], row["version_after"] = row.pop("before"), row.pop("after")
    row["identities"] = list(event.identities)
    return {column.name: row[column.name] for column in HISTORY}


def jsonl(rows: Iterator[Row], _columns: tuple[Column, ...]) -> Iterator[bytes]:
    """An object a line."""
    for row in rows:
        yield json.dumps(_texts(row), separators=(",", ":")).encode() + b"\n"


def comma_separated(rows: Iterator[Row], columns: tuple[Column, ...]) -> Iterator[bytes]:
    """CSV with a header; lists are joined by spaces, and null is an empty field."""
    names = [name for column in columns for name in _names(column)]
    stream = io.StringIO()
    # Clients choose texts: only with this end of a line is one quoted that has a carriage return.
    writer = csv.DictWriter(stream, names, lineterminator=_END)
    writer.writeheader()
    yield _taken(stream)
    for row in rows:
        texts = _texts(row)
        writer.writerow({k: " ".join(v) if isinstance(v, list) else v for k, v in texts.items()})
        yield _taken(stream)


def _taken(stream: io.StringIO) -> bytes:
    text = stream.getvalue().removesuffix(_END) + "\n"
    stream.seek(0)
    stream.truncate()
    return text.encode("utf-8", "backslashreplace")


def _names(column: Column) -> tuple[str, ...]:
    return (column.name, "data_base64") if column.type == "binary" else (column.name,)


def _texts(row: Row) -> Row:
    """The row with its data as text, or in base64."""
    if "data" not in row:
        return row
    found: Row = {}
    for name, value in row.items():
        found |= data_members(value) if name == "data" else {name: value}
    return found


Encode = Callable[[Iterator[Row], tuple[Column, ...]], Iterator[bytes]]
ENCODERS: Mapping[str, Encode] = {"jsonl": jsonl, "csv": comma_separated}
