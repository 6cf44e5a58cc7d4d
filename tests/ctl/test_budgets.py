"""Budgets by commands at the same moment."""

import pytest

from cli.output import CommandFailed
from ctl.budgets import change
from lab.fakes.etcd import FakeEtcdClient
from proxy.etcd.model import Delete, Put, Txn, TxnResult
from proxy.log.load.start import load_as_of
from proxy.state.budgets import MOST_BUDGETS
from schema.budgets import encode_rule
from schema.entry import Kind, Request
from tests.proxy.log.trees import Tree


async def test_a_budget_that_another_command_has_left_no_room_for_is_no_success() -> None:
    tree = await Tree().make("a")
    room = 2
    rules = [Request(Kind.BUDGET, 0, 0, (), encode_rule(f"/{n}", 5, 0)) for n in range(MOST_BUDGETS - room)]
    await tree.send("a", rules)

    class Overtaken(FakeEtcdClient):
        is_first = True

        async def txn(self, txn: Txn, timeout: float) -> TxnResult:
            puts = [op.key for op in txn.success if isinstance(op, Put)]
            if self.is_first and any(key.startswith(tree.keys.log) for key in puts):
                self.is_first = False
                await change(tree.etcd, tree.keys, "set", ["/other=5/s"])
            return await super().txn(txn, timeout)

    with pytest.raises(
        CommandFailed, match=r"there is none of /second\. A tree has at most 256\. The others are set$"
    ):
        await change(Overtaken(tree.store), tree.keys, "set", ["/first=5/s", "/second=5/s"])
    found = {rule.path for rule in (await load_as_of(tree.etcd, tree.keys)).machine.budgets.rules}
    assert len(found) == MOST_BUDGETS
    assert {"/other", "/first"} <= found


async def test_a_command_that_is_too_slow_says_what_it_has_set() -> None:
    tree = await Tree().make("a")

    class Slow(FakeEtcdClient):
        entries = 0

        async def txn(self, txn: Txn, timeout: float) -> TxnResult:
            if any(isinstance(op, Put) and op.key.startswith(tree.keys.log) for op in txn.success):
                self.entries += 1
                if self.entries == 2:  # the lease of the command's proxy key has run out
                    await super().txn(Txn((), (Delete(txn.compares[0].key),)), timeout)
            return await super().txn(txn, timeout)

    with pytest.raises(
        CommandFailed, match=r"^the budget of /a is 5/s now; the budget of /b is as before: .* Run it again$"
    ):
        await change(Slow(tree.store), tree.keys, "set", ["/a=5/s", "/b=5/s"])
