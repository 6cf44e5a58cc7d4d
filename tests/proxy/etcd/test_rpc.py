"""Which member of etcd gets a request, and when a second one does, with channels that a test plays."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from proxy.etcd import rpc
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import EtcdError, EtcdRefused, EtcdUnknown, Get, Put, Txn, TxnResult
from proxy.etcd.transport import ByteStream, InFlight, Metadata, RpcError
from tests.proxy.log.proxies import until

PUT = Txn((), (Put(b"k", b"v"),))
HEADER = pb.ResponseHeader(cluster_id=1, revision=5)
ANSWER = pb.TxnResponse(succeeded=True, header=HEADER).SerializeToString()
READ = pb.RangeResponse(header=HEADER).SerializeToString()


class Played:
    """A channel whose member answers only while the test allows it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.hangs = False
        self.ignores = ""  # a method that it does not answer
        self.answer: bytes | RpcError | None = None  # instead of the right one
        self.asked: list[str] = []  # except for its cluster
        self.cancelled = 0

    def begin(
        self,
        path: str,
        request: bytes,
        timeout: float,
        metadata: Metadata,
        on_answer: Callable[[bytes | RpcError], None],
    ) -> InFlight:
        name = path.rpartition("/")[2]
        if request:
            self.asked.append(name)
        played = self

        class Sent:
            def cancel(self) -> None:
                played.cancelled += 1

        loop = asyncio.get_running_loop()
        if self.hangs or name == self.ignores:
            loop.call_later(timeout, on_answer, RpcError("deadline exceeded"))
        else:
            loop.call_soon(on_answer, self.answer or (ANSWER if name == "Txn" else READ))
        return Sent()

    async def stream(self, path: str, metadata: Metadata = ()) -> ByteStream:
        await asyncio.sleep(60)
        raise RpcError("never")

    async def close(self) -> None:
        """Nothing is open."""


class Members:
    """Three members, and a client of theirs."""

    def __init__(self, user: str = "") -> None:
        self.all: list[Played] = []
        addresses = ["one:1", "two:2", "three:3"]
        self.client = EtcdClient(addresses, user=user, password="secret", connect=self._connect)

    def _connect(self, host: str, port: int, _tls: object) -> Played:
        self.all.append(Played(f"{host}:{port}"))
        return self.all[-1]

    async def choose(self) -> None:
        """Make the client choose the cluster, as its first request does."""
        await self.client.txn(Txn((), ()), 20.0)

    async def begin(self, timeout: float = 20.0) -> TxnResult | EtcdError:
        """The answer to a Txn that may be sent again."""
        answered: asyncio.Future[TxnResult | EtcdError] = asyncio.get_running_loop().create_future()
        self.client.begin_txn(PUT, timeout, answered.set_result)
        return await answered


@pytest.fixture
async def members(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Members]:
    for interval in ("_TICK", "_SLOW", "_OPEN_TIMEOUT", "_OTHERS", "_PROBE_INTERVAL"):
        monkeypatch.setattr(rpc, interval, getattr(rpc, interval) / 10)
    members = Members()
    yield members
    await members.client.close()


async def test_a_member_that_hangs_delays_a_repeatable_txn_by_a_moment(members: Members) -> None:
    one, two, three = members.all
    one.hangs = True
    assert isinstance(await members.begin(), TxnResult)
    assert (one.asked, two.asked, three.asked) == (["Txn"], ["Txn"], [])
    assert one.cancelled == 1, "its answer is not waited for"
    assert members.client.endpoint == "two:2"
    assert isinstance(await members.begin(), TxnResult)
    assert one.asked == ["Txn"], "later requests do not try it"


async def test_one_member_after_another_is_asked(members: Members) -> None:
    one, two, three = members.all
    one.hangs = two.hangs = True
    assert (await members.client.range(Get(b"k"), 20.0)).revision == 5
    assert [len(each.asked) for each in (one, two, three)] == [1, 1, 1]


async def test_a_txn_that_may_not_be_repeated_goes_to_one_member(members: Members) -> None:
    one, two, three = members.all
    one.hangs = True
    with pytest.raises(EtcdUnknown, match="deadline"):
        await members.client.txn(PUT, 0.2)
    assert (two.asked, three.asked) == ([], [])


async def test_a_member_that_answers_a_probe_is_used_again(members: Members) -> None:
    one, two, three = members.all
    one.hangs = True
    await members.begin()
    one.hangs = False
    async with asyncio.timeout(20):
        while "Range" not in one.asked:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.05)
    two.hangs = three.hangs = True
    assert isinstance(await members.begin(), TxnResult)
    assert members.client.endpoint == "one:1"


def _of_cluster(cluster: int) -> bytes:
    header = pb.ResponseHeader(cluster_id=cluster, revision=5)
    return pb.TxnResponse(succeeded=True, header=header).SerializeToString()


async def _used(members: Members) -> str:
    """The member that answers, once one does."""
    async with asyncio.timeout(20):
        while isinstance(await members.begin(), EtcdError):
            pass
    return members.client.endpoint


async def test_a_member_of_another_cluster_is_not_used(members: Members) -> None:
    """An address of --etcd was a new etcd's: the tree was empty there, and clients wrote to it."""
    one, two, three = members.all
    one.answer = three.answer = _of_cluster(1 << 63)
    two.answer = _of_cluster(7)
    assert await _used(members) == "one:1"
    one.hangs = True
    assert await _used(members) == "three:3"


async def test_the_first_request_goes_to_the_cluster_of_most_members(members: Members) -> None:
    """A proxy that started made a new tree in the first address's new etcd, and a backup was of that."""
    one, two, three = members.all
    one.answer = _of_cluster(7)
    two.answer = three.answer = _of_cluster(8)
    assert isinstance(await members.begin(), TxnResult)
    assert (one.asked, two.asked, three.asked) == ([], ["Txn"], [])


async def test_nothing_is_asked_of_members_of_different_clusters(members: Members) -> None:
    one, two, three = members.all
    one.answer = _of_cluster(7)
    two.answer = _of_cluster(8)
    three.hangs = True
    with pytest.raises(EtcdUnknown, match="belong to different etcd clusters: one:1; two:2"):
        await members.client.txn(PUT, 20.0)
    with pytest.raises(EtcdUnknown, match="belong to different etcd clusters"):
        await members.client.watch(b"a", b"b", 1, lambda _: None)
    assert [each.asked for each in members.all] == [[], [], []]
    one.answer = RpcError("it is away")
    assert await _used(members) == "two:2"


async def test_a_restored_cluster_is_used_once_most_members_are_of_it(members: Members) -> None:
    for each in members.all:
        each.answer = _of_cluster(7)
    await _used(members)
    for each, cluster in zip(members.all, (8, 7, 8), strict=True):
        each.answer = _of_cluster(cluster)
    assert await _used(members) == "two:2"
    members.all[1].answer = RpcError("it is away")
    assert await _used(members) == "three:3"


async def test_a_member_that_is_of_the_cluster_again_does_not_count_as_one_of_another(
    members: Members,
) -> None:
    one, two, _three = members.all
    two.answer = _of_cluster(7)
    await members.choose()
    two.answer = None
    await members.client.versions()
    one.answer = _of_cluster(7)
    assert await _used(members) != "one:1"


async def test_nothing_but_unknown_outcomes_is_one(members: Members) -> None:
    await members.choose()
    for each in members.all:
        each.hangs = True
    assert isinstance(await members.begin(0.5), EtcdUnknown)
    assert all("Txn" in each.asked for each in members.all)


async def test_a_refusal_blames_no_member(members: Members) -> None:
    members.all[0].answer = RpcError("etcdserver: request is too large")
    with pytest.raises(EtcdRefused):
        await members.client.txn(PUT, 20.0)
    assert members.client.endpoint == "one:1"


@pytest.mark.parametrize("is_asked", [True, False])
async def test_what_waits_for_a_token_fails_when_the_client_is_closed(is_asked: bool) -> None:
    """A transaction whose answer goes to a callback never got one."""
    members = Members(user="me")
    for each in members.all:
        each.hangs = not is_asked
        each.ignores = "Authenticate"
    answered: asyncio.Future[TxnResult | EtcdError] = asyncio.get_running_loop().create_future()
    members.client.begin_txn(PUT, 20.0, answered.set_result)
    if is_asked:
        await until(lambda: members.all[0].asked == ["Authenticate"])
    await members.client.close()
    assert isinstance(await asyncio.wait_for(answered, 5.0), EtcdUnknown)


async def test_a_caller_that_is_cancelled_while_it_waits_for_a_token_sends_nothing() -> None:
    members = Members(user="me")
    members.all[0].answer = pb.AuthenticateResponse(token="t").SerializeToString()
    waiting = asyncio.ensure_future(members.client.txn(PUT, 20.0))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0.05)
    assert waiting.cancelled()
    assert "Txn" not in members.all[0].asked
    await members.client.close()


async def test_a_cancelled_caller_blames_no_member(members: Members) -> None:
    members.all[0].hangs = True
    waiting = asyncio.get_running_loop().create_task(members.client.txn(PUT, 20.0))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert members.client.endpoint == "one:1"


async def test_a_member_that_opens_no_stream_is_left(members: Members) -> None:
    with pytest.raises(EtcdUnknown, match="no stream to one:1"):
        await members.client.watch(b"a", b"b", 1, lambda _: None)
    assert members.client.endpoint == "two:2"


async def test_an_answer_that_is_no_message_is_an_unknown_outcome(members: Members) -> None:
    """Found by fuzzing: DecodeError came out of each of these, and `begin_txn` never called back."""
    client = members.client
    await members.choose()
    for each in members.all:
        each.answer = b"\0"
    asks: list[Callable[[], Awaitable[object]]] = [
        lambda: client.txn(PUT, 20.0),
        lambda: client.range(Get(b"a"), 20.0),
        lambda: client.lease_grant(1, 5),
        lambda: client.lease_revoke(1),
        client.status,
    ]
    for ask in asks:
        before = client.endpoint
        with pytest.raises(EtcdUnknown):
            await ask()
        assert client.endpoint != before  # another member may do better
    assert isinstance(await members.begin(), EtcdUnknown)


async def test_of_members_that_are_late_the_last_one_that_answered_is_asked(members: Members) -> None:
    """On a slow machine all may be late at times; the one that hangs is not to be taken for that."""
    one, two, three = members.all
    one.hangs = True
    await members.begin()  # two answers
    two.hangs = True
    await members.begin()  # three answers
    two.hangs, three.hangs = False, True
    asked = len(one.asked)
    assert isinstance(await members.begin(), TxnResult)
    assert members.client.endpoint == "two:2"
    assert one.asked[asked:].count("Txn") == 0
