"""setWatches: a client back again sets its watches, and learns what it missed (DataTree.setWatches)."""

from codec.constants import EventType
from codec.errors import MalformedPacket
from codec.jute import Reader
from proxy.operation import Client, Reading
from schema.paths import ROOT


def set_watches(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """Watches on nodes that changed after the client's last zxid fire at once, the others are set."""
    reader = Reader(frame, position)
    last_seen = reader.long()
    data, exist, children = (reader.string_vector() for _ in range(3))
    nodes = reading.tree.nodes
    watches = reading.watches
    for path in _given(data):
        node = nodes.get(path or ROOT)
        if node is None:
            client.notify(EventType.NODE_DELETED, path, -1, ())
        elif node.mzxid > last_seen:
            client.notify(EventType.NODE_DATA_CHANGED, path, -1, ())
        else:
            watches.data.add(path, client)
    for path in _given(exist):
        if (path or ROOT) in nodes:
            client.notify(EventType.NODE_CREATED, path, -1, ())
        else:
            watches.data.add(path, client)
    for path in _given(children):
        node = nodes.get(path or ROOT)
        if node is None:
            client.notify(EventType.NODE_DELETED, path, -1, ())
        elif node.pzxid > last_seen:
            client.notify(EventType.NODE_CHILDREN_CHANGED, path, -1, ())
        else:
            watches.children.add(path, client)
    return b""


def _given(paths: list[str] | None) -> list[str]:
    """The paths. Raises MalformedPacket for null, over which ZooKeeper stumbles too, but only at its turn."""
    if paths is None:
        raise MalformedPacket("a vector of watches is null")
    return paths
