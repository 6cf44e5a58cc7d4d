"""Subtrees as files of JSON lines, and as what a copy or an import creates. Here is no I/O.

The first line says what the file is; then one znode a line, parents first, with paths relative to the top one
(""); the last line says that the file is complete.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codec.jute import OPEN_ACL, Acl
from codec.longs import hex64
from console.answers import arguments
from console.people.logins import Refused
from console.sessions.editing import ACLS, Item
from console.walks.listing import may_read
from proxy.state.acl import shown
from proxy.state.auth.scheme import Identities
from proxy.state.node import Node
from schema.paths import ROOT, ZOOKEEPER, join
from schema.znode import kind_of, ttl_of

FORMAT = 1
EPHEMERAL = "ephemeral"
_MOST_ENTRIES = 1000  # of one ACL
_MOST_BYTES = 256 << 20  # paths and data of one export or copy


class Gathered:
    """The znodes of a subtree in the moments in which they were found: data are shared with the tree."""

    def __init__(self, top: str, identities: Identities) -> None:
        self._top = top
        self._identities = identities
        self.items: list[Item] = []
        self.ephemerals = 0
        self.bytes = 0

    def visit(self, path: str, node: Node) -> None:
        """Take a node, besides ZooKeeper's own ones. Raises Refused."""
        if path == ZOOKEEPER or path.startswith(f"{ZOOKEEPER}/"):
            return
        if not may_read(node, self._identities):
            raise Refused(403, f"the ACL of {path!r} does not let this login read it: add an identity")
        kind = kind_of(node.owner)
        self.ephemerals += kind == EPHEMERAL
        self.bytes += len(path) + len(node.data or b"")
        if self.bytes > _MOST_BYTES:
            raise Refused(409, f"{self._top} has more than {_MOST_BYTES >> 20} MiB: use `zketcd export`")
        below = path[len(self._top) :] if self._top != ROOT else path.rstrip("/")
        self.items.append(Item(below, kind, ttl_of(node.owner) or 0, node.data, self._acl(node)))

    def _acl(self, node: Node) -> tuple[Acl, ...] | None:
        """None if it has passwords that the login may not read."""
        acl = shown(node.rights, self._identities)
        return acl if acl == node.rights.acl else None

    def created_at(self, path: str) -> list[Item]:
        """What a copy to `path` creates. Raises Refused."""
        found = []
        for item in self.items:
            if item.kind == EPHEMERAL:
                continue
            if item.acl is None:
                raise Refused(
                    403, f"the ACL of {self._top + item.path!r} has passwords that this login may not read"
                )
            found.append(item._replace(path=placed(path, item.path)))
        return found


def placed(top: str, below: str) -> str:
    """The path of a znode of a file, in its new place."""
    return top if not below else join(top, below[1:])


def lines(path: str, gathered: Gathered, zxids: tuple[int, int]) -> Iterator[bytes]:
    """The file. `zxids`: the last one before and after the znodes were read."""
    first, last = map(hex64, zxids)
    count = len(gathered.items)
    head = {"zketcd-subtree": FORMAT, "path": path, "znodes": count, "zxid": first, "zxidAfter": last}
    yield _line(head)
    for item in gathered.items:
        yield _line(
            {
                "path": item.path,
                "kind": item.kind,
                **({"ttl": item.ttl} if item.ttl else {}),
                "data": None if item.data is None else base64.b64encode(item.data).decode(),
                "acl": None if item.acl is None else [list(entry) for entry in item.acl],
            }
        )
    yield _line({"complete": True, "znodes": count})


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def imported(top: str, rows: Any, acl: str, most: int) -> list[Item]:
    """The znodes of an import as its request names them. Raises Refused.

    `acl`: `file` for those of the file, or a name of editing.ACLS for all.
    """
    if not isinstance(rows, list) or not 1 <= len(rows) <= most:
        raise Refused(400, f"znodes is a list of 1 to {most} znodes")
    if acl != "file" and acl not in ACLS:
        raise Refused(400, f"acl is file, {' or '.join(ACLS)}")
    return [_item(top, row, acl) for row in rows]


def _item(top: str, row: Any, acl: str) -> Item:
    if not isinstance(row, dict):
        raise Refused(400, "a znode is a JSON object")
    below = arguments.word(row, "path", "")
    path = arguments.valid_path({"path": placed(top, below)}) if not below or below[0] == "/" else ""
    if not path:
        raise Refused(400, f"{below[:200]!r} is no path below the top znode: it begins with /")
    data = None if row.get("data") is None else arguments.data(row)
    entries = _entries(row.get("acl"), path) if acl == "file" else tuple(ACLS[acl])
    kind, ttl = arguments.word(row, "kind", "persistent"), arguments.number(row, "ttl", 0)
    return Item(path, kind, ttl, data, entries)


def _entries(found: Any, path: str) -> tuple[Acl, ...]:
    if found is None:
        raise Refused(400, f"the file does not have the ACL of {path!r}: its passwords could not be read")
    if not isinstance(found, list) or len(found) > _MOST_ENTRIES or not all(map(_is_entry, found)):
        raise Refused(400, f"the ACL of {path!r} is no list of [permissions, scheme, id]")
    return tuple(Acl(*entry) for entry in found) or OPEN_ACL


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, Sequence)
        and len(entry) == 3
        and type(entry[0]) is int
        and 0 <= entry[0] <= 31
        and all(isinstance(part, str) for part in entry[1:])
    )
