"""exists, getData, getChildren, getChildren2 and getACL: answered from the tree (FinalRequestProcessor).

These are the hot path of reads, so they build bytes and no objects.
"""

from collections.abc import Callable
from functools import partial

from codec.constants import ErrorCode, Perms
from codec.jute import pack_acls
from codec.packets import decode_path, decode_path_watch
from proxy.state.acl import shown
from proxy.state.bounded import MOST
from proxy.state.node import Node
from proxy.state.operation import Client, Reading
from proxy.state.ops.features import TELLING
from proxy.state.ops.steps import OfEntries, of_entries
from proxy.state.outcome import Refusal
from proxy.state.rights import OPEN, demand
from schema.paths import ROOT

_LONG_ACL = 64 << 10  # bytes


def find(reading: Reading, path: str) -> Node:
    """The node. Raises NONODE. ZooKeeper's tree has its root also under the empty path."""
    node = reading.tree.nodes.get(path or ROOT) or reading.system.get(path)
    if node is None:
        raise Refusal(ErrorCode.NO_NODE)
    return node


def get_data(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """Data and Stat; a watch is set only on a node that exists."""
    path, watch = decode_path_watch(frame, position)
    node = reading.tree.nodes.get(path)
    if node is None:
        node = find(reading, path)
        if path in TELLING:
            client.knows_keeper = True
    if node.rights is not OPEN:
        demand(node.rights, Perms.READ, client.identities)
    if watch:
        reading.watches.data.add(path, client)
    return node.content()


def exists(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The Stat; a watch is set in any case."""
    path, watch = decode_path_watch(frame, position)
    if "\0" in path:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    node = reading.tree.nodes.get(path or ROOT) or reading.system.get(path)
    if node is not None and node.rights is not OPEN:
        demand(node.rights, Perms.READ, client.identities)
    if watch:
        reading.watches.data.add(path, client)
    if node is None:
        raise Refusal(ErrorCode.NO_NODE)
    return node.stat()


def get_children(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The names of the children. Raises BADARGUMENTS for names that are too many for one reply."""
    path, watch = decode_path_watch(frame, position)
    return _listed(reading, client, path).names(
        reading.pause, watching(reading, client, path) if watch else None
    )


def get_children2(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The names of the children, and the Stat. Raises as `get_children`."""
    path, watch = decode_path_watch(frame, position)
    node = _listed(reading, client, path)
    stat = node.stat()  # before the state may change
    return node.names(reading.pause, watching(reading, client, path) if watch else None) + stat


def _listed(reading: Reading, client: Client, path: str) -> Node:
    node = find(reading, path)
    if node.rights is not OPEN:
        demand(node.rights, Perms.READ, client.identities)
    return node


def watching(reading: Reading, client: Client, path: str) -> Callable[[], None]:
    """Sets a watch on the children."""
    return partial(reading.watches.children.add, path, client)


def get_acl(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The ACL and the Stat; only clients with ADMIN see password hashes."""
    node = find(reading, decode_path(frame, position))
    rights = node.rights
    demand(rights, Perms.READ | Perms.ADMIN, client.identities)
    if rights.size > MOST:
        raise Refusal(ErrorCode.BAD_ARGUMENTS)
    pause = reading.pause
    pause.expect(of_entries(rights))
    acl = shown(rights, client.identities, pause)
    return pack_acls(acl, pause if rights.size < _LONG_ACL else OfEntries(pause)) + node.stat()
