"""Deletions in chunks, each under the record; the hard cases are in test_snapshot_writer."""

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from proxy.etcd.model import Compare, Delete, Put, Txn, TxnResult
from proxy.log.upkeep import truncation as module
from proxy.log.upkeep.truncation import Overtaken, applied_in, delete_pages, truncate_log
from schema.keys import snapshot_name
from tests.proxy.log.trees import Tree


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENTRIES_AT_ONCE", 4)
    monkeypatch.setattr(module, "PAGES_AT_ONCE", 2)


class Noting(FakeEtcdClient):
    """Keeps the Txns."""

    def __init__(self, store: FakeEtcd) -> None:
        super().__init__(store)
        self.sent: list[Txn] = []

    async def txn(self, txn: Txn, timeout: float) -> TxnResult:
        self.sent.append(txn)
        return await super().txn(txn, timeout)


async def make() -> tuple[Tree, Compare]:
    tree = await Tree().make("a", "b")
    for count in range(20):
        await tree.create("a", f"/{count}")
    return tree, Compare(tree.keys.tree, (await tree.pair()).mod_revision)


async def test_entries_go_by_number_in_chunks() -> None:
    tree, record = await make()
    client = Noting(tree.store)
    assert await truncate_log(client, tree.keys, record, {"a": 10, "gone": 7}) == 10
    assert len(client.sent) == 3
    assert all(txn.compares == [record] for txn in client.sent)
    left = [tree.keys.parse(key) for key in await tree.entries()]
    assert [(each.incarnation, each.number) for each in left] == [
        *(("a", number) for number in range(11, 22)),
        ("b", 1),
    ]
    assert await truncate_log(client, tree.keys, record, {"a": 10}) == 0
    # A late copy of what was truncated before goes too, when more is truncated.
    await tree.put("a", b"late", number=3)
    await truncate_log(client, tree.keys, record, {"a": 12})
    assert len(await tree.entries()) == 10


async def test_another_record_stops_a_truncation() -> None:
    tree, record = await make()

    class Overtaking(Noting):
        async def txn(self, txn: Txn, timeout: float) -> TxnResult:
            if self.sent:
                tree.change(Put(tree.keys.tree, b"another"))
            return await super().txn(txn, timeout)

    with pytest.raises(Overtaken, match="record has changed"):
        await truncate_log(Overtaking(tree.store), tree.keys, record, {"a": 20})
    assert len(await tree.entries()) == 22 - 4


async def test_pages_go_state_first() -> None:
    tree, record = await make()
    named = (await tree.snapshot("a")).ref
    assert named is not None
    record = Compare(tree.keys.tree, (await tree.pair()).mod_revision)
    for name in ("0000000000000001-b", "0000000000000002-b"):
        pages = [tree.keys.node_page(name, index) for index in range(5)]
        pages += [tree.keys.session_page(name, 0), tree.keys.state_page(name)]
        tree.change(*(Put(page, b"") for page in pages))
    tree.change(Put(tree.keys.snapshots + b"what/is-this", b""))
    client = Noting(tree.store)
    assert await delete_pages(client, tree.keys, await tree.record(), record) == 14
    firsts = [op.key for op in client.sent[0].success if isinstance(op, Delete)]
    assert firsts == [tree.keys.state_page("0000000000000001-b")]
    assert await tree.snapshots() == {named.name, "what"}


async def test_pages_that_may_still_be_named_stay() -> None:
    """A living writer that began with this record may have read the state right after its change."""
    tree, record = await make()
    older, same, newer = (snapshot_name(record.mod_revision + after, "b") for after in (-1, 0, 1))
    tree.change(*(Put(tree.keys.state_page(name), b"") for name in (older, same, newer)))
    named = await tree.record()
    assert await delete_pages(tree.etcd, tree.keys, named, record) == 1
    assert await tree.snapshots() == {same, newer}
    assert await delete_pages(tree.etcd, tree.keys, named, record, "b") == 2


async def test_a_state_page_that_cannot_be_read_truncates_nothing(caplog: pytest.LogCaptureFixture) -> None:
    tree, _ = await make()
    assert await applied_in(tree.etcd, tree.keys, "1-x") is None
    tree.change(Put(tree.keys.state_page("1-x"), b"torn"))
    assert await applied_in(tree.etcd, tree.keys, "1-x") is None
    assert "cannot be read" in caplog.text
