"""setWatches and setWatches2: a client that reconnects sets its watches, and gets the events that it missed.

The rules are DataTree.setWatches's. A null list or path is an error, but only at its turn: the watches
before it are set or fired.
"""

from codec.constants import EventType
from codec.errors import MalformedPacket
from codec.jute import Reader
from proxy.state.operation import Client, Reading
from schema.paths import ROOT

_Paths = list[str | None] | None


def set_watches(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The one-shot watches of a client."""
    reader = Reader(frame, position)
    last_seen = reader.long()
    data, exist, children = (reader.strings() for _ in range(3))
    _set_one_shot(reading, client, last_seen, data, exist, children)
    return b""


def set_watches2(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """Also those that stay: they are only set, whatever was missed."""
    reader = Reader(frame, position)
    last_seen = reader.long()
    data, exist, children, persistent, recursive = (reader.strings() for _ in range(5))
    _set_one_shot(reading, client, last_seen, data, exist, children)
    for paths, whole_subtree in ((persistent, False), (recursive, True)):
        for path in _given(paths):
            reading.watches.add_lasting(path, client, recursive=whole_subtree)
    return b""


def _set_one_shot(
    reading: Reading, client: Client, last_seen: int, data: _Paths, exist: _Paths, children: _Paths
) -> None:
    """Watches on nodes that changed after the client's last zxid fire at once, the others are set."""
    nodes = reading.tree.nodes
    watches = reading.watches
    for path in map(_present, _given(data)):
        node = nodes.get(path or ROOT)
        if node is None:
            client.notify(EventType.NODE_DELETED, path, -1, ())
        elif node.mzxid > last_seen:
            client.notify(EventType.NODE_DATA_CHANGED, path, -1, ())
        else:
            watches.data.add(path, client)
    for path in map(_present, _given(exist)):
        if (path or ROOT) in nodes:
            client.notify(EventType.NODE_CREATED, path, -1, ())
        else:
            watches.data.add(path, client)
    for path in map(_present, _given(children)):
        node = nodes.get(path or ROOT)
        if node is None:
            client.notify(EventType.NODE_DELETED, path, -1, ())
        elif node.pzxid > last_seen:
            client.notify(EventType.NODE_CHILDREN_CHANGED, path, -1, ())
        else:
            watches.children.add(path, client)


def _given(paths: _Paths) -> list[str | None]:
    if paths is None:
        raise MalformedPacket("a list of watches is null")
    return paths


def _present(path: str | None) -> str:
    if path is None:
        raise MalformedPacket("the path of a watch is null")
    return path
