"""The fake etcd does what real etcd does: the same requests go to both, and every answer must be the same."""

import asyncio
import functools
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient, Fate
from lab.servers import EtcdServer
from lab.servers.etcd import VERSIONS
from proxy.etcd.client import EtcdClient
from proxy.etcd.interface import Etcd
from proxy.etcd.model import (
    Compare,
    Delete,
    EtcdNoSpace,
    EtcdRefused,
    EtcdUnknown,
    Event,
    Get,
    KeyValue,
    Op,
    Put,
    RangeResult,
    RefusalKind,
    Txn,
    TxnResult,
    WatchCompacted,
    WatchMessage,
)
from proxy.etcd.versions import parse
from tests.proxy.etcd import admin
from tests.proxy.etcd.strategies import LEASES, txns
from tests.proxy.etcd.watching import watching
from tests.table import one_by_one

PREFIX = b"/fake/"
END = b"/fake0"
RUNS = itertools.count()


@pytest.fixture(scope="module")
def of_version() -> Iterator[Callable[[str], EtcdServer]]:
    """Servers of this file alone: in the shared one, keys of earlier tests may go with their leases."""
    with ExitStack() as stack:
        yield functools.cache(lambda version: stack.enter_context(EtcdServer(version=version)))


@pytest.fixture(params=VERSIONS)
def etcd_server(request: pytest.FixtureRequest, of_version: Callable[[str], EtcdServer]) -> EtcdServer:
    return of_version(request.param)


def shift(txn: Txn, base: int) -> Txn:
    """The same Txn where revision 0 of the test is revision `base` of the store, guards of absence kept."""

    def op(one: Op) -> Op:
        return shift(one, base) if isinstance(one, Txn) else one

    compares = [
        compare._replace(mod_revision=compare.mod_revision + base if compare.mod_revision else 0)
        for compare in txn.compares
    ]
    return Txn(compares, list(map(op, txn.success)), list(map(op, txn.failure)))


def relative(result: Any, base: int) -> Any:
    """A result with its revisions counted from `base`."""
    if isinstance(result, TxnResult):
        return TxnResult(
            result.succeeded, result.revision - base, [relative(one, base) for one in result.responses]
        )
    if isinstance(result, RangeResult):
        return result._replace(revision=result.revision - base, kvs=[relative(kv, base) for kv in result.kvs])
    if isinstance(result, KeyValue):
        return result._replace(
            create_revision=result.create_revision - base, mod_revision=result.mod_revision - base
        )
    return result


def plain(event: Event, base: int) -> tuple[int, bytes, bytes, int, int, int, int]:
    """An event as a tuple, so that a protobuf one and a fake one can be compared."""
    kv = event.kv
    created = kv.create_revision and kv.create_revision - base
    return event.type, kv.key, kv.value, created, kv.mod_revision - base, kv.version, kv.lease


async def outcome(client: Etcd, txn: Txn, base: int) -> Any:
    """What the client gets for it: a result or the kind of refusal."""
    try:
        return relative(await client.txn(txn, 10), base)
    except EtcdRefused as refusal:
        return refusal.kind, refusal.message


async def events(client: Etcd, start_revision: int, count: int, base: int) -> list[Any]:
    """The next `count` events from a revision on, and the revisions that they came grouped by."""
    got: list[Any] = []
    watch = watching(client, PREFIX, END, start_revision)
    try:
        async with asyncio.timeout(20):
            while len(got) < count:
                message = await anext(watch)
                got += [plain(event, base) for event in message.events]
    finally:
        await watch.aclose()
    return got


async def run_on_both(endpoint: str, steps: list[Txn]) -> None:
    real = EtcdClient([endpoint])
    fake = FakeEtcdClient(FakeEtcd())
    try:
        await real.txn(Txn([], [Delete(PREFIX, END)]), 10)
        for lease in LEASES[:1]:
            with suppress(EtcdRefused):  # it is there
                await real.lease_grant(lease, 600)
            await fake.lease_grant(lease, 600)
        base = (await real.range(Get(PREFIX), 10)).revision
        fake_base = fake.store.revision
        for step in steps:
            expected = await outcome(real, shift(step, base), base)
            assert await outcome(fake, shift(step, fake_base), fake_base) == expected
        everything = Get(PREFIX, END)
        state = relative(await real.range(everything, 10), base)
        assert relative(await fake.range(everything, 10), fake_base) == state
        for revision in range(1, state.revision):
            then = await real.range(everything._replace(revision=base + revision), 10)
            assert (
                relative(
                    await fake.range(everything._replace(revision=fake_base + revision), 10), fake_base
                ).kvs
                == relative(then, base).kvs
            )
        count = sum(len(one) for one in fake.store.history_from(fake_base + 1))
        assert await events(fake, fake_base + 1, count, fake_base) == await events(
            real, base + 1, count, base
        )
    finally:
        await real.close()
        await fake.close()


@pytest.mark.real
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=st.lists(txns(PREFIX, st.integers(min_value=0, max_value=6)), min_size=1, max_size=6))
def test_random_transactions_have_the_same_results_and_events(
    etcd_server: EtcdServer, steps: list[Txn]
) -> None:
    asyncio.run(run_on_both(etcd_server.endpoint, steps))


def chain(depth: int, width: int) -> Txn:
    """A Txn of `depth` levels, each with `width` operations, the first of which is the next level."""
    names = itertools.count()

    def level(left: int) -> Txn:
        ops: list[Op] = [Put(PREFIX + b"%d" % next(names), b"") for _ in range(width - 1)]
        return Txn([], [level(left - 1) if left > 1 else Put(PREFIX + b"last", b""), *ops])

    return level(depth)


def guards(outer: int, inner: int) -> Txn:
    """Guards on two levels."""

    def absent(count: int) -> list[Compare]:
        return [Compare(PREFIX + b"%d" % index, 0) for index in range(count)]

    return Txn(absent(outer), [Txn(absent(inner), [Put(PREFIX + b"k", b"")])])


def twice(first: Op, second: Op) -> Txn:
    return Txn([], [Txn([], [first]), Txn([], [second])])


K = PREFIX + b"k"
NAMED_CASES: dict[str, Txn] = {
    "128 operations": chain(1, 128),
    "129 operations": chain(1, 129),
    "64 operations on each of two levels": chain(2, 64),
    "65 operations on each of two levels": chain(2, 65),
    "100 and 28 guards": guards(100, 28),
    "100 and 29 guards": guards(100, 29),
    "an empty Txn": Txn([], []),
    "a put without key": Txn([], [Put(b"", b"")]),
    "a guard without key": Txn([Compare(b"", 0)], []),
    "an unknown lease": Txn([], [Put(K, b"", 999)]),
    "an unknown lease in the branch not taken": Txn([], [], [Put(K, b"", 999)]),
    "a revision to come": Txn([], [Get(K, revision=10**12)]),
    "a key put in both nested Txns": twice(Put(K, b"1"), Put(K, b"2")),
    "a nested put, then a nested delete": twice(Put(K, b"1"), Delete(K)),
    "a nested delete, then a nested put": twice(Delete(K), Put(K, b"1")),
    "a key put in both branches of a nested Txn": Txn([], [Txn([], [Put(K, b"1")], [Put(K, b"2")])]),
    "a put under a delete of its range": Txn([], [Delete(PREFIX, END), Put(K, b"")]),
    "a key deleted twice": Txn([], [Delete(K), Delete(PREFIX, END)]),
    "1.5 MiB": Txn([], [Put(K, b"x" * (1536 * 1024))]),
    "3 MiB": Txn([], [Put(K, b"x" * (3 * 1024 * 1024))]),
    "guards on an empty range": Txn([Compare(PREFIX + b"x", 0, PREFIX + b"y")], [Put(K, b"")]),
    "a guard of a revision on an empty range": Txn([Compare(PREFIX + b"x", 7, PREFIX + b"y")], [Put(K, b"")]),
}


@pytest.mark.parametrize("name", NAMED_CASES)
async def test_limits_and_refusals_are_etcds(etcd_server: EtcdServer, name: str) -> None:
    txn = NAMED_CASES[name]
    real = EtcdClient([etcd_server.endpoint])
    fake = FakeEtcdClient(FakeEtcd())
    try:
        await real.txn(Txn([], [Delete(PREFIX, END)]), 10)
        base = (await real.range(Get(K), 10)).revision
        expected = await outcome(real, txn, base)
        found = await outcome(fake, txn, fake.store.revision)
        if expected[0] is RefusalKind.TOO_LARGE:
            # Beyond 2 MiB gRPC refuses before etcd does, in other words.
            assert found[0] is RefusalKind.TOO_LARGE
        else:
            assert found == expected
    finally:
        await real.close()
        await fake.close()


@pytest.fixture(params=[*VERSIONS, "fake"])
async def client(
    request: pytest.FixtureRequest, of_version: Callable[[str], EtcdServer]
) -> AsyncIterator[Etcd]:
    """Each real etcd and the fake, one after the other: one test for all."""
    made: Etcd
    if request.param == "fake":
        made = FakeEtcdClient(FakeEtcd())
    else:
        made = EtcdClient([of_version(request.param).endpoint])
    yield made
    await made.close()


async def messages_until_the_end(watch: AsyncIterator[WatchMessage]) -> None:
    """Read a watch that is to bring no event and to end by an exception."""
    async with asyncio.timeout(20):
        async for message in watch:
            assert not message.events


async def compact(client: Etcd, revision: int) -> None:
    """Compact whichever it is."""
    if isinstance(client, FakeEtcdClient):
        client.store.compact(revision)
    else:
        await asyncio.to_thread(admin.compact, f"http://{client.endpoint}", revision)


@pytest.mark.real
async def test_leases(client: Etcd) -> None:
    lease = -(2**62) - next(RUNS)
    key = b"/lease-%d" % next(RUNS)
    assert await client.lease_grant(lease, 1) == 2  # the least there is
    with pytest.raises(EtcdRefused) as again:
        await client.lease_grant(lease, 100)
    assert again.value.kind is RefusalKind.LEASE_EXISTS
    await client.lease_revoke(lease)
    assert await client.lease_grant(lease, 100) == 100
    put = await client.txn(Txn([], [Put(key, b"1", lease)]), 10)
    assert (await client.range(Get(key), 10)).kvs == [
        KeyValue(key, b"1", put.revision, put.revision, 1, lease)
    ]
    # A put without the lease takes the key from it.
    await client.txn(Txn([], [Put(key, b"2")]), 10)
    assert [kv.lease for kv in (await client.range(Get(key), 10)).kvs] == [0]
    await client.txn(Txn([], [Put(key, b"3", lease)]), 10)
    before = (await client.range(Get(key), 10)).revision
    await client.lease_revoke(lease)
    after = await client.range(Get(key), 10)
    assert (after.kvs, after.revision) == ([], before + 1)
    with pytest.raises(EtcdRefused) as gone:
        await client.lease_revoke(lease)
    assert gone.value.kind is RefusalKind.LEASE_NOT_FOUND


@pytest.mark.real
async def test_lease_keeper_tells_what_is_alive_and_what_is_gone(client: Etcd) -> None:
    lease = 2**62 + next(RUNS)
    await client.lease_grant(lease, 60)
    answers: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    ask_for_time = client.lease_keeper(lambda one, ttl: answers.put_nowait((one, ttl)))
    ask_for_time(lease)
    ask_for_time(lease + 10**6)
    async with asyncio.timeout(20):
        assert {await answers.get(), await answers.get()} == {(lease, 60), (lease + 10**6, 0)}
    await client.lease_revoke(lease)
    ask_for_time(lease)
    async with asyncio.timeout(20):
        assert await answers.get() == (lease, 0)


@pytest.mark.real
async def test_compaction(client: Etcd) -> None:
    key = b"/compact-%d" % next(RUNS)
    revisions = [(await client.txn(Txn([], [Put(key, b"%d" % i)]), 10)).revision for i in range(4)]
    await compact(client, revisions[2])
    with pytest.raises(EtcdRefused) as too_old:
        await client.range(Get(key, revision=revisions[1]), 10)
    assert too_old.value.kind is RefusalKind.COMPACTED
    assert (await client.range(Get(key, revision=revisions[2]), 10)).kvs[0].value == b"2"
    watch = watching(client, key, b"", revisions[0])
    with pytest.raises(WatchCompacted) as compacted:
        await messages_until_the_end(watch)
    assert compacted.value.revision == revisions[2]
    watch = watching(client, key, b"", revisions[2])
    got: list[bytes] = []
    async with asyncio.timeout(20):
        while len(got) < 2:
            got += [event.kv.value for event in (await anext(watch)).events]
    assert got == [b"2", b"3"]
    await watch.aclose()


@pytest.mark.real
async def test_deletes_of_the_compacted_revision(client: Etcd) -> None:
    """An etcd before 3.4.34 and 3.5.16 drops them from a watch that begins there."""
    prefix = b"/dropped-%d/" % next(RUNS)
    await client.txn(Txn([], [Put(prefix + b"a", b"")]), 10)
    revision = (await client.txn(Txn([], [Delete(prefix + b"a"), Put(prefix + b"b", b"")]), 10)).revision
    await client.txn(Txn([], [Put(prefix + b"c", b"")]), 10)
    await compact(client, revision)
    got: list[bytes] = []
    watch = watching(client, prefix, prefix + b"\xff", revision)
    async with asyncio.timeout(20):
        while prefix + b"c" not in got:
            got += [event.kv.key for event in (await anext(watch)).events]
    await watch.aclose()
    version = parse((await client.status()).version)
    assert version is not None
    dropped = version < (3, 4, 34) or (3, 5, 0) <= version < (3, 5, 16)
    assert sorted(got) == [prefix + name for name in ((b"b", b"c") if dropped else (b"a", b"b", b"c"))]


@pytest.mark.real
async def test_a_watch_says_when_it_is_live_and_starts_where_told(client: Etcd) -> None:
    key = b"/watch-%d" % next(RUNS)
    revision = (await client.txn(Txn([], [Put(key, b"old")]), 10)).revision
    watch = watching(client, key, key + b"\xff", revision + 1)
    async with asyncio.timeout(20):
        first = await anext(watch)
        assert (list(first.events), first.revision) == ([], revision)
        await client.txn(Txn([], [Put(b"/other", b"")]), 10)
        put = await client.txn(Txn([], [Put(key + b"2", b""), Put(key + b"1", b"")]), 10)
        message = await anext(watch)
    assert [(event.kv.key, event.kv.mod_revision) for event in message.events] == [
        (key + b"2", put.revision),
        (key + b"1", put.revision),
    ]
    await watch.aclose()


class Operator(NamedTuple):
    """What an operator does to an etcd that is full."""

    compact: Callable[[int], None]
    defragment: Callable[[], None]
    disarm: Callable[[], None]


async def what_a_full_etcd_does(client: Etcd, operator: Operator) -> list[object]:
    """Fill it, ask it for all sorts of things, and make room again."""

    async def asked(request: Coroutine[Any, Any, object]) -> object:
        try:
            answer = await request
        except (EtcdNoSpace, EtcdRefused) as error:
            return type(error)
        return answer.succeeded if isinstance(answer, TxnResult) else None

    def put(key: bytes = b"/full/small") -> Txn:
        return Txn([], [Put(key, b"")])

    outcomes: list[object] = []

    async def ask_for_all_sorts() -> None:
        small = Get(b"/full/m", b"/full0")
        outcomes.extend(
            [
                await asked(client.txn(put(), 10)),
                await asked(client.txn(Txn([], [], [Put(b"/full/small", b"")]), 10)),
                await asked(client.txn(Txn([], [Delete(b"/full/x"), Put(b"/full/small", b"")]), 10)),
                await asked(client.lease_grant(78, 600)),
                await asked(client.txn(Txn([], [Delete(b"/full/one")]), 10)),
                await asked(client.txn(Txn([], [Txn([], [Put(b"/full/nested", b"1", 77)])]), 10)),
                await asked(client.txn(Txn([Compare(b"/full/nested", 0)], [], [Txn([], [put()])]), 10)),
                [kv.key for kv in (await client.range(small, 10)).kvs],
                bool((await client.status()).errors),
            ]
        )

    await client.lease_grant(77, 600)
    await client.txn(put(b"/full/one"), 10)
    for number in itertools.count():
        if (
            await asked(client.txn(Txn([], [Put(b"/full/filling-%04d" % number, bytes(65536))]), 10))
            is EtcdNoSpace
        ):
            break
        assert number < 10_000
    await ask_for_all_sorts()
    await client.lease_revoke(77)
    outcomes.append((await client.range(Get(b"/full/nested"), 10)).count)
    revision = (await client.txn(Txn([], [Delete(b"/full/", b"/full0")]), 10)).revision
    # Compaction and an end to the alarm are not enough: the file is as large as before.
    operator.compact(revision)
    operator.disarm()
    outcomes.append(await asked(client.txn(Txn([], [Put(b"/full/large", bytes(65536))]), 10)))
    operator.defragment()
    outcomes.append(await asked(client.txn(put(), 10)))
    operator.disarm()
    await client.lease_grant(77, 600)
    await ask_for_all_sorts()
    return outcomes


@pytest.mark.real
async def test_a_full_etcd() -> None:
    store = FakeEtcd(quota=4 << 20)
    fake = FakeEtcdClient(store)
    with EtcdServer("--quota-backend-bytes=4194304") as server:
        real = EtcdClient([server.endpoint])
        operator = Operator(
            lambda revision: admin.compact(server.endpoint, revision),
            lambda: admin.defragment(server.endpoint),
            lambda: admin.disarm(server.endpoint),
        )
        expected = await what_a_full_etcd_does(real, operator)
        await real.close()
    modelled = Operator(store.compact, store.defragment, store.disarm)
    assert await what_a_full_etcd_does(fake, modelled) == expected
    assert EtcdNoSpace in expected


@one_by_one("fate", Fate)
async def test_fates(fate: Fate) -> None:
    fake = FakeEtcdClient(FakeEtcd())
    fake.fates.append(fate)
    expected = EtcdNoSpace if fate.name.startswith("NO_SPACE") else EtcdUnknown
    with pytest.raises(EtcdUnknown) as lost:
        await fake.txn(Txn([], [Put(b"k", b"")]), 1)
    assert type(lost.value) is expected
    at_once = [kv.key for kv in fake.store.snapshot()]
    assert at_once == ([b"k"] if fate in (Fate.ANSWER_LOST, Fate.NO_SPACE_APPLIED) else [])
    fake.store.apply_late()
    assert bool(fake.store.snapshot()) == (fate not in (Fate.LOST, Fate.NO_SPACE))
    await fake.txn(Txn([], [Put(b"k", b"")]), 1)


async def test_a_late_txn_that_is_refused_is_no_error_of_others() -> None:
    fake = FakeEtcdClient(FakeEtcd())
    await fake.lease_grant(1, 10)
    fake.fates.append(Fate.LATE)
    with pytest.raises(EtcdUnknown):
        await fake.txn(Txn([], [Put(b"k", b"", 1)]), 1)
    await fake.lease_revoke(1)
    assert fake.store.apply_late() == []
