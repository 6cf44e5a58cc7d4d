"""Proxies that append together: each request takes effect once, whatever becomes of the combiner."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TypeAlias
from unittest import mock

import pytest

from lab.fakes.etcd import FakeEtcdClient, Fate
from proxy.frontend.listener import bound_socket
from proxy.log.combine import server
from proxy.log.combine.choice import Choice
from proxy.log.combine.client import CombinerClient
from proxy.log.combine.combiner import Combiner, Offer
from proxy.log.combine.messages import MOST_BYTES, NONCE, Hello, Mode, SignedMessages, encode_entry
from proxy.log.combine.server import CombinerServer
from proxy.log.context import CombineWaits, LogSettings
from proxy.log.follow import staleness
from proxy.log.living import LivingProxy
from proxy.log.status import Combined
from proxy.support.environment import HOST, Clock, Environment
from proxy.support.ports import BoundedPort, Bounds
from schema.compression import wrap
from schema.entry import FORMAT, EntryWriter, Kind, encode_void
from schema.keys import LAST_NUMBER
from schema.record import PeerPort, ProxyValue
from tests.proxy.log.proxies import Proxy, World, answered, until
from tests.seeds import seeds

SECRET = b"secret"


class LaterClock(Clock):
    """The host's, put on by a test."""

    def __init__(self) -> None:
        self.later = 0.0  # seconds

    def perf_counter(self) -> float:
        return HOST.clock.perf_counter() + self.later


class Cluster(World):
    """Proxies, each of which can combine."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = LaterClock()
        self.waits = CombineWaits(poll=0.01, idle_after=60.0, answer_within=3600.0, retry_after=0.05)
        #: For connections that have not said which proxy they are.
        self.bounds = Bounds(20, 20)

    async def proxy(self) -> Proxy:
        listener = bound_socket("127.0.0.1", 0)
        port = PeerPort(f"127.0.0.1:{listener.getsockname()[1]}", SECRET)
        settings = LogSettings(lease_seconds=5, peer_port=port, combine_waits=self.waits)
        proxy = Proxy(FakeEtcdClient(self.store), settings=settings, environment=Environment(self.clock))
        self.proxies.append(proxy)
        await proxy.start()
        proxy.log.combining.listen(BoundedPort(listener, self.bounds, "proxies"))
        proxy.tasks.start(proxy.log.combining.run(None), "combine")
        return proxy

    async def three(self) -> list[Proxy]:
        """Three proxies; session N is at proxy N, and the first one combines."""
        proxies = [await self.proxy() for _ in range(3)]
        await answered([proxy.open(number) for number, proxy in enumerate(proxies, 1)])
        await self.joined(proxies)
        return proxies

    async def joined(self, proxies: list[Proxy]) -> None:
        """Wait until all proxies but the first append by it."""
        first = _server(proxies[0])
        await until(lambda: len(first.connection_of) == len(proxies) - 1)
        await until(lambda: all(_client(proxy).connection for proxy in proxies[1:]))


def _client(proxy: Proxy) -> CombinerClient:
    return proxy.log.combining._client


def _server(proxy: Proxy) -> CombinerServer:
    return proxy.log.combining._server


def _port(proxy: Proxy) -> int:
    return int(proxy.log.context.settings.peer_port.address.rpartition(":")[2])


def _together(cluster: World, turn: int) -> None:
    for number, proxy in enumerate(cluster.proxies, 1):
        proxy.create(number, f"/x{turn}-{number}")


async def _all_answered(cluster: World) -> None:
    await answered([reply for proxy in cluster.proxies for reply in proxy.replies])


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    """Here proxies append together unless a test says so: trials would come at any time."""
    monkeypatch.setattr(Choice, "applied", lambda *_: False)
    world = Cluster()
    yield world
    for proxy in world.proxies:
        await proxy.log.combining.close()
        await proxy.stop()


async def test_entries_of_several_proxies_share_a_txn(cluster: Cluster) -> None:
    proxies = await cluster.three()
    for turn in range(20):
        _together(cluster, turn)
        await _all_answered(cluster)
    await cluster.check()
    stats = proxies[0].log.stats
    assert stats.combined_entries >= 50
    assert stats.combined_entries >= 2 * stats.combined_txns
    assert [proxy.log.stats.offers_refused for proxy in proxies] == [0, 0, 0]
    sizes = [len([event for event in events if event.kv.value]) for events in cluster.store.history_from(1)]
    assert max(sizes) == 3
    assert {proxy.log.status().combined for proxy in proxies} == {Combined(proxies[0].log.incarnation)}
    # When an entry was sent: for the log of slow requests.
    assert all(proxy.log.applier.sent_at > 0 for proxy in proxies)


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.ANSWER_LOST, Fate.LATE, Fate.NO_SPACE])
async def test_what_the_combiner_does_not_know_is_appended_by_each_proxy(
    cluster: Cluster, fate: Fate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staleness, "_INTERVAL", 3600.0)  # its questions would take the fates
    proxies = await cluster.three()
    for turn in range(5):
        cluster.client(proxies[0]).fates.append(fate)
        _together(cluster, turn)
        await _all_answered(cluster)
    assert not [result for result in cluster.store.apply_late() if result.succeeded]
    await cluster.check()
    # What is in the log after all is most often shown before the combiner knows that it has failed.
    assert fate is Fate.ANSWER_LOST or any(proxy.log.stats.offers_refused for proxy in proxies)


async def test_a_combiner_that_says_nothing_is_not_waited_for(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.waits = cluster.waits._replace(answer_within=0.25)
    proxies = await cluster.three()
    held: list[Offer] = []
    with mock.patch.object(Combiner, "add", lambda _, offer: held.append(offer)):
        for number in range(3):
            proxies[1].create(2, f"/xa{number}")
            proxies[2].create(3, f"/xb{number}")
            await asyncio.sleep(0)
        await _all_answered(cluster)
    assert "it is slow" in caplog.text
    # The entries that it held back come after all, and have no effect.
    for offer in held:
        _server(proxies[0]).combiner.add(offer)
    await cluster.check()


async def test_a_combiner_that_refuses_everything_is_left(cluster: Cluster) -> None:
    cluster.waits = cluster.waits._replace(retry_after=60.0)
    proxies = await cluster.three()
    with mock.patch.object(CombinerServer, "take", lambda _, offer: offer.refused()):
        for turn in range(20):
            _together(cluster, turn)
            await _all_answered(cluster)
    assert [proxy.log.stats.offered_entries for proxy in proxies] == [0, 8, 8]
    await cluster.check()


async def test_one_proxy_without_an_address_ends_it_for_all(cluster: Cluster) -> None:
    proxies = await cluster.three()
    plain = await World.proxy(cluster)
    await until(lambda: all(len(proxy.log.living) == 4 for proxy in proxies))
    before = proxies[0].log.stats.combined_entries
    _together(cluster, 0)
    await _all_answered(cluster)
    assert proxies[0].log.stats.combined_entries == before
    assert plain.log.status().combined == Combined(why="it lacks --peer-listen")
    assert proxies[1].log.status().combined == Combined(why="another proxy lacks --peer-listen")
    cluster.proxies.remove(plain)
    await plain.stop()
    await cluster.joined(proxies)
    await cluster.check()


async def test_an_entry_is_either_combined_or_appended_directly(cluster: Cluster) -> None:
    first, second, _ = await cluster.three()
    connection = _client(second).connection
    with mock.patch.object(Combiner, "add") as add, mock.patch.object(connection, "send") as send:

        def begun(proxy: Proxy, number: int, size: int = MOST_BYTES, **more: bool) -> tuple[int, int, int]:
            direct = mock.Mock()
            entry = mock.Mock(number=number, value=bytes(size), **more)
            proxy.log.combining.begin(entry, mock.Mock(), direct)
            return add.call_count, send.call_count, direct.call_count

        assert begun(first, 1) == (1, 0, 0)
        assert begun(first, 2, MOST_BYTES + 1) == (1, 0, 1)
        assert begun(first, 2, can_be_combined=False) == (1, 0, 1)
        assert begun(second, 1) == (1, 1, 0)
        assert begun(second, 2, MOST_BYTES + 1) == (1, 1, 1)
        second.log.combining.start("next", 1)
        assert begun(second, 1) == (1, 1, 1), "the combiner knows the last incarnation"


def _choose(proxies: list[Proxy], *, together: bool, usually: bool) -> None:
    """The combiner, the first of them, chooses a mode when it next applies something."""
    choice = _server(proxies[0]).choice

    def chosen(*_: object) -> bool:
        is_new = choice.together is not together
        choice.together, choice.usually_together = together, usually
        return is_new

    choice.applied = chosen  # type: ignore[assignment]


async def test_the_combiner_chooses_for_all(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    proxies = await cluster.three()
    counts = []
    for turn, (together, usually) in enumerate([(False, True), (True, True), (False, False), (True, True)]):
        _choose(proxies, together=together, usually=usually)
        proxies[0].create(1, f"/y{turn}")
        await _all_answered(cluster)
        others = [_client(proxy).connection for proxy in proxies[1:]]
        await until(lambda: {each and each.mode for each in others} == {Mode(together, usually)})  # noqa: B023
        counts.append([proxy.log.stats.offered_entries for proxy in proxies])
        _together(cluster, turn)
        await _all_answered(cluster)
        chosen = Combined(proxies[0].log.incarnation) if usually else Combined(why="that is quicker now")
        assert {proxy.log.status().combined for proxy in proxies} == {chosen}
    counts.append([proxy.log.stats.offered_entries for proxy in proxies])
    grown = [sum(after) - sum(before) for before, after in itertools.pairwise(counts)]
    assert grown == [0, 2, 0, 2]
    assert (
        caplog.text.count("appended by each of them now") == caplog.text.count("appended together now") == 1
    )
    await cluster.check()


async def test_a_proxy_that_comes_is_told_the_way(cluster: Cluster) -> None:
    proxies = await cluster.three()
    _choose(proxies, together=False, usually=False)
    proxies[0].create(1, "/y")
    await _all_answered(cluster)
    late = await cluster.proxy()
    await until(lambda: late.log.status().combined == Combined(why="that is quicker now"))
    assert not _client(late).offer(1, b"", mock.Mock())


async def test_a_combiner_that_is_far_away_is_left(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    _, second, _ = await cluster.three()
    client = _client(second)
    count = 0
    with mock.patch.object(client.connection, "send"):
        while client.connection is not None:
            assert client.offer(count, b"", mock.Mock())
            cluster.clock.later += 10.0 * second.log.stats.round_trip.seconds + 1.0
            client.shown(count)
            count += 1
    assert count == 64
    assert "it is far away" in caplog.text


async def test_a_combiner_whose_connection_is_lost_is_left_for_a_while(cluster: Cluster) -> None:
    cluster.waits = cluster.waits._replace(retry_after=60.0)
    _, second, _ = await cluster.three()
    client = _client(second)
    assert client.connection is not None
    client.connection.close()
    await until(lambda: client.connection is None)
    await asyncio.sleep(5 * cluster.waits.poll)
    assert (
        second.log.combining.state.why == "the combiner does not append its entries: its connection is lost"
    )


async def test_a_combiner_that_cannot_be_reached_is_named(cluster: Cluster) -> None:
    first, second, _ = await cluster.three()
    await first.log.combining.close()
    await until(lambda: second.log.status().combined == Combined(why="the combiner cannot be reached"))


async def test_a_proxy_that_stops_combines_nothing_more(cluster: Cluster) -> None:
    first, *_ = await cluster.three()
    combining = first.log.combining
    with mock.patch.object(Combiner, "close") as close:
        await combining.close()
    assert close.call_count == 1
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", _port(first))


async def test_a_proxy_that_stops_offers_nothing_more(cluster: Cluster) -> None:
    """It appends directly what the combiner has not appended, and all that follows."""
    _, second, _ = await cluster.three()
    client = _client(second)
    with mock.patch.object(Combiner, "add"):
        replies = [second.create(2, "/xa")]
        await until(lambda: second.log.stats.offered_entries > 0)
        offered = second.log.stats.offered_entries
        await second.log.combining.close()
        replies.append(second.create(2, "/xb"))
        await answered(replies)
    assert (client.connection, client.offer(99, b"", mock.Mock())) == (None, False)
    assert second.log.stats.offered_entries == offered
    await cluster.check()


async def test_a_proxy_that_stops_while_it_connects_to_the_combiner_leaves_no_connection(
    cluster: Cluster,
) -> None:
    ended = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionResetError):
            await reader.readexactly(len(SignedMessages(SECRET, bytes(NONCE)).greeting()))
            connecting.cancel()
            await reader.read()
        ended.set()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as silent:
        port = PeerPort(f"127.0.0.1:{silent.sockets[0].getsockname()[1]}", SECRET)
        proxy = await cluster.proxy_with(LogSettings(peer_port=port, combine_waits=cluster.waits))
        proxy.log.living.add(LivingProxy("combiner", 1, ProxyValue((1,), "", peer_port=port)))
        connecting = asyncio.create_task(proxy.log.combining.run(None))
        await asyncio.wait_for(ended.wait(), 20)


async def test_a_proxy_that_is_gone_keeps_no_connection(cluster: Cluster) -> None:
    """Its host may have died without a message."""
    proxies = await cluster.three()
    host = _server(proxies[0])
    host.proxy_gone(proxies[2].log.incarnation)
    await until(lambda: len(host.connection_of) == 1)
    await cluster.joined(proxies)


async def test_when_the_combiner_stops_the_next_eldest_combines(cluster: Cluster) -> None:
    first, *others = await cluster.three()
    _together(cluster, 0)
    await first.log.combining.close()
    await _all_answered(cluster)
    await cluster.check()
    await first.stop()
    cluster.proxies.remove(first)
    cluster.store.lease_revoke(first.log.incarnations.registration.current.lease)
    await cluster.joined(others)
    replies = [others[0].create(2, "/xa"), others[1].create(3, "/xb")]
    await answered(replies)
    await cluster.check()


async def test_a_proxy_whose_lease_runs_out_is_not_appended_for(cluster: Cluster) -> None:
    proxies = await cluster.three()
    _together(cluster, 0)
    cluster.end_lease(proxies[2])
    _together(cluster, 1)
    await _all_answered(cluster)
    await cluster.check()
    await cluster.joined(proxies)
    _together(cluster, 2)
    await _all_answered(cluster)
    await cluster.check()


@pytest.mark.parametrize("seed", seeds(1, 6))
async def test_under_faults_each_request_takes_effect_once(cluster: Cluster, seed: int) -> None:
    chance = random.Random(seed)
    cluster.waits = cluster.waits._replace(answer_within=0.25)
    proxies = await cluster.three()
    for turn in range(25):
        victim = chance.choice(proxies)
        match chance.randrange(8):
            case 0 | 1 | 2:
                cluster.client(victim).fates.extend(
                    chance.choice([Fate.LOST, Fate.ANSWER_LOST, Fate.LATE]) for _ in range(3)
                )
            case 3:
                cluster.end_lease(victim)
            case 4 if (connection := _client(victim).connection) is not None:
                connection.close()
        _together(cluster, turn)
        await asyncio.sleep(chance.choice([0, 0, 0.002]))
        cluster.store.apply_late()
    await _all_answered(cluster)
    cluster.store.apply_late()
    await cluster.check()


async def _talk(port: int, *messages: bytes) -> bytes:
    """What the port says after these bytes, until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for message in messages:
        writer.write(message)
    said = await reader.read()
    writer.close()
    return said


_Talk: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter, SignedMessages]


async def _entered(proxy: Proxy, hello: bytes, secret: bytes = SECRET) -> _Talk:
    """A connection to a combiner that begins with this hello."""
    reader, writer = await asyncio.open_connection("127.0.0.1", _port(proxy))
    messages = SignedMessages(secret, bytes(NONCE))
    writer.write(messages.greeting())
    messages.verify(await reader.readexactly(len(messages.greeting())))
    writer.write(messages.sign(hello))
    return reader, writer, messages


def _hello(proxy: Proxy) -> bytes:
    hello = _client(proxy).hello
    assert hello is not None
    return hello.encode()


async def test_strangers_are_refused(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    proxy = await cluster.proxy()
    said = await _talk(_port(proxy), b"GET / HTTP/1.1\r\n\r\n")
    assert len(said) == len(SignedMessages(SECRET, bytes(NONCE)).greeting())
    assert "no greeting" in caplog.text
    for secret, hello, reason in (
        (b"guess", Hello(1, "a").encode(), "does not know the secret"),
        (SECRET, Hello(1, "a").encode(), "no living proxy is called 'a'"),
        (SECRET, Hello(1, proxy.log.incarnation).encode(), "no living proxy"),  # another create_revision
        (SECRET, b"?", "not a hello"),
    ):
        reader, writer, _ = await _entered(proxy, hello, secret)
        assert await reader.read() == b""
        writer.close()
        assert reason in caplog.text
    assert not _server(proxy).connection_of


async def test_a_stranger_who_says_nothing_is_cut_off(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CONNECT", 0.2)
    proxies = await cluster.three()
    others = dict(_server(proxies[0]).connection_of)
    assert await _talk(_port(proxies[0]))
    assert _server(proxies[0]).connection_of == others, "proxies that have said hello stay"


async def test_strangers_take_no_place_of_a_proxy(cluster: Cluster) -> None:
    cluster.bounds = Bounds(1, 1)
    first, *_ = await cluster.three()
    assert len(_server(first).connections) == 2


async def test_a_proxy_that_connects_again_keeps_what_it_offers_now(cluster: Cluster) -> None:
    """The combiner may learn later than the proxy that its last connection is lost."""
    first, second, _ = await cluster.three()
    host, name = _server(first), second.log.incarnation
    former = host.connection_of[name]
    with mock.patch.object(Combiner, "forget") as forget, mock.patch.object(former, "close") as close:
        _, writer, _ = await _entered(first, _hello(second))
        await until(lambda: host.connection_of[name] is not former)
        assert close.call_count == 1
        assert forget.call_args_list == [mock.call(name)], "it appends itself what it has offered before"
        host.leaves(former)
        assert forget.call_count == 1
    assert len(host.connection_of) == 2
    writer.close()
    await writer.wait_closed()


async def test_a_proxy_that_sends_more_than_it_may_is_cut_off(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """400,000 empty entries held the combiner for seconds."""
    first, second, _ = await cluster.three()
    reader, writer, messages = await _entered(first, _hello(second))
    entries = [encode_entry(number, encode_void(0)) for number in range(1000, 2000)]
    writer.write(b"".join(map(messages.sign, entries)))
    with suppress(ConnectionResetError):
        await reader.read()
    writer.close()
    assert "64 entries wait, more than a proxy sends" in caplog.text
    assert not _server(first).combiner.waiting_of(second.log.incarnation)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (b"junk", "entry 99: a value of 4 bytes is cut short"),
        (b"junk, and more of it", "entry 99: an entry has format 0x6a"),
        (b"E" + encode_void(0)[1:-1], "entry 99: an entry of 49 bytes is damaged"),
        (b"".join((encode_void(0)[:10], b"\xff", encode_void(0)[11:])), "entry 99: an entry of 50 bytes is"),
        (wrap(FORMAT, b"no entry"), "entry 99: an entry's body of 8 bytes is cut short"),
    ],
)
async def test_what_is_no_entry_is_not_appended(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, value: bytes, line: str
) -> None:
    """No proxy serves a tree whose log has a value that is no entry."""
    first, second, _ = await cluster.three()
    reader, writer, messages = await _entered(first, _hello(second))
    with mock.patch.object(Combiner, "add") as add:
        writer.write(messages.sign(encode_entry(99, value)))
        await reader.read()
    writer.close()
    assert not add.called
    assert line in caplog.text


def _entry(kind: Kind, body: bytes = b"") -> bytes:
    writer = EntryWriter()
    writer.add(Kind.CLIENT, 1, 1, (), b"")
    writer.add(kind, 1, 1, (), body)
    return writer.finish(0, 0, 0, 0)


async def test_an_entry_far_above_the_last_one_is_not_appended(cluster: Cluster) -> None:
    """Every proxy would keep it in memory until its predecessors come."""
    first, second, _ = await cluster.three()
    reader, writer, messages = await _entered(first, _hello(second))
    writer.write(messages.sign(encode_entry(LAST_NUMBER, _entry(Kind.OPEN))))
    said: list[bytes] = []
    while len(said) < 2:
        said += messages.verify(await reader.read(1000))
    writer.close()
    assert said == [b"", encode_entry(LAST_NUMBER, b"")]
    assert not _server(first).combiner.waiting_of(second.log.incarnation)


async def test_what_holds_for_all_proxies_is_not_appended_for_one(cluster: Cluster) -> None:
    """A level that no proxy knows, or a forgotten incarnation, would end all of them."""
    first, second, _ = await cluster.three()
    reader, writer, messages = await _entered(first, _hello(second))
    kinds = (Kind.LEVEL, Kind.FORGET, Kind.EPOCH, Kind.FOLLOWED, Kind.BUDGET)
    values = [*map(_entry, kinds), _entry(Kind.CLIENT, bytes(2 << 20))]
    assert max(map(len, values)) < MOST_BYTES
    with mock.patch.object(Combiner, "add") as add:
        writer.writelines(messages.sign(encode_entry(*entry)) for entry in enumerate(values, 50))
        writer.write(messages.sign(encode_entry(90, _entry(Kind.OPEN))))
        refused: list[bytes] = []
        while len(refused) < 1 + len(values):
            refused += messages.verify(await reader.read(1000))
        await until(lambda: add.called)
    writer.close()
    assert refused == [b"", *[encode_entry(number, b"") for number in range(50, 50 + len(values))]]
    assert [call.args[0].number for call in add.call_args_list] == [90]
