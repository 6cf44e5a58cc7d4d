"""Reading a prefix piece by piece gives each znode once, with its counter, as of one revision."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.etcd import ranges, read
from pipeline.etcd.limits import Limits
from pipeline.etcd.load import begin, finish, write
from pipeline.etcd.passwords import password_of
from pipeline.etcd.records import puts_of
from pipeline.table import SessionRow, ZnodeRow
from proxy.etcd.model import Delete, Put, Txn
from proxy.sessions import hash_of
from schema.keys import Keyspace
from schema.paths import ROOT, parent_of
from schema.values import SessionValue, encode_session
from tests.fakes.etcd import FakeEtcd, FakeEtcdClient

KEYS = Keyspace("/t")

# Names around '/' and '0' in ASCII, and beginnings of each other: where ranges could overlap or leave a gap.
_NAMES = (
    st.text("-./0a", min_size=1, max_size=3)
    .map(lambda name: name.replace("/", "é"))
    .filter(lambda name: name not in (".", ".."))
)
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))


def tree_of(paths: set[str]) -> dict[str, ZnodeRow]:
    """A row for each path and all above it; every second one has a counter."""
    whole = {ROOT}
    for path in paths:
        while path != ROOT:
            whole.add(path)
            path = parent_of(path)
    return {
        path: ZnodeRow(path, path.encode(), None, 5, 6, 5 + number % 2, 1, 2, 0, number % 2, 0, 0)
        for number, path in enumerate(sorted(whole))
    }


async def loaded(tree: dict[str, ZnodeRow]) -> FakeEtcdClient:
    etcd = FakeEtcdClient(FakeEtcd())
    fence = await begin(etcd, KEYS)
    await write(etcd, KEYS, fence, [put for row in tree.values() for put in puts_of(KEYS, row)], Limits())
    await finish(etcd, KEYS, fence, 6)
    for path in ("/zookeeper", "/zookeeper/quota", "/zookeeper/config"):
        if path not in tree:
            await etcd.txn(Txn((), (Delete(KEYS.node(path)),)), 1)
    return etcd


async def all_rows(etcd: FakeEtcdClient, seen: read.Survey, size: int) -> list[ZnodeRow]:
    found = [await read.root(etcd, KEYS, seen)]
    for piece in await ranges.plan(etcd, KEYS, seen.revision, size):
        before = len(found)
        async for page in read.rows(etcd, KEYS, seen, piece):
            found += page
        assert len(found) - before == piece.size <= size
    return found


@settings(max_examples=60)
@given(st.sets(_PATHS, max_size=25), st.integers(1, 8))
async def test_pieces_hold_each_znode_once(paths: set[str], size: int) -> None:
    tree = tree_of(paths)
    etcd = await loaded(tree)
    found = await all_rows(etcd, await read.survey(etcd, KEYS), size)
    assert sorted(found) == sorted(tree.values())


async def test_a_revision_is_kept_to() -> None:
    tree = tree_of({"/a/b", "/a/c"})
    etcd = await loaded(tree)
    seen = await read.survey(etcd, KEYS)
    await etcd.txn(Txn((), (Delete(KEYS.node("/a/b")), Put(KEYS.counter("/a"), b"not a counter"))), 1)
    assert sorted(await all_rows(etcd, seen, 2)) == sorted(tree.values())
    again = await read.survey(etcd, KEYS, seen.revision)
    assert again == seen
    assert seen.last_zxid > 0x100000000


async def test_half_a_tree_is_not_read() -> None:
    etcd = FakeEtcdClient(FakeEtcd())
    with pytest.raises(read.NotReadable, match="no tree"):
        await read.survey(etcd, KEYS)
    await begin(etcd, KEYS)
    with pytest.raises(read.NotReadable, match="not complete"):
        await read.survey(etcd, KEYS)


async def test_sessions_tell_whether_zookeeper_would_know_their_password() -> None:
    etcd = FakeEtcdClient(FakeEtcd())
    values = {7: password_of(7), -5: b"another"}
    for session_id, password in values.items():
        value = encode_session(SessionValue(hash_of(password), 4000, "me"))
        await etcd.txn(Txn((), (Put(KEYS.session(session_id), value),)), 1)
    revision = etcd.store.revision
    assert await read.sessions(etcd, KEYS, revision) == [
        read.Session(SessionRow(-5, 4000), derived=False),
        read.Session(SessionRow(7, 4000), derived=True),
    ]


def test_small_pieces_share_a_partition() -> None:
    pieces = [ranges.Piece(b"", b"", None, size) for size in (3, 3, 9, 1, 1, 8, 10)]
    sizes = [[piece.size for piece in group] for group in ranges.group(pieces, 10)]
    assert sizes == [[3, 3], [9, 1], [1, 8], [10]]
    assert ranges.group([], 10) == []
