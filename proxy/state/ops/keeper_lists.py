"""Keeper's lists: children filtered by kind, children with their Stats and data, whole subtrees."""

import heapq
from collections import deque
from collections.abc import Collection

from codec.constants import ErrorCode, ListFilter, Perms
from codec.jute import INT, Reader, pack_buffer
from codec.keeper import read_filtered_list, read_list_with_stat_and_data, read_path_limit
from proxy.state import bounded
from proxy.state.bounded import Body
from proxy.state.node import Node, pack_children, pack_names
from proxy.state.operation import Client, Reading
from proxy.state.ops.expected import expect_list
from proxy.state.ops.reads import find, watching
from proxy.state.outcome import Refusal
from proxy.state.pause import BYTES_PER_STEP, Pause
from proxy.state.rights import demand
from schema.znode import session_of

# So many children are described, or filtered, in about the time of one step.
_DESCRIBED_PER_STEP = 2
FILTERED_PER_STEP = 4
# So many names are compared in that time.
_COMPARED_PER_STEP = 8


def filtered_list(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The names of the children of one kind, and the node's Stat, as getChildren2.

    Raises BADARGUMENTS for names that are too many for one reply.
    """
    path, watch, only = read_filtered_list(Reader(frame, position))
    if only != ListFilter.ALL:
        expect_list(reading, path, 0, FILTERED_PER_STEP)
    node, paths = _listed(reading, client, path, only)
    stat = node.stat()  # before the state may change
    when_seen = watching(reading, client, path) if watch else None
    if only == ListFilter.ALL:
        return node.names(reading.pause, when_seen) + stat
    return pack_children(paths, reading.pause, when_seen) + stat


def list_with_stat_and_data(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """As filtered_list, with the Stat and data of each child if requested, in the order of the names.

    Raises NOAUTH if one of these may not be read, as exists and getData would; BADARGUMENTS if they do not
    fit into one reply.
    """
    fields = read_list_with_stat_and_data(Reader(frame, position))
    path, watch, only, with_stat, with_data = fields
    pause = reading.pause
    expect_described(reading, fields, 0)
    node, paths = _listed(reading, client, path, only)
    children: list[Node] = []
    for below in pause.each(paths):
        child = find(reading, below)
        if with_stat or with_data:
            demand(child.rights, Perms.READ, client.identities)
        children.append(child)
    body = Body(pause)
    body.add(pack_children(paths, pause), node.stat(), INT.pack(len(children) if with_stat else 0))
    if with_stat:
        for some in pause.batches(children):
            body.add(*(child.stat() for child in some))
    body.add(INT.pack(len(children) if with_data else 0))
    if with_data:
        for child in pause.each(children):
            body.add(pack_buffer(child.data))  # one by one, since the limit counts what is made
    if watch:
        reading.watches.children.add(path, client)
    return body.whole()


def expect_described(reading: Reading, fields: tuple[str, bool, int, bool, bool], steps: int) -> int:
    """What list_with_stat_and_data will take."""
    return expect_list(reading, fields[0], steps, _DESCRIBED_PER_STEP, with_data=fields[-1])


def list_recursive(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The paths of all nodes below one, those nearer to it first, as many as the limit allows.

    Raises NOAUTH if the client may not list the children of one of these nodes; BADARGUMENTS if the paths
    do not fit into one reply.
    """
    path, limit = read_path_limit(Reader(frame, position))
    top = find(reading, path)
    demand(top.rights, Perms.READ, client.identities)
    pause = reading.pause
    paths: list[str] = []
    unseen = deque([top])
    steps = size = 0
    while unseen and len(paths) < limit:
        node = unseen.popleft()
        children = node.children or ()
        if children:
            demand(node.rights, Perms.READ, client.identities)
            steps += len(children)
            pause.expect(steps // FILTERED_PER_STEP)
        for below in pause.each(_first(children, limit - len(paths), pause)):
            paths.append(below)
            size += len(below)
            if size > bounded.MOST:
                raise Refusal(ErrorCode.BAD_ARGUMENTS)
            unseen.append(find(reading, below))
        pause.expect(steps // FILTERED_PER_STEP + size // BYTES_PER_STEP)
    return pack_names(paths, pause)


def _first(children: Collection[str], most: int, pause: Pause) -> list[str]:
    """The first `most` of the children in order. Of very many children, few are sorted if few are wanted."""
    if most > pause.every:
        return pause.sorted_texts(children)[:most]
    first: list[str] = []
    for some in pause.batches(children, _COMPARED_PER_STEP):
        first = heapq.nsmallest(most, first + some)
    return first


def _listed(reading: Reading, client: Client, path: str, only: int) -> tuple[Node, Collection[str]]:
    """The node and the paths of its children of one kind. Containers and TTL nodes count as persistent."""
    node = find(reading, path)
    demand(node.rights, Perms.READ, client.identities)
    if not ListFilter.ALL <= only <= ListFilter.EPHEMERAL:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    paths = node.children or ()
    if only == ListFilter.ALL:
        return node, paths
    wanted = only == ListFilter.EPHEMERAL
    nodes = reading.tree.nodes
    # Without a call for most of them, since the log waits for a million of them at most.
    return node, [
        below
        for below in reading.pause.each(paths)
        if bool((owner := (nodes.get(below) or find(reading, below)).owner) and session_of(owner)) is wanted
    ]
