"""Keeper's lists: children filtered by kind, children with their Stats and data, all that is below a node."""

import heapq
from collections import deque
from collections.abc import Collection

from codec.constants import ErrorCode, ListFilter, Perms
from codec.jute import INT, Reader, pack_buffer, pack_strings
from codec.keeper import read_filtered_list, read_list_with_stat_and_data, read_path_limit
from proxy.state.acl import demand
from proxy.state.operation import Client, Reading
from proxy.state.ops.bounded import Body
from proxy.state.ops.reads import find
from proxy.state.refusal import Refusal
from proxy.state.tree import Node
from schema.znode import session_of


def filtered_list(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The names of the children of one kind, and the node's Stat, as getChildren2."""
    path, watch, only = read_filtered_list(Reader(frame, position))
    node, names = _listed(reading, client, path, only, watch=watch)
    return pack_strings(names) + node.stat()


def list_with_stat_and_data(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """As filtered_list, and the Stat and data of each child where they are wanted, in the names' order.

    Raises NOAUTH if one of these may not be read: they are what exists and getData would tell; BADARGUMENTS
    for more than one reply holds.
    """
    path, watch, only, with_stat, with_data = read_list_with_stat_and_data(Reader(frame, position))
    node, names = _listed(reading, client, path, only, watch=watch)
    children = [find(reading, f"{path.rstrip('/')}/{name}") for name in names]
    if with_stat or with_data:
        for child in children:
            demand(child.acl, Perms.READ, client.identities)
    body = Body()
    body.add(pack_strings(names), node.stat(), INT.pack(len(children) if with_stat else 0))
    if with_stat:
        body.add(*(child.stat() for child in children))
    body.add(INT.pack(len(children) if with_data else 0))
    if with_data:
        for child in children:
            body.add(pack_buffer(child.data))
    return body.whole()


def list_recursive(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The paths of all nodes below one, those nearer to it first, as many as the limit allows.

    Raises NOAUTH if children may not be listed that would have been among them.
    """
    path, limit = read_path_limit(Reader(frame, position))
    top = find(reading, path)
    demand(top.acl, Perms.READ, client.identities)
    paths: list[str] = []
    unseen = deque([(path.rstrip("/"), top)])
    while unseen and len(paths) < limit:
        above, node = unseen.popleft()
        if node.children:
            demand(node.acl, Perms.READ, client.identities)
        # Of very many children no more are looked at than the limit lets in.
        for name in heapq.nsmallest(limit - len(paths), node.children or ()):
            below = f"{above}/{name}"
            paths.append(below)
            unseen.append((below, find(reading, below)))
    return pack_strings(paths)


def _listed(
    reading: Reading, client: Client, path: str, only: int, *, watch: bool
) -> tuple[Node, Collection[str]]:
    """The node and the names of its children of one kind. Containers and TTL nodes count as persistent."""
    node = find(reading, path)
    demand(node.acl, Perms.READ, client.identities)
    if not ListFilter.ALL <= only <= ListFilter.EPHEMERAL:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    if watch:
        reading.watches.children.add(path, client)
    names: Collection[str] = node.children or ()
    if only != ListFilter.ALL:
        wanted = only == ListFilter.EPHEMERAL
        above = path.rstrip("/")
        names = [name for name in names if bool(session_of(find(reading, f"{above}/{name}").owner)) is wanted]
    return node, names
