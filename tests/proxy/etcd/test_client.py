"""The client on real etcds, by each transport: full, stopped, killed, guarded, without a leader."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

from lab.servers import EtcdServer, free_port
from lab.servers.process import REPOSITORY
from lab.servers.tls import Authority, Pair
from proxy.etcd.client import EtcdClient
from proxy.etcd.model import EtcdError, EtcdRefused, EtcdUnknown, Get, Put, RefusalKind, Txn, TxnResult
from proxy.etcd.tls import Tls
from proxy.etcd.transport import TransportMissing
from tests.proxy.etcd import admin
from tests.proxy.etcd.clients import KEY, LONG, connected, put, try_until_it_works, until_broken
from tests.proxy.etcd.watching import watching

pytestmark = pytest.mark.usefixtures("transport")


def test_bad_endpoints_and_transports_are_named() -> None:
    for endpoint in (
        "",
        "ftp://127.0.0.1:2379",
        "http://",
        "http://127.0.0.1:2379/v3",
        "http://127.0.0.1:port",
    ):
        with pytest.raises(ValueError, match=r"endpoint|port"):
            EtcdClient([endpoint])
    with pytest.raises(ValueError, match="endpoint"):
        EtcdClient([])
    with pytest.raises(ValueError, match=r"'pigeon' \(expected http2 or grpcio\)"):
        EtcdClient(["127.0.0.1:1"], transport="pigeon")


def test_a_transport_that_is_not_installed_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "proxy.etcd.grpc_channel", None)  # as if grpc were not there
    with pytest.raises(TransportMissing, match=r"make setup-grpcio"):
        EtcdClient(["127.0.0.1:1"], transport="grpcio")


@pytest.mark.long
def test_grpcio_is_imported_only_when_it_is_asked_for() -> None:
    code = "import sys, proxy.etcd.client; print([name for name in sys.modules if name.startswith('grpc')])"
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert told.stdout == "[]\n"


async def test_nobody_listens() -> None:
    async with connected(f"127.0.0.1:{free_port()}") as client:
        before = client.last_contact
        with pytest.raises(EtcdUnknown):
            await client.txn(put(), LONG)
        with pytest.raises(EtcdUnknown):
            await watching(client, KEY, b"", 0).__anext__()
        assert client.last_contact == before


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_both_event_loops(etcd_server: EtcdServer, run: object) -> None:
    async def work() -> None:
        async with connected(etcd_server.endpoint) as client:
            before = client.last_contact
            revision = (await client.txn(put(), LONG)).revision
            assert client.last_contact > before
            watch = watching(client, KEY, b"", revision)
            messages = [await anext(watch), await anext(watch)]
            assert [len(message.events) for message in messages] == [0, 1]
            await watch.aclose()

    assert callable(run)
    run(work())


async def test_status(etcd_server: EtcdServer) -> None:
    async with connected(etcd_server.endpoint) as client:
        await client.txn(put(), LONG)
        status = await client.status()
        assert status.version.startswith("3.")
        assert status.cluster_id
        assert status.leader == status.member_id
        assert status.db_size >= status.db_size_in_use > 0
        assert status.revision == (await client.range(Get(KEY), LONG)).revision
        assert status.raft_index > 0
        assert status.errors == []


async def test_each_member_is_asked_for_its_version(etcd_server: EtcdServer) -> None:
    async with connected("http://127.0.0.1:1", etcd_server.endpoint) as client:
        with pytest.raises(EtcdUnknown):
            await client.txn(put(), LONG)  # now the other one is in use
        failures = dict(client.calls.failures)
        assert await client.versions() == ["", etcd_server.version()]
        assert client.endpoint == etcd_server.address
        assert client.calls.failures == failures  # a member that is not in use may be away


async def test_a_stopped_etcd_leaves_the_outcome_unknown_and_may_apply_later(
    own_etcd_server: EtcdServer,
) -> None:
    async with connected(own_etcd_server.endpoint) as client:
        await client.txn(put(), LONG)
        own_etcd_server.pause()
        with pytest.raises(EtcdUnknown):
            await client.txn(put(b"/late"), 0.5)
        own_etcd_server.resume()
        await try_until_it_works(client, put())
        with pytest.raises(EtcdRefused):  # and what is definite stays so
            await client.txn(Txn([], [Put(b"", b"")]), LONG)


async def test_a_killed_etcd_is_found_again(own_etcd_server: EtcdServer) -> None:
    async with connected(own_etcd_server.endpoint) as client:
        revision = (await client.txn(put(), LONG)).revision
        watch = watching(client, KEY, b"", revision + 1)
        await anext(watch)
        own_etcd_server.kill()
        assert isinstance(await until_broken(watch), EtcdUnknown)
        with pytest.raises(EtcdUnknown):
            await client.txn(put(), LONG)
        await asyncio.to_thread(own_etcd_server.start)
        await try_until_it_works(client, put())
        # Nothing is missed by resuming after the last revision seen.
        resumed = watching(client, KEY, b"", revision + 1)
        await anext(resumed)
        assert (await anext(resumed)).events[0].kv.mod_revision == revision + 1
        await resumed.aclose()


async def test_a_silent_etcd_breaks_the_watch(own_etcd_server: EtcdServer) -> None:
    async with connected(own_etcd_server.endpoint) as client:
        watch = watching(client, KEY, b"", 0)
        await anext(watch)
        own_etcd_server.pause()
        async with asyncio.timeout(LONG):
            assert isinstance(await until_broken(watch), EtcdUnknown)
        own_etcd_server.resume()


async def test_authentication_and_a_new_token_when_the_old_is_gone(own_etcd_server: EtcdServer) -> None:
    endpoint = own_etcd_server.endpoint
    async with (
        connected(endpoint, user="tenant", password="secret") as client,
        connected(endpoint, user="tenant", password="wrong") as intruder,
        connected(endpoint) as nobody,
    ):
        for _ in range(3):  # a user is no harm to an etcd without authentication
            await client.txn(put(b"/mine/before"), LONG)
        assert client.calls.failures["Authenticate", "refused"] == 1, "it is not asked for each request"
        token = admin.enable_authentication(endpoint, "tenant", "secret", b"/mine/", b"/mine0")
        await client.txn(put(b"/mine/a"), LONG)
        for stranger in (intruder, nobody):
            with pytest.raises(EtcdRefused) as refused:
                await stranger.txn(put(b"/mine/a"), LONG)
            assert refused.value.kind is RefusalKind.PERMISSION
        with pytest.raises(EtcdRefused) as not_mine:
            await client.txn(put(b"/other"), LONG)
        assert not_mine.value.kind is RefusalKind.PERMISSION
        denied = await until_broken(watching(client, b"/other", b"", 0))
        assert isinstance(denied, EtcdRefused)
        assert denied.kind is RefusalKind.PERMISSION
        await asyncio.to_thread(admin.grant, endpoint, b"/other", b"", token)
        await client.txn(put(b"/other"), LONG)
        # A restarted etcd has forgotten its tokens.
        await asyncio.to_thread(own_etcd_server.restart)
        results = await asyncio.gather(*(try_until_it_works(client, put(b"/mine/b")) for _ in range(8)))
        assert len(set(results)) == 8
        # So it is for Txns by callback and watches: tests/faults/test_etcd_auth.py.


class TlsEtcdServer(EtcdServer):
    """etcd that wants TLS with client certificates."""

    def __init__(self, ca: Path, pair: Pair) -> None:
        super().__init__()
        self._arguments = (
            f"--listen-client-urls=https://127.0.0.1:{self.port}",
            f"--advertise-client-urls=https://127.0.0.1:{self.port}",
            f"--cert-file={pair.cert}",
            f"--key-file={pair.key}",
            f"--trusted-ca-file={ca}",
            "--client-cert-auth",
        )

    def serves(self) -> bool:
        """The test itself polls, with a client certificate."""
        return True


def make_certificates(folder: Path) -> tuple[Path, Pair]:
    """A new authority and a pair of its, in files of the same names each time."""
    authority = Authority(folder)
    return authority.ca, authority.issue("pair", "127.0.0.1", "etcd.test")


@pytest.mark.real
async def test_tls(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    ca, cert, key = map(str, (files[0], files[1].cert, files[1].key))
    with TlsEtcdServer(*files) as server:
        https = f"https://127.0.0.1:{server.port}"
        async with connected(https, tls=await asyncio.to_thread(Tls, ca, cert, key)) as client:
            await try_until_it_works(client, put())
            watch = watching(client, KEY, b"", 2)
            assert [len((await anext(watch)).events), len((await anext(watch)).events)] == [0, 1]
            await watch.aclose()
            # Another authority, in files of the same names: read for the next connection.
            await asyncio.to_thread(make_certificates, tmp_path)
            await asyncio.to_thread(server.restart)
            await try_until_it_works(client, put())
        named = await asyncio.to_thread(Tls, ca, cert, key, "etcd.test")
        async with connected(https, tls=named) as client:
            await client.txn(put(), LONG)
        for given in ((ca,), ("", cert, key), (ca, cert, key, "other.test")):
            async with connected(https, tls=await asyncio.to_thread(Tls, *given)) as client:
                with pytest.raises(EtcdUnknown):
                    await client.txn(put(), LONG)


def test_tls_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.pem"):
        Tls(str(tmp_path / "missing.pem"))
    with pytest.raises(ValueError, match="together"):
        Tls(cert_file="client.pem")
    empty = tmp_path / "empty.pem"
    empty.touch()
    with pytest.raises(OSError, match=rf"the CA of etcd {empty}: "):
        Tls(str(empty))
    with pytest.raises(OSError, match=rf"the certificate for etcd {empty} with the key {empty}, "):
        Tls(cert_file=str(empty), key_file=str(empty))


async def test_a_catch_up_of_30_mb_comes_in_whole_revisions(own_etcd_server: EtcdServer) -> None:
    value = b"x" * 10_000
    async with connected(own_etcd_server.endpoint) as client:
        first = 0
        for _ in range(30):
            puts = [Put(b"/big/%d" % index, value) for index in range(100)]
            revision = (await client.txn(Txn([], puts), LONG)).revision
            first = first or revision
        watch = watching(client, b"/big/", b"/big0", first)
        messages: list[list[int]] = []
        async with asyncio.timeout(LONG):
            while sum(map(len, messages)) < 3000:
                message = await anext(watch)
                messages.append([event.kv.mod_revision for event in message.events])
        await watch.aclose()
        expected = [first + batch for batch in range(30) for _ in range(100)]
        assert [revision for message in messages for revision in message] == expected
        assert all(message.count(message[-1]) == 100 for message in messages if message)
        # It came in fragments: not as one message.
        assert len([message for message in messages if message]) > 1


async def test_the_lease_keeper_opens_another_stream(own_etcd_server: EtcdServer) -> None:
    answers: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    async with connected(own_etcd_server.endpoint) as client, asyncio.timeout(2 * LONG):
        for lease in (1, 2, 3):
            await client.lease_grant(lease, 600)
        ask_for_time = client.lease_keeper(
            lambda lease, ttl: answers.put_nowait((lease, ttl)), answer_timeout=0.5
        )
        ask_for_time(1)
        assert await answers.get() == (1, 600)
        own_etcd_server.kill()
        ask_for_time(2)
        await asyncio.to_thread(own_etcd_server.start)
        assert await answers.get() == (2, 600)
        # A silent etcd: asked while it is stopped, on a stream that stays open.
        own_etcd_server.pause()
        ask_for_time(3)
        with pytest.raises(EtcdUnknown):
            await client.range(Get(KEY), 1.5)
        own_etcd_server.resume()
        assert (await answers.get())[0] == 3


async def test_close_ends_what_waits(etcd_server: EtcdServer, transport: str) -> None:
    client = EtcdClient([etcd_server.endpoint], transport=transport)
    watch = watching(client, b"/nothing-happens-here", b"", 0)
    await anext(watch)
    ask_for_time = client.lease_keeper(lambda lease, ttl: None)
    ask_for_time(1)
    waiting = asyncio.get_running_loop().create_task(until_broken(watch))
    await asyncio.sleep(0)
    await client.close()
    async with asyncio.timeout(LONG):
        assert isinstance(await waiting, EtcdUnknown)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not [task for task in others if not task.done()]


async def test_cancelling_a_reader_is_not_taken_for_a_broken_stream(etcd_server: EtcdServer) -> None:
    async with connected(etcd_server.endpoint) as client:
        watch = watching(client, b"/nothing-happens-here", b"", 0)
        await anext(watch)
        waiting = asyncio.get_running_loop().create_task(until_broken(watch))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_an_answer_goes_to_a_callback(etcd_server: EtcdServer, transport: str) -> None:
    client = EtcdClient([etcd_server.endpoint], transport=transport)
    answers: asyncio.Queue[TxnResult | EtcdError] = asyncio.Queue()
    async with asyncio.timeout(LONG):
        for _ in range(2):  # the first one has to connect
            client.begin_txn(put(), LONG, answers.put_nowait)
            answer = await answers.get()
            assert isinstance(answer, TxnResult)
            assert answer.succeeded
        assert client.calls.times["Txn"].count == 2
        client.begin_txn(Txn([], [Put(KEY, b"", 987654321)]), LONG, answers.put_nowait)
        assert isinstance(await answers.get(), EtcdRefused)
        await client.close()
        client.begin_txn(put(), LONG, answers.put_nowait)
        assert isinstance(await answers.get(), EtcdUnknown)


async def test_a_web_proxy_in_the_environment_is_none_of_ours(
    etcd_server: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with connected(etcd_server.endpoint) as client:
        await client.txn(put(), LONG)
