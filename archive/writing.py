"""Writes a plan as a client of ZooKeeper does: multis on one connection, under the caller's identities."""

from collections.abc import Iterator, Sequence

from archive.revert import Kind, Step
from codec.client import name_of
from codec.constants import CreateMode, OpCode
from codec.jute import INT, LONG, pack_acls, pack_buffer, pack_string
from proxy.ctl.client import Client, Part, Refused
from proxy.state.node import Node
from schema.paths import join
from schema.znode import CONTAINER_OWNER, MAX_TTL

_MOST_PARTS = 200
_MOST_BYTES = 400_000  # of a multi; ZooKeeper's jute.maxbuffer is 1 MiB
_COUNTING = "zketcd-revert"


def write(client: Client, steps: Sequence[Step]) -> Iterator[int]:
    """Do the steps in their order; yields how many are done. Raises Refused."""
    parts: list[tuple[str, Part]] = []
    size = 0
    for done, step in enumerate(steps):
        for unit in _units(step):
            single = unit[0][0] == OpCode.SET_ACL  # not in a multi
            more = sum(len(body) for _, body in unit)
            if parts and (single or len(parts) + len(unit) > _MOST_PARTS or size + more > _MOST_BYTES):
                client.multi(parts)
                parts, size = [], 0
                yield done
            if single:
                _one(client, step.path, unit[0])
            else:
                parts += [(step.path, part) for part in unit]
                size += more
    if parts:
        client.multi(parts)
    yield len(steps)


def _one(client: Client, path: str, part: Part) -> None:
    error, _ = client.call(*part)
    if error:
        raise Refused(f"{part[0].name} {path}: {name_of(error)}")


def _units(step: Step) -> Iterator[list[Part]]:
    """The requests of a step; those of a unit are done together or not at all."""
    path, node = step.path, step.node
    if step.kind is Kind.DELETE:
        yield [(OpCode.DELETE, pack_string(path) + INT.pack(step.version))]
    elif step.kind is Kind.SET:
        yield [(OpCode.SET_DATA, pack_string(path) + pack_buffer(node.data) + INT.pack(step.version))]
    elif step.kind is Kind.SET_ACL:
        yield [(OpCode.SET_ACL, pack_string(path) + pack_acls(node.acl) + INT.pack(step.version))]
    elif step.kind is Kind.CREATE:
        yield [_create(path, node.data, node)]
    else:
        child = join(path, _COUNTING)
        pair = [_create(child, b"", node, 0), (OpCode.DELETE, pack_string(child) + INT.pack(-1))]
        for _ in range(step.times):
            yield pair


def _create(path: str, data: bytes | None, node: Node, owner: int | None = None) -> Part:
    owner = node.owner if owner is None else owner
    body = pack_string(path) + pack_buffer(data) + pack_acls(node.acl)
    if owner == CONTAINER_OWNER:
        return OpCode.CREATE_CONTAINER, body + INT.pack(CreateMode.CONTAINER)
    if owner:
        ttl = LONG.pack(owner & MAX_TTL)
        return OpCode.CREATE_TTL, body + INT.pack(CreateMode.PERSISTENT_WITH_TTL) + ttl
    return OpCode.CREATE, body + INT.pack(CreateMode.PERSISTENT)
