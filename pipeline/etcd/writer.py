"""One task of a load: it turns rows into pages of znodes, and reports on them to the driver.

A task that runs again writes new pages. Only those of the run that Spark accepts become part of the tree.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from codec.longs import unsigned
from pipeline.etcd import columns, load
from pipeline.etcd.limits import Limits
from pipeline.etcd.load import Load
from pipeline.etcd.room import Looks
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Put
from proxy.support.tasks import together
from schema.fixed import fixed_nodes
from schema.keys import Keyspace
from schema.znode import session_of

_IN_FLIGHT = 4  # Txns of a task


@dataclass(frozen=True)
class Part:
    """The result of one task."""

    numbers: tuple[int, ...]  # of its pages
    bytes: int
    nodes: int
    digest: int
    max_zxid: int
    fixed: frozenset[str]  # paths of nodes that every tree has, if they were among the rows
    owners: frozenset[int]  # sessions that have ephemerals among the rows


async def write(
    etcd: Etcd,
    keys: Keyspace,
    begun: Load,
    batches: Iterator[pa.RecordBatch],
    limits: Limits,
    looks: Looks | None = None,
) -> Part:
    """Write the rows of one task, in any order. Raises LoadRefused, EtcdError, ValueError for wrong rows."""
    numbers: list[int] = []
    fixed: set[str] = set()
    owners: set[int] = set()
    part = Part((), 0, 0, 0, 0, frozenset(), frozenset())
    special = pa.array(sorted(fixed_nodes()))

    def pages() -> Iterator[Put]:
        nonlocal part
        for page, rows in columns.pages_of(batches, limits.max_request_bytes):
            column = rows.column("path")
            fixed.update(column.filter(pc.is_in(column, special)).to_pylist())
            owners.update(numpy.unique(columns.numbers(rows, "owner")).tolist())
            part = replace(
                part,
                bytes=part.bytes + len(page),
                nodes=part.nodes + rows.num_rows,
                digest=unsigned(part.digest + sum(columns.hashes(rows))),
                max_zxid=max(
                    part.max_zxid,
                    *(int(columns.numbers(rows, name).max()) for name in ("czxid", "mzxid", "pzxid")),
                ),
            )
            # Its number is not known before it is sent; all have the same length.
            yield Put(keys.node_page(begun.name, 0), page)

    groups = limits.groups(pages(), begun.guard(keys))

    async def send() -> None:
        for group in groups:
            if looks is not None:
                await looks.before(sum([len(put.value) for put in group]))
            first = await load.take_numbers(etcd, keys, begun, len(group))
            taken = range(first, first + len(group))
            await load.guarded(
                etcd,
                keys,
                begun,
                [
                    put._replace(key=keys.node_page(begun.name, n))
                    for n, put in zip(taken, group, strict=True)
                ],
            )
            numbers.extend(taken)

    await together(send() for _ in range(_IN_FLIGHT))  # they share the groups
    return replace(
        part, numbers=tuple(numbers), fixed=frozenset(fixed), owners=frozenset(filter(session_of, owners))
    )
