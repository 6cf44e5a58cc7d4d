"""Requests about nodes on one session: what the commands and the shell are made of."""

from collections.abc import Iterator, Sequence

from codec import client
from codec.client import Children, Stat
from codec.constants import CreateMode, ErrorCode, OpCode
from codec.jute import INT, LONG, Acl, Reader, pack_acls, pack_buffer, pack_string
from proxy.ctl.client import Client, Refused
from schema.paths import ROOT, join, parent_of

OPEN = (Acl(31, "world", "anyone"),)
_LETTERS = "rwcda"
_TOGETHER = 200  # deletions in one multi
_WITHOUT_WATCH = b"\x00"


def create(
    session: Client,
    path: str,
    data: bytes,
    acl: Sequence[Acl] = OPEN,
    mode: CreateMode = CreateMode.PERSISTENT,
    ttl: int = 0,
) -> str:
    """Create a node; the path that it has. Raises Refused."""
    body = pack_string(path) + pack_buffer(data) + pack_acls(acl) + INT.pack(mode)
    opcode = OpCode.CREATE
    if ttl:
        opcode, body = OpCode.CREATE_TTL, body + LONG.pack(ttl)
    elif mode == CreateMode.CONTAINER:
        opcode = OpCode.CREATE_CONTAINER
    return _call(session, opcode, path, body).string() or path


def create_parents(session: Client, path: str) -> None:
    """Create the nodes above a path that are missing. Raises Refused."""
    above = parent_of(path)
    if above == ROOT or exists(session, above):
        return
    create_parents(session, above)
    create(session, above, b"")


def exists(session: Client, path: str) -> bool:
    """Whether there is a node. Raises Refused."""
    error, _ = session.call(OpCode.EXISTS, pack_string(path) + _WITHOUT_WATCH)
    if error not in (0, ErrorCode.NO_NODE):
        raise Refused(f"exists {path}: {client.name_of(error)}")
    return not error


def get(session: Client, path: str) -> tuple[bytes | None, Stat]:
    """A node's data. Raises Refused."""
    reader = _call(session, OpCode.GET_DATA, path, pack_string(path) + _WITHOUT_WATCH)
    return reader.buffer(), client.stat(reader)


def children(session: Client, path: str) -> Children:
    """The names of a node's children. Raises Refused."""
    return client.children(_call(session, OpCode.GET_CHILDREN2, path, pack_string(path) + _WITHOUT_WATCH))


def set_data(session: Client, path: str, data: bytes, version: int = -1) -> Stat:
    """Set a node's data. Raises Refused."""
    body = pack_string(path) + pack_buffer(data) + INT.pack(version)
    return client.stat(_call(session, OpCode.SET_DATA, path, body))


def delete(session: Client, path: str, version: int = -1) -> None:
    """Delete a node. Raises Refused."""
    _call(session, OpCode.DELETE, path, pack_string(path) + INT.pack(version))


def walk(session: Client, path: str) -> Iterator[str]:
    """A node and all below it, parents first. What goes meanwhile is left out. Raises Refused."""
    waiting = [path]
    while waiting:
        place = waiting.pop()
        error, reader = session.call(OpCode.GET_CHILDREN2, pack_string(place) + _WITHOUT_WATCH)
        if error == ErrorCode.NO_NODE and place != path:
            continue
        if error:
            raise Refused(f"getChildren {place}: {client.name_of(error)}")
        yield place
        waiting += [join(place, name) for name in sorted(client.children(reader).names, reverse=True)]


def delete_all(session: Client, path: str) -> Iterator[int]:
    """Delete a node and all below it, children first; yields how many are done. Raises Refused.

    The steps are not one: a client that creates nodes there meanwhile stops it.
    """
    paths = [each for each in walk(session, path) if each != ROOT][::-1]
    for start in range(0, len(paths), _TOGETHER):
        some = paths[start : start + _TOGETHER]
        session.multi([(each, (OpCode.DELETE, pack_string(each) + INT.pack(-1))) for each in some])
        yield start + len(some)


def acl_of(session: Client, path: str) -> tuple[tuple[Acl, ...], int]:
    """A node's ACL and its version. Raises Refused."""
    reader = _call(session, OpCode.GET_ACL, path, pack_string(path))
    return reader.acls() or (), client.stat(reader).aversion


def set_acl(session: Client, path: str, acl: Sequence[Acl], version: int = -1) -> None:
    """Set a node's ACL. Raises Refused."""
    _call(session, OpCode.SET_ACL, path, pack_string(path) + pack_acls(acl) + INT.pack(version))


def acl_text(acl: Sequence[Acl]) -> str:
    """As zkCli writes ACLs: SCHEME:ID:PERMISSIONS, separated by commas."""
    return ",".join(f"{each.scheme}:{each.id}:{permissions(each.perms)}" for each in acl)


def permissions(perms: int) -> str:
    """The letters of permissions."""
    return "".join(letter for bit, letter in enumerate(_LETTERS) if perms & 1 << bit)


def parsed_acl(text: str) -> tuple[Acl, ...]:
    """The entries of SCHEME:ID:PERMISSIONS,... Raises ValueError."""
    return tuple([_entry(each) for each in text.split(",")])


def _entry(text: str) -> Acl:
    scheme, first, rest = text.partition(":")
    name, second, letters = rest.rpartition(":")
    if not (scheme and first and second and letters) or set(letters) - set(_LETTERS):
        raise ValueError(f"{text!r} is not SCHEME:ID:PERMISSIONS, with permissions out of {_LETTERS}")
    return Acl(sum(1 << _LETTERS.index(letter) for letter in set(letters)), scheme, name)


def _call(session: Client, opcode: OpCode, path: str, body: bytes) -> Reader:
    error, reader = session.call(opcode, body)
    if error:
        raise Refused(f"{opcode.name.lower()} {path}: {client.name_of(error)}")
    return reader
