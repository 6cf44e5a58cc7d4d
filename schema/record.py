"""The tree's record and a living proxy's value: JSON, since people read them with etcdctl."""

from typing import Any, NamedTuple

from schema.errors import BadValue
from schema.json_values import boolean, number, pack_json, text, unpack_json


class SnapshotRef(NamedTuple):
    """A snapshot that the tree's record names."""

    name: str  # in its pages' keys
    position: int  # it holds the effects of all entries up to this mod_revision
    writer: str  # the incarnation that made it
    node_pages: int
    session_pages: int
    bytes: int  # of all its pages as they lie in etcd
    nodes: int
    sessions: int
    zxid: int
    digest: int  # unsigned, 64 bits


class Seal(NamedTuple):
    """Where the tree has gone. What this etcd holds under the prefix ends where the record was put."""

    etcd: str  # addresses, as --etcd takes them
    prefix: str
    cluster_id: int  # of that etcd
    time: int  # milliseconds since 1970, by the clock of the host that sealed the tree

    def leads_to(self, other: "Seal") -> bool:
        """Whether both name the same tree. Addresses are for people: one etcd has many."""
        return (self.cluster_id, self.prefix) == (other.cluster_id, other.prefix)


class TreeRecord(NamedTuple):
    """The prefix's own record: what a start needs to know before anything else."""

    complete: bool  # False while an import runs, and once the tree is sealed: such a tree is not served
    cluster_id: int  # etcd's; another one means that the tree was restored into another cluster
    level: int  # of the state machine's semantics
    current: SnapshotRef | None
    previous: SnapshotRef | None
    seal: Seal | None = None


class Home(NamedTuple):
    """Where a proxy runs, for people and their tools. Commands say nothing."""

    host: str = ""  # the host's name
    listen: str = ""  # HOST:PORT for clients
    admin: str = ""  # the URL of the admin HTTP server; empty without one
    started: int = 0  # milliseconds since 1970


class PeerPort(NamedTuple):
    """Where a proxy takes entries of other proxies, to append them together with its own."""

    address: str = ""  # HOST:PORT; empty if it takes none
    secret: bytes = b""  # any process that knows it may write the tree


class ProxyValue(NamedTuple):
    """What a living proxy says of itself."""

    levels: tuple[int, ...]  # that it can apply
    version: str  # its release, for people
    archives: bool = False  # it archives the log if it is the eldest of those that do
    home: Home = Home()
    peer_port: PeerPort = PeerPort()
    #: Seconds of its lease, as etcd has granted it: by this other proxies time its sessions once it is gone.
    #: 0: a command's, which has no sessions.
    lease: int = 0
    #: It is a command that acts on the tree: it serves no client, and does nothing for the proxies.
    visits: bool = False


def encode_record(record: TreeRecord) -> bytes:
    """The value of `<prefix>/live/tree`."""
    sealed = {} if record.seal is None else {"seal": record.seal._asdict()}
    return pack_json(
        {
            "complete": record.complete,
            "cluster_id": record.cluster_id,
            "level": record.level,
            "current": pack_snapshot(record.current),
            "previous": pack_snapshot(record.previous),
            **sealed,
        }
    )


def decode_record(value: bytes) -> TreeRecord:
    """Raises BadValue."""
    what = "the tree's record"
    members = unpack_json(value, what)
    try:
        return TreeRecord(
            boolean(members["complete"]),
            number(members["cluster_id"]),
            number(members["level"]),
            unpack_snapshot(members["current"]),
            unpack_snapshot(members["previous"]),
            _unpack_seal(members.get("seal")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadValue(f"{what} has no proper {error}") from error


def encode_proxy(proxy: ProxyValue) -> bytes:
    """The value of `<prefix>/live/proxy/<incarnation>`."""
    archives = {"archives": True} if proxy.archives else {}
    peer = {"peer": [proxy.peer_port.address, proxy.peer_port.secret.hex()]} if any(proxy.peer_port) else {}
    lease = {"lease": proxy.lease} if proxy.lease else {}
    visits = {"visits": True} if proxy.visits else {}
    return pack_json(
        {
            "levels": proxy.levels,
            "version": proxy.version,
            **archives,
            **proxy.home._asdict(),
            **peer,
            **lease,
            **visits,
        }
    )


def decode_proxy(value: bytes) -> ProxyValue:
    """Raises BadValue."""
    what = "a proxy's value"
    members = unpack_json(value, what)
    try:
        levels = tuple([number(level) for level in members["levels"]])
        archives = boolean(members.get("archives", False))
        home = Home(
            text(members.get("host", "")),
            text(members.get("listen", "")),
            text(members.get("admin", "")),
            number(members.get("started", 0)),
        )
        address, secret, *_ = members.get("peer", ("", ""))
        peer_port = PeerPort(text(address), bytes.fromhex(text(secret)))
        lease = number(members.get("lease", 0))
        visits = boolean(members.get("visits", False))
        return ProxyValue(levels, text(members["version"]), archives, home, peer_port, lease, visits)
    except (KeyError, TypeError, ValueError) as error:
        raise BadValue(f"{what} has no proper {error}") from error


def pack_snapshot(snapshot: SnapshotRef | None) -> dict[str, Any] | None:
    """For JSON."""
    # The digest is hexadecimal: JSON tools such as jq round numbers beyond 2^53.
    return None if snapshot is None else {**snapshot._asdict(), "digest": f"{snapshot.digest:016x}"}


def unpack_snapshot(members: Any) -> SnapshotRef | None:
    """The reverse of `pack_snapshot`. Raises KeyError, TypeError, ValueError."""
    if members is None:
        return None
    return SnapshotRef(
        name=text(members["name"]),
        position=number(members["position"]),
        writer=text(members["writer"]),
        node_pages=number(members["node_pages"]),
        session_pages=number(members["session_pages"]),
        bytes=number(members["bytes"]),
        nodes=number(members["nodes"]),
        sessions=number(members["sessions"]),
        zxid=number(members["zxid"]),
        digest=int(text(members["digest"]), 16),
    )


def _unpack_seal(members: Any) -> Seal | None:
    if members is None:
        return None
    return Seal(
        etcd=text(members["etcd"]),
        prefix=text(members["prefix"]),
        cluster_id=number(members["cluster_id"]),
        time=number(members["time"]),
    )


def is_incomplete_with_pages(record: TreeRecord | None) -> bool:
    """Whether a tree that is not complete has a whole snapshot, as one that follows another one.

    An import begins with a snapshot that has no pages. A sealed tree is none of these.
    """
    return (
        record is not None
        and not record.complete
        and record.seal is None
        and record.current is not None
        and record.current.node_pages > 0
    )
