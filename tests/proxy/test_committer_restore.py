"""Writes that are under way while etcd is restored from a backup: nobody is told what nobody can know."""

import asyncio
from typing import Any

from codec.constants import ErrorCode
from proxy.etcd.model import KeyValue, Put, Txn
from schema.values import OPEN_ACL, TreeRecord, encode_node, encode_tree
from tests.proxy.naive import Create, SetData
from tests.proxy.shell import Shell, shells, until
from tests.proxy.world import KEYS, Store


def _restored(store: Store, *without: bytes) -> list[KeyValue]:
    """What a proxy finds in an etcd restored from a backup that has not these keys, adopted by somebody."""
    record = encode_tree(TreeRecord(True, ((0, 0), (store.revision, 1 << 32)), 2))
    return [
        kv._replace(value=record) if kv.key == KEYS.tree else kv
        for kv in store.snapshot()
        if kv.key not in without
    ]


def _answers(shell: Shell) -> dict[Any, ErrorCode | None]:
    return {asked: request.refusal for _, asked, request in shell.answers}


async def test_what_only_the_old_etcd_answered_is_untold_and_what_it_refused_is_tried_again() -> None:
    async with shells() as (store, (shell,)):
        made, changed = Create("/a/x"), SetData("/b", b"new")
        shell.submit(1, Create("/b"))
        await shell.settle()
        shell.answers.clear()
        shell.following.clear()
        # Somebody else was first, so that of the Txn only the create is applied.
        store.txn(Txn((), (Put(KEYS.node("/b"), encode_node(b"", OPEN_ACL, 0, 0, 0, 0, 0, 0, 0)),)))
        shell.submit(1, made)
        shell.submit(2, changed)
        await until(lambda: store.range_now(KEYS.node("/a/x")))
        for _ in range(10):
            await asyncio.sleep(0)
        assert shell.answers == []
        shell.mirror.replace(_restored(store, KEYS.node("/a/x")), store.revision)
        assert _answers(shell) == {made: ErrorCode.CONNECTION_LOSS}
        shell.following.set()
        await shell.settle()
        assert _answers(shell) == {made: ErrorCode.CONNECTION_LOSS, changed: None}
        assert shell.mirror.tree.nodes["/b"].data == b"new"


async def test_an_answer_that_comes_after_the_restore_was_noticed_tells_nothing() -> None:
    async with shells() as (store, (shell,)):
        shell.following.clear()
        shell.client.open.clear()
        shell.submit(1, Create("/a/x"))
        await until(lambda: shell.client.waiting == 1)
        shell.mirror.replace(_restored(store), store.revision)
        shell.client.open.set()
        await shell.settle()
        assert [request.refusal for _, _, request in shell.answers] == [ErrorCode.CONNECTION_LOSS]


async def test_the_restored_etcd_s_own_answers_wait_for_the_mirror() -> None:
    async with shells() as (store, (shell,)):
        shell.following.clear()
        old = store.revision
        shell.mirror.revision = old + 100  # of the former history
        shell.submit(1, Create("/a/x"))
        await until(lambda: store.range_now(KEYS.node("/a/x")))
        for _ in range(10):
            await asyncio.sleep(0)
        assert shell.answers == []
        shell.mirror.replace(_restored(store), store.revision)
        assert [request.refusal for _, _, request in shell.answers] == [None]
        assert "/a/x" in shell.mirror.tree.nodes
