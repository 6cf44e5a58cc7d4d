"""`clickhouse`: what ClickHouse servers that are gone have left in the tree, and how it is removed.

It is found in the tree as etcd has it. A client removes it by multis. The first one of a replica makes the
ephemeral node that its server would make if it came back, and of a table the node by which ClickHouse drops
it: so it fails if a server lives there, and a server that comes meanwhile waits.

It does not look for backups, since applications have nodes that look like them, nor for locks of parts on
shared storage: a table's may be of its other shards, and without its locks a part loses its data.
"""

import re
from argparse import ArgumentParser
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cli.client import Client, add_server
from cli.output import CommandFailed, Output, counted, date, table
from cli.written import tree_to_write
from codec import client as zk
from codec.client import Request
from codec.constants import CreateMode, OpCode
from codec.longs import hex64
from ctl.program import Program, Tree
from proxy.options import values
from proxy.state.machine import Machine
from proxy.state.node import Node, child_names
from proxy.support.environment import clock_ms
from schema.paths import join
from schema.znode import session_of

_HOUR = 3_600_000  # milliseconds

REPLICA, DATABASE, TABLE = "replica", "database replica", "table"

# The children by which a table and a database are known. ClickHouse makes node and children in one multi
# (createTableIfNotExists, createDatabaseNodesInZooKeeper). Other programs' nodes can only get them later.
_TABLE = frozenset(("blocks", "columns", "log", "metadata", "replicas"))
_DATABASE = frozenset(("counter", "log", "metadata", "replicas"))
_KNOWN = _TABLE | _DATABASE
# What else a table has, from 18.16 to 26.9. A node with other children is somebody else's, or has such nodes.
_OF_TABLES = _TABLE | {
    *("alter_partition_version", "async_blocks", "block_numbers", "deduplication_hashes", "dropped"),
    *("leader_election", "lightweight_updates", "lost_part_count", "mutations", "nonincrement_block_numbers"),
    *("part_moves_shard", "pinned_part_uuids", "quorum", "table_shared_id", "temp"),
}
_ZERO_COPY = "zero_copy_"  # and the name of a storage
_NUMBER = re.compile(r"-?[0-9]{1,19}")
# The ephemeral node of a server that lives.
_ACTIVE = {REPLICA: "is_active", DATABASE: "active"}
# What a table still has when its removal was ended, with "dropped": so it is found again.
_TO_THE_LAST = _TABLE - {"replicas"}
# What a removal creates or sets below what it removes. The ephemeral nodes, which hold it, have this value.
_MARKS = ("is_active", "active", "is_lost", "dropped", "dropped/lock")
_HELD = b"zketcd clickhouse"
_GOES = b"DROPPED"  # the value of a replica of a database that is dropped, as ClickHouse sets it


class Left(NamedTuple):
    """Something that was left behind."""

    kind: str
    path: str
    nodes: Sequence[str]  # all that go, each before its parent
    changed: int  # when one of them was created or set last: milliseconds since 1970
    note: str
    holder: int = 0  # the session of another run of this command, which removes it; 0 for none


def find(machine: Machine, path: str, names: Collection[str], hours: int, now: int) -> list[Left]:
    """What is left below a path, and has not changed for so many hours.

    `names`: only what replicas of these names have left. Raises CommandFailed.
    """
    nodes = machine.tree.nodes
    if path not in nodes:
        raise CommandFailed(f"there is no node {path}")
    below = path.rstrip("/") + "/"
    found: list[Left] = []
    for each in sorted(one for one in nodes if one == path or one.startswith(below)):
        found += _left_at(nodes, each, names)
    return [left for left in found if now - left.changed >= hours * _HOUR]


def _left_at(nodes: Mapping[str, Node], path: str, names: Collection[str]) -> Iterator[Left]:
    children = frozenset(child_names(nodes[path]))
    known = {name for name in children & _KNOWN if nodes[join(path, name)].czxid == nodes[path].czxid}
    if known >= _TABLE:
        yield from _replicas(nodes, path, REPLICA, names)
        if not nodes[join(path, "replicas")].children and not names:
            yield from _table(nodes, path, children)
    elif known >= _TO_THE_LAST and "dropped" in children and not names:
        yield from _table(nodes, path, children)
    elif known >= _DATABASE:
        yield from _replicas(nodes, path, DATABASE, names)


def _table(nodes: Mapping[str, Node], path: str, children: Collection[str]) -> Iterator[Left]:
    """A table without replicas, unless it has children that are no table's."""
    if all(name in _OF_TABLES or name.startswith(_ZERO_COPY) for name in children):
        yield from _left(nodes, TABLE, path, "has no replica")


def _left(nodes: Mapping[str, Node], kind: str, path: str, note: str) -> Iterator[Left]:
    """A whole subtree, unless a session owns a node in it that is no other run of this command."""
    subtree = _subtree(nodes, path)
    owners = {session_of(nodes[each].owner): nodes[each].data for each in subtree}
    owners.pop(0, None)
    if all(data == _HELD for data in owners.values()):
        yield Left(kind, path, subtree, _changed(nodes, path, subtree), note, next(iter(owners), 0))


def _subtree(nodes: Mapping[str, Node], path: str) -> list[str]:
    """The paths of a subtree, children before their parents."""
    found = [path]
    for each in found:  # it grows meanwhile
        found += [join(each, name) for name in child_names(nodes[each])]
    return found[::-1]


def _changed(nodes: Mapping[str, Node], path: str, subtree: Sequence[str]) -> int:
    """When it last changed, apart from what a removal that was ended has done."""
    marks = {join(path, mark) for mark in _MARKS}
    if nodes[path].data == _GOES:
        marks.add(path)
    times = (max(nodes[each].ctime, nodes[each].mtime) for each in subtree if each not in marks)
    return max(nodes[path].ctime, *times)


# -- replicas ------------------------------------------------------------------------------------------------


def _replicas(nodes: Mapping[str, Node], path: str, kind: str, names: Collection[str]) -> Iterator[Left]:
    """Those of a table or of a database whose server is gone."""
    folder = join(path, "replicas")
    parts: dict[str, list[_Part]] = {}
    for name in child_names(nodes[folder]):
        if (has := nodes.get(f"{folder}/{name}/parts")) is not None:
            parts[name] = [_Part.read(part) for part in child_names(has)]
    for name in sorted(child_names(nodes[folder])):
        if names and name not in names and name.rpartition("|")[2] not in names:
            continue
        note = ""
        if name in parts:
            others = [part for other in parts if other != name for part in parts[other]]
            lost = sum(not any(other.covers(part) for other in others) for part in parts[name])
            note = counted(len(parts[name]), "part") + (f", {lost} on no other replica" if lost else "")
        yield from _left(nodes, kind, join(folder, name), note)


class _Part(NamedTuple):
    """The name of a part of a table: partition, numbers of the first and the last block, level."""

    name: str
    partition: str = ""
    first: int = 0
    last: int = 0
    level: int = 0

    @classmethod
    def read(cls, name: str) -> "_Part":
        fields = name.split("_")  # the fifth is the number of a mutation
        if len(fields) not in (4, 5) or not all(map(_NUMBER.fullmatch, fields[1:])):
            return cls(name)
        return cls(name, fields[0], *map(int, fields[1:4]))

    def covers(self, other: "_Part") -> bool:
        """Whether its rows are those of the other one, and perhaps more: it was merged from that."""
        return self.name == other.name or (
            self.partition == other.partition != ""
            and self.first <= other.first
            and self.last >= other.last
            and self.level >= other.level
        )


# -- removal -------------------------------------------------------------------------------------------------


def chosen(found: Sequence[Left], names: Collection[str]) -> list[Left]:
    """What `--yes` removes: replicas only if they are named. A server that is stopped looks the same."""
    return [left for left in found if names or left.kind not in _ACTIVE]


def remove(client: Client, left: Left) -> None:
    """Remove it. What was removed before a refusal stays so, and can be run again. Raises Refused."""
    first, last = _ends(left)
    client.multi(first)
    done = {request.path for request in (*first, *last) if request.opcode == OpCode.DELETE}
    rest = [zk.delete(each) for each in left.nodes if each not in done]
    for some in zk.batches(rest):
        client.multi(some)
    client.multi(last)


def _ends(left: Left) -> tuple[list[Request[Any]], list[Request[Any]]]:
    """What is done first, together or not at all, and what last."""
    path, nodes = left.path, left.nodes
    first: list[Request[Any]]
    if left.kind in _ACTIVE:
        active = join(path, _ACTIVE[left.kind])
        first = [zk.create(active, _HELD, CreateMode.EPHEMERAL)]
        if left.kind == DATABASE:
            first.append(zk.set_data(path, _GOES))
        if (lost := join(path, "is_lost")) in nodes:
            first.append(zk.set_data(lost, b"1"))  # a server that comes back takes its parts from others
        if (host := join(path, "host")) in nodes:
            first.append(zk.delete(host))  # without it the server does not become active again
        return first, [zk.delete(active), zk.delete(path)]
    dropped = join(path, "dropped")
    lock = join(dropped, "lock")
    first = [] if dropped in nodes else [zk.create(dropped)]
    first.append(zk.create(lock, _HELD, CreateMode.EPHEMERAL))
    if (replicas := join(path, "replicas")) in nodes:
        first.append(zk.delete(replicas))
    known = [zk.delete(join(path, name)) for name in sorted(_TO_THE_LAST)]
    return first, [*known, zk.delete(lock), zk.delete(dropped), zk.delete(path)]


def show(found: Sequence[Left], removed: Sequence[Left]) -> Output:
    """What was found, and what of it was removed."""
    data = [
        {
            "kind": left.kind,
            "path": left.path,
            "nodes": len(left.nodes),
            "changed": date(left.changed),
            "note": left.note,
            "removed": left in removed,
        }
        for left in found
    ]
    if not found:
        return Output(data, ["nothing was left behind"])
    rows = [tuple(each.values())[:-1] for each in data]
    lines = table(("what", "path", "nodes", "last change", ""), rows)
    if removed:
        lines.append(f"removed: {len(removed)} of {len(found)}")
    else:
        lines.append("nothing was removed: --yes removes it; replicas only with --replica NAME")
    return Output(data, lines)


def _arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("path", nargs="?", default="/", metavar="PATH", help="only what is left below this node")
    add(
        "--replica",
        action="append",
        default=[],
        metavar="NAME",
        help="only what replicas of this name have left; may be repeated",
    )
    add(
        "--hours",
        type=values.not_negative,
        default=24,
        metavar="N",
        help="only what nothing has changed for so many hours",
    )
    add(
        "--yes",
        action="store_true",
        help="remove it; replicas only with --replica, since a server that is"
        " stopped for a while looks like one that is gone",
    )
    add_server(parser)


def _run(tree: Tree, given: Any) -> Output:
    """What is left is found in etcd, and removed by a client."""
    with tree_to_write(given, tree.parser, tree.machine) as (machine, client):
        found = find(machine, given.path, given.replica, given.hours, clock_ms())
        goes: list[Left] = []
        if client:
            goes = chosen(found, given.replica)
            for left in goes:
                if left.holder:
                    raise CommandFailed(
                        f"{left.path}: session {hex64(left.holder)} of another run removes it. If that was"
                        " killed, its session ends within half a minute: run the command again then"
                    )
                remove(client, left)
    return show(found, goes)


PROGRAMS = {"clickhouse": Program(_run, _arguments)}
