"""A history's requests as the client's, and replies as a history's records. Pure."""

from collections.abc import Callable
from typing import Any, NamedTuple

from codec import client as zk
from codec.constants import CreateMode, OpCode
from codec.jute import Reader
from lab.client.replies import Part, parts_of
from proof.history import (
    AddWatch,
    Check,
    CloseSession,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Reply,
    SetData,
    SetWatches,
    Stat,
    Sync,
)
from proof.history.records import Request


class CreateExpiring(NamedTuple):
    """A new TTL node, or a container if there is no TTL. `expiring_nodes` judges it."""

    path: str
    data: bytes = b""
    ttl_ms: int = 0


class Look(NamedTuple):
    """A read that an ACL may refuse: getData, getChildren2 or getACL. `acl_reads` judges it.

    `identities`: scheme and id of all that its client has proven. The reply's data are the answer's bytes.
    """

    opcode: int
    path: str
    identities: tuple[tuple[str, str], ...]


_LOOKS: dict[int, Callable[[str], zk.Request[Any]]] = {
    OpCode.GET_DATA: zk.get,
    OpCode.GET_CHILDREN2: zk.children,
    OpCode.GET_ACL: zk.get_acl,
}


def asked(request: Request | CreateExpiring | Look | zk.Request[Any]) -> zk.Request[Any]:
    """A request as the client sends it."""
    match request:
        case zk.Request():
            return request
        case Look(opcode, path):
            return _LOOKS[opcode](path)
        case Create(path, data, ephemeral, sequential):
            mode = (CreateMode.EPHEMERAL if ephemeral else 0) | (
                CreateMode.PERSISTENT_SEQUENTIAL if sequential else 0
            )
            return zk.create(path, data or b"", mode)
        case CreateExpiring(path, data, 0):
            return zk.create(path, data, CreateMode.CONTAINER)
        case CreateExpiring(path, data, ttl_ms):
            return zk.create(path, data, CreateMode.PERSISTENT_WITH_TTL, ttl_ms=ttl_ms)
        case Delete(path, version):
            return zk.delete(path, version)
        case SetData(path, data, version):
            return zk.set_data(path, data or b"", version)
        case Check(path, version):
            return zk.check(path, version)
        case Multi(parts):
            return zk.multi([asked(part) for part in parts])
        case CloseSession():
            return zk.close()
        case Exists(path, watch):
            return zk.exists(path, watch)
        case GetData(path, watch):
            return zk.get(path, watch)
        case GetChildren(path, watch):
            return zk.children(path, watch)
        case Sync(path):
            return zk.sync(path)
        case AddWatch(path, recursive):
            return zk.add_watch(path, recursive=recursive)
        case SetWatches():
            return zk.set_watches(*request)
    raise TypeError(f"not a request: {request!r}")


def reply(request: Request | Look, zxid: int, error: int, body: bytes) -> Reply:
    """What a reply to a request says."""
    if isinstance(request, Multi) and body:
        return Reply(error, zxid, parts=tuple(map(_part, parts_of(body))))
    if error or isinstance(request, zk.Request):
        return Reply(error, zxid)
    if isinstance(request, Look):
        return Reply(0, zxid, data=body)
    answer = asked(request).read(Reader(body))
    match answer:
        case zk.Stat():
            return Reply(0, zxid, stat=_stat(answer))
        case zk.Data(data, stat):
            return Reply(0, zxid, data=data, stat=_stat(stat))
        case zk.Children(names, stat):
            return Reply(0, zxid, names=tuple(names), stat=_stat(stat))
        case str() if isinstance(request, Create):
            return Reply(0, zxid, path=answer)
    return Reply(0, zxid)


def _part(part: Part) -> Reply:
    return Reply(part.error, None, path=part.path, stat=None if part.stat is None else _stat(part.stat))


def _stat(stat: zk.Stat) -> Stat:
    return Stat(
        stat.czxid,
        stat.mzxid,
        stat.version,
        stat.cversion,
        stat.ephemeral_owner,
        stat.data_length,
        stat.num_children,
        stat.pzxid,
    )
