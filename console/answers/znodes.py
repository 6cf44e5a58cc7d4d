"""Znodes as JSON. Pure. Numbers of 64 bits are hexadecimal text: JavaScript's have 53 bits."""

import base64
from typing import Any

from codec.constants import Perms
from codec.longs import hex64
from codec.packets import STAT, STAT_NAMES
from console.walks.listing import may_read
from proxy.state.acl import shown
from proxy.state.auth.scheme import Identities
from proxy.state.node import Node
from proxy.state.rights import Rights
from schema.znode import kind_of, ttl_of

#: Bytes of data that the page is sent at once; it requests the rest separately.
PREVIEW = 64 << 10
_MOST_ENTRIES = 1000  # of one ACL
_PERMS = (
    (Perms.READ, "read"),
    (Perms.WRITE, "write"),
    (Perms.CREATE, "create"),
    (Perms.DELETE, "delete"),
    (Perms.ADMIN, "admin"),
)


def row(name: str, node: Node, identities: Identities) -> dict[str, Any]:
    """A child in a list. What its ACL withholds is None."""
    readable = may_read(node, identities)
    return {
        "name": name,
        "readable": readable,
        "children": (len(node.children) if node.children else 0) if readable else None,
        "kind": kind_of(node.owner) if readable else None,
        "czxid": hex64(node.czxid) if readable else None,
        "mzxid": hex64(node.mzxid) if readable else None,
        "mtime": node.mtime if readable else None,
    }


def stat(node: Node) -> dict[str, Any]:
    """The Stat. Times are milliseconds since 1970."""
    found: dict[str, Any] = dict(zip(STAT_NAMES, STAT.unpack(node.stat()), strict=True))
    for name in ("czxid", "mzxid", "pzxid", "ephemeralOwner"):
        found[name] = hex64(found[name])
    return found


def details(path: str, node: Node, identities: Identities) -> dict[str, Any]:
    """All of a node that may be read, with the beginning of its data."""
    data = node.data
    return {
        "path": path,
        "kind": kind_of(node.owner),
        "ttl": ttl_of(node.owner),
        "stat": stat(node),
        "acl": acl(node.rights, identities),
        "data": None if data is None else base64.b64encode(data[:PREVIEW]).decode(),
        "truncated": data is not None and len(data) > PREVIEW,
    }


def acl(rights: Rights, identities: Identities) -> list[dict[str, Any]]:
    """The first entries of an ACL."""
    return [
        {
            "scheme": entry.scheme,
            "id": entry.id,
            "permissions": [word for bit, word in _PERMS if entry.perms & bit],
        }
        for entry in shown(rights, identities, most=_MOST_ENTRIES)
    ]
