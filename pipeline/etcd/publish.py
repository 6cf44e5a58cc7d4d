"""The end of a load: all tasks' pages become one tree, or are refused."""

from collections.abc import AsyncIterator, Sequence

import pyarrow as pa

from codec.longs import unsigned
from pipeline.batches import batch_of, fixed_row
from pipeline.buckets import Buckets
from pipeline.etcd import columns, load, paths
from pipeline.etcd.limits import Limits
from pipeline.etcd.load import Load
from pipeline.etcd.paths import Hashes
from pipeline.etcd.requests import LoadRefused, read
from pipeline.etcd.sessions import session_of_row, unknown_session
from pipeline.etcd.writer import Part, write
from pipeline.table import SessionRow
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Get, Put
from proxy.state.digest import session_hash
from proxy.state.level import OF_NEW_TREES
from schema.fixed import fixed_nodes
from schema.keys import Keyspace
from schema.pages import SessionValue, StateValue, encode_state, split_sessions
from schema.paths import ROOT
from schema.record import SnapshotRef, TreeRecord

_IN_A_BUCKET = 500_000  # znodes
_IN_MEMORY = 16 << 20  # bytes of hashes
_HASHES = 16  # bytes of a znode's hash, and of its parent's
_TOGETHER = 64  # pages whose paths are put into buckets at once
_PAGES_TOGETHER = 16  # in one request


def needs_files(nodes: int) -> bool:
    """Whether `publish` may need temporary files for a tree of this size."""
    return nodes * _HASHES > _IN_MEMORY


async def publish(
    etcd: Etcd,
    keys: Keyspace,
    begun: Load,
    parts: Sequence[Part],
    zxid: int,
    sessions: Sequence[SessionRow],
    limits: Limits,
    folder: str | None = None,
) -> TreeRecord:
    """Make one tree of all parts and publish it. `zxid`: the tree's last one.

    An ephemeral whose session is not in `sessions` is deleted after the first proxy has waited for that
    session. `folder`: for temporary files (`needs_files`). Raises LoadRefused, EtcdError, OSError.
    """
    closed = await load.close_writes(etcd, keys, begun)
    missing = frozenset(fixed_nodes()).difference(*(part.fixed for part in parts))
    if ROOT in missing:
        raise LoadRefused("the table has no row for /: it is not a complete tree. Not published")
    if missing:
        rows = [fixed_row(path) for path in sorted(missing)]
        parts = [*parts, await write(etcd, keys, closed, iter([batch_of(rows)]), limits)]
    numbers = [number for part in parts for number in part.numbers]
    await _check_paths(etcd, keys, closed, numbers, sum(part.nodes for part in parts), folder)
    pages = await load.close_gaps(etcd, keys, closed, numbers)
    unknown = frozenset[int]().union(*(part.owners for part in parts)) - {row.id for row in sessions}
    made = [*map(session_of_row, sessions), *map(unknown_session, sorted(unknown))]
    session_pages = list(
        split_sessions(
            SessionValue(each.id, each.timeout_ms, each.password_hash, each.incarnation) for each in made
        )
    )
    state = encode_state(StateValue(zxid, 0, OF_NEW_TREES, closed.cluster_id, {}, ()))
    puts = [Put(keys.state_page(closed.name), state)]
    puts += (Put(keys.session_page(closed.name, at), page) for at, page in enumerate(session_pages))
    await load.put(etcd, keys, closed, lambda _pause: puts, limits)
    digest = sum(part.digest for part in parts) + sum(map(session_hash, made))
    ref = SnapshotRef(
        closed.name,
        closed.position,
        closed.writer,
        pages,
        len(session_pages),
        sum(part.bytes for part in parts) + sum(len(put.value) for put in puts),
        sum(part.nodes for part in parts),
        len(made),
        zxid,
        unsigned(digest),
    )
    return await load.finish(etcd, keys, closed, ref)


async def _check_paths(
    etcd: Etcd, keys: Keyspace, begun: Load, numbers: Sequence[int], nodes: int, folder: str | None
) -> None:
    """Read the paths back from the pages and check that they make one tree. Raises LoadRefused."""
    count = 1 + nodes // _IN_A_BUCKET
    with Buckets(_IN_MEMORY, folder) as buckets:
        hashed: list[tuple[Hashes, Hashes]] = []
        async for column in _paths(etcd, keys, begun, numbers):
            hashed.append(paths.hashes(column))
            if len(hashed) == _TOGETHER:
                buckets.add(paths.assigned(hashed, count))
                hashed = []
        buckets.add(paths.assigned(hashed, count))
        faults = paths.merged(map(paths.check, buckets))
    if not faults:
        return
    found: list[str] = []
    async for column in _paths(etcd, keys, begun, numbers):
        found += paths.suspects(column, faults)
    if (wrong := paths.describe(found, faults)) is not None:  # else only hashes were equal
        raise LoadRefused(f"{wrong}. Not published")


async def _paths(etcd: Etcd, keys: Keyspace, begun: Load, numbers: Sequence[int]) -> AsyncIterator[pa.Array]:
    """The paths of each of these pages. Raises LoadRefused for a page that is not there."""
    ordered = sorted(numbers)
    for start in range(0, len(ordered), _PAGES_TOGETHER):
        some = ordered[start : start + _PAGES_TOGETHER]
        names = [keys.node_page(begun.name, number) for number in some]
        get = Get(names[0], names[-1] + b"\0")
        pairs = (await read(etcd, get)).kvs
        values = {pair.key: pair.value for pair in pairs}
        for name in names:
            if name not in values:
                raise LoadRefused(
                    f"the page {name.decode()}, which was written, is not in etcd. Not published"
                )
            yield columns.paths_of(values[name])
