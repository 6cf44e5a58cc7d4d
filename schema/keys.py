"""etcd keys: one per znode and child counter, session, marker and proxy, all under one prefix.

`<prefix>/node<parent path>//<name>` keeps both the children of a node and its whole subtree in one
range each, and stays readable in etcdctl (DESIGN, storage contract).
"""

import enum
import re
from typing import NamedTuple

from schema.paths import ROOT

_SESSION_NAME = re.compile(rb"[0-9a-f]{16}")


class Kind(enum.Enum):
    """What a key under the prefix stands for."""

    NODE = "node"
    COUNTER = "children"
    SESSION = "session"
    MARKER = "marker"
    EVENTS = "events"
    LOSS = "lost"
    PROXY = "proxy"
    TREE = "tree"


class ForeignKey(ValueError):
    """A key under the prefix that this version of the schema does not know."""


class ParsedKey(NamedTuple):
    """A key taken apart: `name` is the znode's path, the session id in hex, or the rest of the key."""

    kind: Kind
    name: str


class Keyspace:
    """All keys of one tree, under one prefix."""

    __slots__ = (
        "counters",
        "end",
        "events",
        "losses",
        "markers",
        "nodes",
        "prefix",
        "proxies",
        "sessions",
        "start",
        "tree",
    )

    def __init__(self, prefix: str) -> None:
        """`prefix` without a slash at its end, such as `/zketcd`. Raises ValueError for a bad one."""
        if not prefix or prefix.endswith("/") or "//" in prefix:
            raise ValueError(f"the prefix {prefix!r} must not be empty, end with '/' or hold '//'")
        self.prefix = prefix
        base = prefix.encode()
        self.start = base + b"/"
        self.end = base + b"0"  # '0' follows '/' in ASCII
        self.nodes = base + b"/node"
        self.counters = base + b"/children"
        self.sessions = base + b"/session/"
        self.markers = base + b"/marker/"
        self.events = base + b"/events/"
        self.losses = base + b"/lost/"
        self.proxies = base + b"/proxy/"
        self.tree = base + b"/tree"

    def node(self, path: str) -> bytes:
        """The key of a znode; the root's is the node space's own name."""
        if path == ROOT:
            return self.nodes
        slash = path.rfind("/")
        return self.nodes + f"{path[:slash]}/{path[slash:]}".encode()

    def counter(self, path: str) -> bytes:
        """The key of the counter of a znode's children."""
        return self.counters + path.encode()

    def session(self, session_id: int) -> bytes:
        """The key of a session's record; the id is etcd's lease id (signed 64 bit)."""
        return self.sessions + b"%016x" % (session_id & 0xFFFFFFFFFFFFFFFF)

    def marker(self, incarnation: str, lane: int) -> bytes:
        """The key that every Txn of one lane of one proxy puts."""
        return self.markers + f"{incarnation}/{lane}".encode()

    def event_list(self, component: int) -> bytes:
        """The key for a component's ordered events where the net effect would hide some."""
        return self.events + b"%d" % component

    def loss(self, component: int) -> bytes:
        """The key by which a component says that it has lost its race."""
        return self.losses + b"%d" % component

    def proxy(self, incarnation: str) -> bytes:
        """The key by which a living proxy is known; it hangs on the proxy's own lease."""
        return self.proxies + incarnation.encode()

    def path_of_node(self, key: bytes) -> str:
        """The znode's path of a key of the node space. Raises ForeignKey for what only begins like one."""
        rest = key[len(self.nodes) :].decode(errors="replace")
        if not rest:
            return ROOT
        cut = rest.rfind("//")
        if cut < 0 or rest[0] != "/":
            raise ForeignKey(f"{key!r} is not a key of zketcd's schema")
        return rest[:cut] + rest[cut + 1 :]

    def parse(self, key: bytes) -> ParsedKey:
        """What a key under the prefix stands for. Raises ForeignKey for one that is not ours."""
        if key.startswith(self.nodes):
            return ParsedKey(Kind.NODE, self.path_of_node(key))
        if key.startswith(self.counters + b"/"):
            return ParsedKey(Kind.COUNTER, key[len(self.counters) :].decode(errors="replace"))
        for kind, space in (
            (Kind.SESSION, self.sessions),
            (Kind.MARKER, self.markers),
            (Kind.EVENTS, self.events),
            (Kind.LOSS, self.losses),
            (Kind.PROXY, self.proxies),
        ):
            if key.startswith(space):
                if kind is Kind.SESSION and not _SESSION_NAME.fullmatch(key, len(space)):
                    break
                return ParsedKey(kind, key[len(space) :].decode(errors="replace"))
        if key == self.tree:
            return ParsedKey(Kind.TREE, "")
        raise ForeignKey(f"{key!r} is not a key of zketcd's schema")


def session_id_of(name: str) -> int:
    """The signed 64-bit session id of a session key's hexadecimal name."""
    value = int(name, 16)
    return value - (1 << 64) if value >= 1 << 63 else value
