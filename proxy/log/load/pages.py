"""Reads a snapshot's pages from etcd, by name, several at a time, and builds the state from them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from proxy.etcd.interface import Reads
from proxy.etcd.model import Get, RangeResult, Txn
from proxy.state import capture
from proxy.state.machine import Machine
from proxy.support.tasks import together
from schema.errors import BadValue
from schema.keys import Keyspace
from schema.pages import page_header
from schema.record import SnapshotRef

_TOGETHER = 16  # pages in one request: 1.5 MiB
_REQUESTS = 4  # at a time
_TIMEOUT = 30.0


class UnusableSnapshot(Exception):
    """A page is missing or damaged, or the state made from the pages differs from the record."""


class Pages(NamedTuple):
    """The pages of a snapshot."""

    nodes: Sequence[bytes]
    sessions: Sequence[bytes]
    state: bytes


async def read_snapshot(
    etcd: Reads, keys: Keyspace, ref: SnapshotRef, progress: Callable[[int], None]
) -> Machine:
    """The state that the snapshot holds. `progress` is called with the number of znodes of each page.

    Raises UnusableSnapshot, UnknownLevel, EtcdError.
    """
    pages = await read_pages(etcd, keys, ref, progress)
    # In a thread: the loop stays free, and no other code uses the new state yet.
    return await asyncio.to_thread(_make, pages, ref)


async def read_pages(
    etcd: Reads, keys: Keyspace, ref: SnapshotRef, progress: Callable[[int], None] = lambda _count: None
) -> Pages:
    """The snapshot's pages as they are. Raises UnusableSnapshot if one is missing, EtcdError."""
    node_keys = [keys.node_page(ref.name, index) for index in range(ref.node_pages)]
    session_keys = [keys.session_page(ref.name, index) for index in range(ref.session_pages)]
    state_key = keys.state_page(ref.name)
    found = await _read(etcd, [state_key, *session_keys, *node_keys], progress)
    return Pages(found[1 + len(session_keys) :], found[1 : 1 + len(session_keys)], found[0])


def _make(pages: Pages, ref: SnapshotRef) -> Machine:
    try:
        machine = capture.load(*pages, ref.digest)
    except BadValue as error:
        raise UnusableSnapshot(str(error)) from error
    found = (len(machine.tree.nodes), len(machine.sessions), machine.zxid)
    if found != (ref.nodes, ref.sessions, ref.zxid):
        raise UnusableSnapshot(
            f"it has {found[0]} znodes, {found[1]} sessions and zxid 0x{found[2]:x}; its record says"
            f" {ref.nodes}, {ref.sessions} and 0x{ref.zxid:x}"
        )
    return machine


async def _read(etcd: Reads, names: Sequence[bytes], progress: Callable[[int], None]) -> list[bytes]:
    """The values of all keys, in order. Raises UnusableSnapshot if one is missing."""
    values: list[bytes] = [b""] * len(names)
    free = asyncio.Semaphore(_REQUESTS)

    async def some(start: int) -> None:
        async with free:
            wanted = names[start : start + _TOGETHER]
            answer = await etcd.txn(Txn((), [Get(name) for name in wanted]), _TIMEOUT)
        for index, (name, result) in enumerate(zip(wanted, answer.responses, strict=True), start):
            assert isinstance(result, RangeResult)
            if not result.kvs:
                raise UnusableSnapshot(f"the page {name.decode()} is missing")
            values[index] = result.kvs[0].value
            progress(_count(values[index]))

    await together(some(start) for start in range(0, len(names), _TOGETHER))
    return values


def _count(page: bytes) -> int:
    """How many znodes a page has."""
    try:
        return page_header(page).count
    except BadValue:
        return 0  # it has sessions or the state; or it is damaged, which decoding it reports
