"""Keeper's lists: children filtered by kind, children with their Stats and data, all that is below a node."""

import heapq
from collections import deque

from codec.constants import ErrorCode, ListFilter, Perms
from codec.jute import INT, Reader, pack_buffer
from codec.keeper import read_filtered_list, read_list_with_stat_and_data, read_path_limit
from proxy.state.acl import demand
from proxy.state.operation import Client, Reading
from proxy.state.ops.bounded import Body
from proxy.state.ops.reads import find
from proxy.state.pieces import PIECE, Laborious, Work, whole
from proxy.state.refusal import Refusal
from proxy.state.tree import Node, packing
from schema.paths import ROOT
from schema.znode import session_of

# Children that are listed at a stretch: so many names, or so many nodes that are looked at, or sent.
_NAMED = 16_384
_LOOKED_AT = 4096
_SENT = 2048


def filtered_list(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The names of the children of one kind, and the node's Stat, as getChildren2."""
    _demand_fewer(reading, read_filtered_list(Reader(frame, position)), _LOOKED_AT)
    return whole(filtering(reading, client, frame, position))


def filtering(reading: Reading, client: Client, frame: bytes, position: int) -> Work[bytes]:
    """As filtered_list, in pieces."""
    path, watch, only = read_filtered_list(Reader(frame, position))
    node, names = yield from _listed(reading, client, path, only, watch=watch)
    return (yield from packing(names)) + node.stat()


def list_with_stat_and_data(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """As filtered_list, and the Stat and data of each child where they are wanted, in the names' order.

    Raises NOAUTH if one of these may not be read: they are what exists and getData would return; BADARGUMENTS
    for more than one reply holds.
    """
    path, watch, only, _, _ = read_list_with_stat_and_data(Reader(frame, position))
    _demand_fewer(reading, (path, watch, only), _SENT)
    return whole(listing_with_stat_and_data(reading, client, frame, position))


def listing_with_stat_and_data(reading: Reading, client: Client, frame: bytes, position: int) -> Work[bytes]:
    """As list_with_stat_and_data, in pieces."""
    path, watch, only, with_stat, with_data = read_list_with_stat_and_data(Reader(frame, position))
    node, names = yield from _listed(reading, client, path, only, watch=watch)
    children: list[Node] = []
    above = path.rstrip("/")
    for start in range(0, len(names), PIECE):
        some = [find(reading, f"{above}/{name}") for name in names[start : start + PIECE]]
        if with_stat or with_data:
            for child in some:
                demand(child.acl, Perms.READ, client.identities)
        children += some
        yield
    body = Body()
    packed = yield from packing(names)
    body.add(packed, node.stat(), INT.pack(len(children) if with_stat else 0))
    if with_stat:
        for start in range(0, len(children), PIECE):
            body.add(*(child.stat() for child in children[start : start + PIECE]))
            yield
    body.add(INT.pack(len(children) if with_data else 0))
    if with_data:
        for start in range(0, len(children), PIECE):
            body.add(*(pack_buffer(child.data) for child in children[start : start + PIECE]))
            yield
    return body.whole()


def list_recursive(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The paths of all nodes below one, those nearer to it first, as many as the limit allows.

    Raises NOAUTH if children may not be listed that would have been among them.
    """
    return whole(_recursive(reading, client, frame, position, at_once=True))


def listing_recursive(reading: Reading, client: Client, frame: bytes, position: int) -> Work[bytes]:
    """As list_recursive, in pieces."""
    return (yield from _recursive(reading, client, frame, position, at_once=False))


def _recursive(
    reading: Reading, client: Client, frame: bytes, position: int, *, at_once: bool
) -> Work[bytes]:
    path, limit = read_path_limit(Reader(frame, position))
    top = find(reading, path)
    demand(top.acl, Perms.READ, client.identities)
    paths: list[str] = []
    unseen = deque([(path.rstrip("/"), top)])
    steps = 0
    while unseen and len(paths) < limit:
        above, node = unseen.popleft()
        if node.children:
            demand(node.acl, Perms.READ, client.identities)
            steps += len(node.children)
            if at_once and steps > _LOOKED_AT:
                raise Laborious
        # Of very many children no more are looked at than the limit lets in.
        names = list(node.children or ())
        first: list[str] = []
        for start in range(0, len(names), _LOOKED_AT):
            first = heapq.nsmallest(limit - len(paths), first + names[start : start + _LOOKED_AT])
            yield
        for count, name in enumerate(first, 1):
            below = f"{above}/{name}"
            paths.append(below)
            unseen.append((below, find(reading, below)))
            if count % PIECE == 0:
                yield
    return (yield from packing(paths))


def demand_short(reading: Reading, path: str) -> None:
    """Raise Laborious unless what concerns the children of a node is soon done."""
    _demand_fewer(reading, (path, False, -1), _SENT)


def _demand_fewer(reading: Reading, of: tuple[str, bool, int], most: int) -> None:
    path, _, only = of
    node = reading.tree.nodes.get(path or ROOT)
    if node is not None and len(node.children or ()) > (_NAMED if only == ListFilter.ALL else most):
        raise Laborious


def _listed(
    reading: Reading, client: Client, path: str, only: int, *, watch: bool
) -> Work[tuple[Node, list[str]]]:
    """The node and the names of its children of one kind. Containers and TTL nodes count as persistent."""
    node = find(reading, path)
    demand(node.acl, Perms.READ, client.identities)
    if not ListFilter.ALL <= only <= ListFilter.EPHEMERAL:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    if watch:
        reading.watches.children.add(path, client)
    names = list(node.children or ())
    if only == ListFilter.ALL:
        return node, names
    wanted = only == ListFilter.EPHEMERAL
    above = path.rstrip("/")
    found: list[str] = []
    for start in range(0, len(names), PIECE):
        found += [
            name
            for name in names[start : start + PIECE]
            if bool(session_of(find(reading, f"{above}/{name}").owner)) is wanted
        ]
        yield
    return node, found
