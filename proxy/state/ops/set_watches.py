"""setWatches and setWatches2: a client that reconnects sets its watches, and gets the events that it missed.

The rules are DataTree.setWatches's. A null list or path is an error, but only at its turn: the watches
before it are set or fired.
"""

from codec.constants import EventType
from codec.errors import MalformedPacket
from codec.jute import Reader
from proxy.state.operation import Client, Reading
from proxy.state.pieces import AT_ONCE_BYTES, PIECE, Laborious, Work, whole
from schema.paths import ROOT

_Paths = list[str | None] | None


def set_watches(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The one-shot watches of a client."""
    if len(frame) > AT_ONCE_BYTES:
        raise Laborious
    return whole(setting_watches(reading, client, frame, position))


def set_watches2(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """Also those that stay: they are only set, whatever was missed."""
    if len(frame) > AT_ONCE_BYTES:
        raise Laborious
    return whole(setting_watches2(reading, client, frame, position))


def setting_watches(reading: Reading, client: Client, frame: bytes, position: int) -> Work[bytes]:
    """As set_watches, in pieces."""
    reader = Reader(frame, position)
    last_seen = reader.long()
    data, exist, children = yield from _reading(reader, 3)
    yield from _set_one_shot(reading, client, last_seen, data, exist, children)
    return b""


def setting_watches2(reading: Reading, client: Client, frame: bytes, position: int) -> Work[bytes]:
    """As set_watches2, in pieces."""
    reader = Reader(frame, position)
    last_seen = reader.long()
    data, exist, children, persistent, recursive = yield from _reading(reader, 5)
    yield from _set_one_shot(reading, client, last_seen, data, exist, children)
    for paths, whole_subtree in ((persistent, False), (recursive, True)):
        for count, path in enumerate(_given(paths), 1):
            reading.watches.add_lasting(path, client, recursive=whole_subtree)
            if count % PIECE == 0:
                yield
    return b""


def _reading(reader: Reader, lists: int) -> Work[list[_Paths]]:
    """As so many times `reader.strings`."""
    found: list[_Paths] = []
    for _ in range(lists):
        count = reader.count()
        paths: list[str | None] = []
        for start in range(0, count or 0, PIECE):
            paths += [reader.string() for _ in range(min(PIECE, (count or 0) - start))]
            yield
        found.append(None if count is None else paths)
    return found


def _set_one_shot(
    reading: Reading, client: Client, last_seen: int, data: _Paths, exist: _Paths, children: _Paths
) -> Work[None]:
    """Watches on nodes that changed after the client's last zxid fire at once, the others are set."""
    nodes = reading.tree.nodes
    watches = reading.watches
    for count, path in enumerate(map(_present, _given(data)), 1):
        node = nodes.get(path or ROOT)
        if node is None:
            client.notify(EventType.NODE_DELETED, path, -1, ())
        elif node.mzxid > last_seen:
            client.notify(EventType.NODE_DATA_CHANGED, path, -1, ())
        else:
            watches.data.add(path, client)
        if count % PIECE == 0:
            yield
    for count, path in enumerate(map(_present, _given(exist)), 1):
        if (path or ROOT) in nodes:
            client.notify(EventType.NODE_CREATED, path, -1, ())
        else:
            watches.data.add(path, client)
        if count % PIECE == 0:
            yield
    for count, path in enumerate(map(_present, _given(children)), 1):
        node = nodes.get(path or ROOT)
        if node is None:
            client.notify(EventType.NODE_DELETED, path, -1, ())
        elif node.pzxid > last_seen:
            client.notify(EventType.NODE_CHILDREN_CHANGED, path, -1, ())
        else:
            watches.children.add(path, client)
        if count % PIECE == 0:
            yield


def _given(paths: _Paths) -> list[str | None]:
    if paths is None:
        raise MalformedPacket("a list of watches is null")
    return paths


def _present(path: str | None) -> str:
    if path is None:
        raise MalformedPacket("the path of a watch is null")
    return path
