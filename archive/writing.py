"""Writes a plan as a client of ZooKeeper does: multis on one connection, under the caller's identities."""

from collections.abc import Iterator, Sequence
from typing import Any

from archive.past.revert import Kind, Step
from cli.client import Client
from codec import client as zk
from codec.client import Request
from codec.constants import CreateMode, OpCode
from proxy.state.node import Node
from schema.paths import join
from schema.znode import CONTAINER_OWNER, MAX_TTL

_COUNTING = "zketcd-revert"


def write(client: Client, steps: Sequence[Step]) -> Iterator[int]:
    """Do the steps in their order; yields how many are done. Raises Refused."""
    parts: list[Request[Any]] = []
    size = 0
    for done, step in enumerate(steps):
        for unit in _units(step):
            single = unit[0].opcode == OpCode.SET_ACL  # not in a multi
            more = sum(len(part.body) for part in unit)
            if parts and (single or len(parts) + len(unit) > zk.MOST_TOGETHER or size + more > zk.MOST_BYTES):
                client.multi(parts)
                parts, size = [], 0
                yield done
            if single:
                client.call(unit[0])
            else:
                parts += unit
                size += more
    if parts:
        client.multi(parts)
    yield len(steps)


def _units(step: Step) -> Iterator[list[Request[Any]]]:
    """The requests of a step; those of a unit are done together or not at all."""
    path, node = step.path, step.node
    if step.kind is Kind.DELETE:
        yield [zk.delete(path, step.version)]
    elif step.kind is Kind.SET:
        yield [zk.set_data(path, node.data, step.version)]
    elif step.kind is Kind.SET_ACL:
        yield [zk.set_acl(path, node.acl, step.version)]
    elif step.kind is Kind.CREATE:
        yield [_create(path, node)]
    else:
        child = join(path, _COUNTING)
        for _ in range(step.times):
            yield [zk.create(child, acl=node.acl), zk.delete(child)]


def _create(path: str, node: Node) -> Request[str]:
    if node.owner == CONTAINER_OWNER:
        return zk.create(path, node.data, CreateMode.CONTAINER, node.acl)
    mode = CreateMode.PERSISTENT_WITH_TTL if node.owner else CreateMode.PERSISTENT
    return zk.create(path, node.data, mode, node.acl, node.owner & MAX_TTL)
