"""What a followed tree has changed, as the body of a request of kind FOLLOWED.

Not the transactions but what has become of the znodes that they touched: then the state machine needs none of
the rules of requests, and many changes of one znode take the room of one. README.md has the layout.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from schema.errors import BadValue
from schema.json_values import number, pack_json, text, unpack_json
from schema.pages import SessionValue, decode_nodes, decode_sessions, encode_nodes, encode_sessions
from schema.text import Fields, to_bytes, to_text
from schema.znode import Znode

_HEAD = Struct(">qqI")
_SIZE = Struct(">I")
_SESSION = Struct(">q")


class Followed(NamedTuple):
    """The changes from one zxid to a later one."""

    after: int  # zxid of the state that changes; any other state refuses these changes
    zxid: int  # of the state after it
    deleted: Sequence[str]  # paths, children before their parents
    # Each sorted by path. What a node had before is absent: its data are null here, its ACL is empty. So a
    # small change of a node makes a small entry.
    nodes: Sequence[tuple[str, Znode]]  # new, or with other data and another ACL
    data: Sequence[tuple[str, Znode]]  # with other data, and the ACL that they had
    acls: Sequence[tuple[str, Znode]]  # with another ACL, and the data that they had
    stats: Sequence[tuple[str, Znode]]  # with the data and the ACL that they had
    opened: Sequence[SessionValue]
    closed: Sequence[int]  # ids of sessions

    @property
    def changed(self) -> tuple[Sequence[tuple[str, Znode]], ...]:
        """All that are new or have changed, in the order of the fields."""
        return self.nodes, self.data, self.acls, self.stats


def encode_followed(changes: Followed) -> bytes:
    """The body. The paths hold no NUL."""
    deleted = b"\0".join(map(to_bytes, changes.deleted))
    parts = (
        deleted,
        *[encode_nodes(each) if each else b"" for each in changes.changed],
        encode_sessions(changes.opened) if changes.opened else b"",
        b"".join(map(_SESSION.pack, changes.closed)),
    )
    head = _HEAD.pack(changes.after, changes.zxid, len(changes.deleted))
    return head + b"".join(_SIZE.pack(len(part)) + part for part in parts)


def decode_followed(body: bytes) -> Followed:
    """Raises BadValue."""
    fields = Fields(body, "a followed change")
    after, zxid, count = fields.unpack(_HEAD)
    deleted, *pages, opened, closed = (fields.raw(fields.size()) for _ in range(7))
    fields.end()
    paths = to_text(deleted).split("\0") if deleted else []
    if len(paths) != count or len(closed) % _SESSION.size:
        raise BadValue(f"a followed change has {len(paths)} deleted paths instead of {count}")
    nodes, data, acls, stats = (decode_nodes(page) if page else [] for page in pages)
    return Followed(
        after,
        zxid,
        paths,
        nodes,
        data,
        acls,
        stats,
        decode_sessions(opened) if opened else [],
        [session_id for (session_id,) in _SESSION.iter_unpack(closed)],
    )


def followed_after(body: bytes) -> int:
    """The zxid of the state that the changes lead from. Raises BadValue."""
    return int(Fields(body, "a followed change").unpack(_HEAD)[0])


class Lag(NamedTuple):
    """How far a tree is behind the one that it follows, as `zketcd follow` last said."""

    level_ms: int  # when it was last level with its source: milliseconds since 1970; 0: not yet
    behind: int  # transactions or requests that the source is known to have, and the tree has not
    zxid: int = 0  # of the tree; 0: unknown


def encode_lag(lag: Lag) -> bytes:
    """The value of the key `follow/lag`."""
    return pack_json(lag._asdict())


def decode_lag(value: bytes) -> Lag:
    """Raises BadValue."""
    members = unpack_json(value, "the lag of the tree that follows")
    try:
        return Lag(number(members["level_ms"]), number(members["behind"]), number(members.get("zxid", 0)))
    except (KeyError, ValueError) as error:
        raise BadValue(f"the lag of the tree that follows is wrong: {error!r}") from None


class Sign(NamedTuple):
    """The sign of life of a `zketcd follow`, in its source's etcd."""

    within: int  # seconds for which the source's proxies may serve without another one, at most
    revision: int  # of the source's etcd: it held the copy when that was made, or later; 0: unknown
    cluster_id: int  # of the copy's etcd
    prefix: str  # of the copy


def encode_sign(sign: Sign) -> bytes:
    """The value of the key `follow/heard`."""
    return pack_json(sign._asdict())


def decode_sign(value: bytes) -> Sign:
    """Raises BadValue."""
    members = unpack_json(value, "the sign of life of the standby's follower")
    try:
        return Sign(
            number(members["within"]),
            number(members["revision"]),
            number(members["cluster_id"]),
            text(members["prefix"]),
        )
    except (KeyError, ValueError) as error:
        raise BadValue(f"the sign of life of the standby's follower is wrong: {error!r}") from None


class Counts(NamedTuple):
    """For people: what a body holds."""

    after: int
    zxid: int
    deleted: int
    changed: int  # nodes
    opened: int
    closed: int


def counts_of(body: bytes) -> Counts:
    """How many of each. Raises BadValue."""
    found = decode_followed(body)
    changed = sum(map(len, found.changed))
    return Counts(found.after, found.zxid, len(found.deleted), changed, len(found.opened), len(found.closed))
