"""The requests about watches: FinalRequestProcessor has them, DataTree.setWatches the rules of setWatches.

A slow setWatches is done in pieces, between which the log may be applied: each path is compared with the
state of that moment, and from then on its watch is set.

A null list or path in setWatches is an error only when it is reached: the watches before it are set or fired.
So a request that takes long is refused before it has any effect.
"""

from codec.constants import AddWatchMode, ErrorCode, EventType, WatcherType
from codec.errors import MalformedPacket
from codec.jute import INT, Reader
from proxy.state.notifications import Notifications
from proxy.state.operation import Client, Reading
from proxy.state.outcome import Refusal
from proxy.state.pause import Pause
from proxy.state.rights import OPEN
from schema.paths import ROOT

_DONE = INT.pack(ErrorCode.OK)
_MODES = frozenset(AddWatchMode)
_TYPES = frozenset(WatcherType)

# A watch has at least about so many bytes. It is decoded in one step, and set or fired in another one.
_BYTES_PER_WATCH = 64

_Paths = list[str | None] | None


def add_watch(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """Watch a path, whether or not it has a node or may be read; the body is an ErrorResponse."""
    reader = Reader(frame, position)
    path, mode = reader.string(), reader.int()
    if mode not in _MODES:  # WatcherMode.fromZooDef fails
        raise Refusal(ErrorCode.MARSHALLING_ERROR)
    recursive = mode == AddWatchMode.PERSISTENT_RECURSIVE
    reading.watches.add_lasting(path, client, recursive=recursive)
    return _DONE


def check_watches(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """Nothing, or NOWATCHER if the connection has no watch of this type on the path."""
    path, kind = _path_and_type(frame, position)
    if not reading.watches.holds(path, client, kind):
        raise Refusal(ErrorCode.NO_WATCHER)
    return b""


def remove_watches(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """Nothing, or NOWATCHER. No event is sent: clients make DataWatchRemoved and similar ones themselves."""
    path, kind = _path_and_type(frame, position)
    if not reading.watches.remove(path, client, kind):
        raise Refusal(ErrorCode.NO_WATCHER)
    return b""


def _path_and_type(frame: bytes, position: int) -> tuple[str | None, WatcherType]:
    """The fields of checkWatches and removeWatches. WatcherType.fromInt fails on other types."""
    reader = Reader(frame, position)
    path, kind = reader.string(), reader.int()
    if kind not in _TYPES:
        raise Refusal(ErrorCode.MARSHALLING_ERROR)
    return path, WatcherType(kind)


def set_watches(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """A client that reconnects sets its one-shot watches, and gets the events that it missed."""
    reading.pause.expect(2 * len(frame) // _BYTES_PER_WATCH)
    reader = Reader(frame, position)
    last_seen = reader.long()
    data, exist, children = (_strings(reader, reading.pause) for _ in range(3))
    _set_one_shot(reading, client, last_seen, data, exist, children)
    return b""


def set_watches2(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """Also persistent and recursive watches. These are only set, even if events were missed."""
    reading.pause.expect(2 * len(frame) // _BYTES_PER_WATCH)
    reader = Reader(frame, position)
    last_seen = reader.long()
    data, exist, children, persistent, recursive = (_strings(reader, reading.pause) for _ in range(5))
    _set_one_shot(reading, client, last_seen, data, exist, children)
    for paths, whole_subtree in ((persistent, False), (recursive, True)):
        for path in reading.pause.each(_given(paths)):
            reading.watches.add_lasting(path, client, recursive=whole_subtree)
    return b""


def _strings(reader: Reader, pause: Pause) -> _Paths:
    """As `reader.strings`."""
    count = reader.count()
    return None if count is None else [reader.string() for _ in pause.each(range(count))]


def _set_one_shot(
    reading: Reading, client: Client, last_seen: int, data: _Paths, exist: _Paths, children: _Paths
) -> None:
    """Watches on nodes that changed after the client's last zxid fire at once; the others are set.

    No event is sent for a node that the client may not read (ZooKeeper from 3.9.6 on).
    """
    tree = reading.tree  # its nodes may be other ones after a pause
    watches = reading.watches
    for path in map(_present, reading.pause.each(_given(data))):
        node = tree.nodes.get(path or ROOT)
        if node is None:
            client.notify(Notifications(EventType.NODE_DELETED, path, -1, OPEN))
        elif node.mzxid > last_seen:
            client.notify(Notifications(EventType.NODE_DATA_CHANGED, path, -1, node.rights))
        else:
            watches.data.add(path, client)
    for path in map(_present, reading.pause.each(_given(exist))):
        node = tree.nodes.get(path or ROOT)
        if node is None:
            watches.data.add(path, client)
        else:
            client.notify(Notifications(EventType.NODE_CREATED, path, -1, node.rights))
    for path in map(_present, reading.pause.each(_given(children))):
        node = tree.nodes.get(path or ROOT)
        if node is None:
            client.notify(Notifications(EventType.NODE_DELETED, path, -1, OPEN))
        elif node.pzxid > last_seen:
            client.notify(Notifications(EventType.NODE_CHILDREN_CHANGED, path, -1, node.rights))
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
