"""The server's own nodes below /keeper, where ClickHouse looks for Keeper's extensions.

Clients can read these nodes, but they are not part of the tree: no listing of the root and no Stat includes
them. If the tree itself has a node at such a path, clients see that node instead.
"""

from collections.abc import Iterable, Mapping

from codec.constants import KeeperFeature
from codec.jute import OPEN_ACL
from proxy.state.node import FullNode, Node, new_node
from proxy.state.rights import OPEN
from proxy.state.transaction import SYSTEM

_FOLDER = f"/{SYSTEM}"
_FLAGS = f"{_FOLDER}/feature_flags"
_API_VERSION = f"{_FOLDER}/api_version"
_MAX_REQUEST_SIZE = f"{_FOLDER}/max_request_size"
_AVAILABILITY_ZONE = f"{_FOLDER}/availability_zone"

# A client that has read one of these knows that the server has extensions.
TELLING = frozenset((_FLAGS, _API_VERSION))
# For clients that do not know the flags: filtered lists, multiRead and checkNotExists (KeeperApiVersion).
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
    """The nodes by path. `max_request_size` in bytes; an empty `availability_zone`: no such node."""
    data = {
        _FLAGS: feature_flags(features),
        _API_VERSION: API_VERSION.encode(),
        _MAX_REQUEST_SIZE: str(max_request_size).encode(),
    }
    if availability_zone:
        data[_AVAILABILITY_ZONE] = availability_zone.encode()
    nodes: dict[str, Node] = {path: new_node(value, OPEN, 0, 0, 0) for path, value in data.items()}
    folder = FullNode(b"", OPEN_ACL, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    folder.children = dict.fromkeys(data)
    nodes[_FOLDER] = folder
    return nodes
