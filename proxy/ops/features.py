"""What the server says of itself below /keeper, where a ClickHouse looks for Keeper's extensions.

These nodes are found, but they are no part of the tree: no listing of the root and no Stat tells of them, and
a node of the tree itself at such a path comes before them.
"""

from collections.abc import Iterable, Mapping

from codec.constants import KeeperFeature
from proxy.tree import SYSTEM, Node
from schema.values import OPEN_ACL

_FOLDER = f"/{SYSTEM}"
_FLAGS = f"{_FOLDER}/feature_flags"
_API_VERSION = f"{_FOLDER}/api_version"
_MAX_REQUEST_SIZE = f"{_FOLDER}/max_request_size"
_AVAILABILITY_ZONE = f"{_FOLDER}/availability_zone"

# Whoever has read one of these knows that there are extensions.
TELLING = frozenset((_FLAGS, _API_VERSION))
# What a client that knows no flags is told: filtered lists, multiRead and checkNotExists (KeeperApiVersion).
API_VERSION = "3"


def feature_flags(features: Iterable[KeeperFeature]) -> bytes:
    """The bitmap of /keeper/feature_flags: feature n is bit 7 - n % 8 of byte n // 8."""
    flags = bytearray(len(KeeperFeature) // 8 + 1)
    for feature in features:
        flags[feature // 8] |= 0x80 >> feature % 8
    return bytes(flags)


def system_nodes(
    features: Iterable[KeeperFeature], max_request_size: int, availability_zone: str
) -> Mapping[str, Node]:
    """The nodes by path. `max_request_size` in bytes; an empty `availability_zone` is none."""
    data = {
        _FLAGS: feature_flags(features),
        _API_VERSION: API_VERSION.encode(),
        _MAX_REQUEST_SIZE: str(max_request_size).encode(),
    }
    if availability_zone:
        data[_AVAILABILITY_ZONE] = availability_zone.encode()
    nodes = {path: _node(value) for path, value in data.items()}
    folder = nodes[_FOLDER] = _node(b"")
    folder.children = {path.rpartition("/")[2] for path in data}
    return nodes


def _node(data: bytes) -> Node:
    node = Node()
    node.data = data
    node.acl = OPEN_ACL
    node.owner = node.czxid = node.mzxid = node.pzxid = node.ctime = node.mtime = 0
    node.version = node.aversion = node.created = node.mod = node.counter_mod = 0
    node.explicit_czxid = False
    node.children = None
    return node
