"""Keys that another program has put among zketcd's: everything works as without them."""

from collections.abc import AsyncIterator

import pytest

from ctl.history import sizes, written
from pipeline.etcd import log as stream
from pipeline.etcd.read import has_log_behind
from pipeline.etcd.seen import last_zxid
from proxy.etcd.model import Compare, Put
from proxy.log.foreign import ours
from proxy.log.load.start import load_to_serve
from proxy.log.upkeep.truncation import truncate_log
from schema.keys import Keyspace
from tests.proxy.log.proxies import until
from tests.proxy.log.test_log_follower import Proxy
from tests.proxy.log.trees import Tree, pages_of

KEYS = Keyspace("/t")
STRAYS = (
    KEYS.live + b"stray",
    KEYS.log + b"stray",
    KEYS.log + b"a/!",  # before the entries of this proxy
    KEYS.entry("a", 1) + b"x",  # between them
    KEYS.entry("a", 99) + b"x",
    KEYS.log + b"a/5",  # after them
    KEYS.log + b"new/x",
    KEYS.proxies + b"not/a/proxy",
    KEYS.snapshots + b"0000000000000001-b/!",
)


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """One that was there before the stray keys."""
    proxy = Proxy(await Tree().make("a", "b"))
    await proxy.start()
    for number in range(20):
        await proxy.tree.create("a", f"/{number}")
    for stray in STRAYS:
        proxy.tree.change(Put(stray, b"stray"))
    yield proxy
    await proxy.tasks.close()


async def test_a_proxy_that_runs_and_one_that_starts_ignore_them(
    proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    await proxy.sees("a", "/running")
    await proxy.disconnect()
    await proxy.tree.create("a", "/missed")
    proxy.client.reconnect()
    await until(proxy.has("/missed"))
    records = [*caplog.get_records("setup"), *caplog.get_records("call")]
    warnings = [record.getMessage() for record in records if "not a key of" in record.getMessage()]
    assert sorted(warnings) == sorted(
        f"ignoring a key in etcd: {stray!r} is not a key of zketcd's schema"
        for stray in STRAYS
        if stray.startswith(KEYS.live)
    ), "one warning of each"
    proxy.check()
    loaded = await load_to_serve(proxy.client, KEYS)
    assert pages_of(loaded.machine) == pages_of(proxy.machine)


async def test_the_log_is_truncated_and_the_snapshot_written(proxy: Proxy) -> None:
    tree = proxy.tree
    tree.change(Put(KEYS.state_page("0000000000000001-b"), b""))
    await tree.snapshot("b")
    await tree.fill("a", "more")
    snapshot = await tree.snapshot("b")
    assert snapshot.entries_deleted
    assert snapshot.ref is not None
    assert KEYS.state_page("0000000000000001-b") not in await tree.names(KEYS.snapshots, KEYS.snapshots_end)
    assert pages_of((await load_to_serve(proxy.client, KEYS)).machine) == pages_of(tree.ran())
    record = Compare(KEYS.tree, (await tree.pair()).mod_revision)
    assert await truncate_log(tree.etcd, KEYS, record, {"a": 0, "new": 7}) == 0


async def test_commands_and_jobs_ignore_them(proxy: Proxy) -> None:
    tree = proxy.tree
    _, entries = await written(tree.etcd, KEYS)
    assert len(entries) == 22
    assert not (await sizes(tree.etcd, KEYS)).data["snapshots"]
    _, end = await stream.whole(tree.etcd, KEYS)
    assert end.applied == {"a": 21, "b": 1}
    assert await last_zxid(tree.etcd, KEYS, await tree.record()) < 1 << 32
    snapshot = await tree.snapshot("b")
    assert not await has_log_behind(tree.etcd, KEYS, snapshot.ref)


async def test_a_program_that_puts_any_number_of_keys_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tree = await Tree().make()
    for number in range(200):
        tree.change(Put(tree.keys.log + b"stray %d" % number, b""))
    assert ours(tree.keys, (event.kv for events in tree.store.history_from(1) for event in events))
    assert len(caplog.records) == 101
    assert caplog.messages[-1] == "no warning names the other keys in etcd that are ignored"
