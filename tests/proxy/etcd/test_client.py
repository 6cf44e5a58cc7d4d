"""The client on real etcds, by each transport: full, stopped, killed, guarded, without a leader."""

import asyncio
import contextlib
import itertools
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from lab.servers import EtcdServer, free_port
from lab.servers.process import REPOSITORY, find_program
from lab.servers.waiting import eventually
from proxy.etcd.client import EtcdClient
from proxy.etcd.interface import Etcd
from proxy.etcd.model import (
    Compare,
    Delete,
    EtcdError,
    EtcdNoSpace,
    EtcdRefused,
    EtcdUnknown,
    Get,
    Put,
    RefusalKind,
    Txn,
    TxnResult,
    WatchMessage,
)
from proxy.etcd.tls import Tls
from proxy.etcd.transport import (
    HTTP2,
    TRANSPORTS,
    ByteStream,
    Metadata,
    Request,
    RpcError,
    TransportMissing,
)
from tests.proxy.etcd import admin
from tests.proxy.etcd.watching import watching

KEY = b"/k"
LONG = 30.0

# What `connected` uses; the fixture below runs each test by each transport.
_transports = [HTTP2]


@pytest.fixture(autouse=True, params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> Iterator[str]:
    """How clients of this test reach etcd."""
    _transports.append(request.param)
    yield request.param
    _transports.pop()


def put(key: bytes = KEY, value: bytes = b"v") -> Txn:
    """A Txn of one put."""
    return Txn([], [Put(key, value)])


@contextlib.asynccontextmanager
async def connected(
    *endpoints: str, tls: Tls | None = None, user: str = "", password: str = ""
) -> AsyncIterator[EtcdClient]:
    """A client for one test."""
    client = EtcdClient(endpoints, tls=tls or Tls(), user=user, password=password, transport=_transports[-1])
    try:
        yield client
    finally:
        await client.close()


async def try_until_it_works(client: Etcd, txn: Txn) -> int:
    """Repeat until etcd answers; returns the revision."""

    async def attempt() -> int:
        try:
            return (await client.txn(txn, 2.0)).revision
        except EtcdUnknown:
            return 0

    return await eventually(attempt, "etcd takes a Txn")


async def until_broken(watch: AsyncIterator[WatchMessage]) -> EtcdError:
    """The error that ends a watch."""
    try:
        async for _ in watch:
            pass
    except EtcdError as error:
        return error
    raise AssertionError("a watch ended without an error")


@pytest.mark.parametrize(
    "endpoint", ["", "ftp://127.0.0.1:2379", "http://", "http://127.0.0.1:2379/v3", "http://127.0.0.1:port"]
)
async def test_bad_endpoints_are_named(endpoint: str) -> None:
    with pytest.raises(ValueError, match=r"endpoint|port"):
        EtcdClient([endpoint])


async def test_no_endpoint_is_an_error() -> None:
    with pytest.raises(ValueError, match="no etcd endpoint"):
        EtcdClient([])


def test_an_unknown_transport_is_named() -> None:
    with pytest.raises(ValueError, match=r"'pigeon' \(expected http2 or grpcio\)"):
        EtcdClient(["127.0.0.1:1"], transport="pigeon")


def test_a_transport_that_is_not_installed_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "proxy.etcd.grpc_channel", None)  # as if grpc were not there
    with pytest.raises(TransportMissing, match=r"make setup-grpcio"):
        EtcdClient(["127.0.0.1:1"], transport="grpcio")


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


@pytest.fixture
def full_etcd() -> Iterator[EtcdServer]:
    """An etcd with a quota of 4 MiB."""
    with EtcdServer("--quota-backend-bytes=4194304") as server:
        yield server


async def fill(client: Etcd, parallel: int) -> dict[bytes, EtcdNoSpace | None]:
    """Put 64 KiB values until there is no space; returns what became of each."""
    outcomes: dict[bytes, EtcdNoSpace | None] = {}

    async def one(key: bytes) -> None:
        try:
            await client.txn(put(key, b"x" * 65536), LONG)
            outcomes[key] = None
        except EtcdNoSpace as full:
            outcomes[key] = full

    for batch in range(200):
        await asyncio.gather(*(one(b"/fill/%d/%d" % (batch, lane)) for lane in range(parallel)))
        if any(outcomes.values()):
            return outcomes
    raise AssertionError("etcd never got full")


async def test_no_space_is_settled_by_one_read(full_etcd: EtcdServer) -> None:
    async with connected(full_etcd.endpoint) as client:
        outcomes = await fill(client, 16)
        found = {kv.key for kv in (await client.range(Get(b"/fill/", b"/fill0"), LONG)).kvs}
        # Those reported as done are there; of the others some may be: etcd applies the one that crosses.
        assert {key for key, full in outcomes.items() if full is None} <= found
        # Nothing comes later.
        assert {kv.key for kv in (await client.range(Get(b"/fill/", b"/fill0"), LONG)).kvs} == found


async def test_what_a_full_etcd_still_takes(full_etcd: EtcdServer) -> None:
    async with connected(full_etcd.endpoint) as client:
        await client.lease_grant(5, 600)
        await client.txn(Txn([], [Put(b"/leased", b"", 5)]), LONG)
        await fill(client, 1)
        for refused in (put(), Txn([], [], [Put(KEY, b"")]), Txn([], [Delete(b"/fill/0/0"), Put(KEY, b"")])):
            with pytest.raises(EtcdNoSpace):
                await client.txn(refused, LONG)
        with pytest.raises(EtcdNoSpace):
            await client.lease_grant(6, 600)
        assert (await client.txn(Txn([], [Delete(b"/fill/0/0")]), LONG)).succeeded
        assert (await client.range(Get(b"/fill/0/0"), LONG)).count == 0
        # etcd's costTxn (etcdserver/quota.go) does not look into nested Txns: their puts pass.
        await client.txn(Txn([], [Txn([], [Put(KEY, b"nested")])]), LONG)
        assert (await client.range(Get(KEY), LONG)).kvs[0].value == b"nested"
        await client.lease_revoke(5)
        assert (await client.range(Get(b"/leased"), LONG)).count == 0


async def test_authentication_and_a_new_token_when_the_old_is_gone(own_etcd_server: EtcdServer) -> None:
    endpoint = own_etcd_server.endpoint
    async with (
        connected(endpoint, user="tenant", password="secret") as client,
        connected(endpoint, user="tenant", password="wrong") as intruder,
        connected(endpoint) as nobody,
    ):
        await client.txn(put(b"/mine/before"), LONG)  # a user is no harm to an etcd without authentication
        token = admin.enable_authentication(endpoint, "tenant", "secret", b"/mine/", b"/mine0")
        revision = (await client.txn(put(b"/mine/a"), LONG)).revision
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
        await asyncio.to_thread(own_etcd_server.restart)
        answers: asyncio.Queue[TxnResult | EtcdError] = asyncio.Queue()

        async def answered() -> bool:
            client.begin_txn(put(b"/mine/c"), LONG, answers.put_nowait)
            answer = await answers.get()
            assert not isinstance(answer, EtcdRefused), "a Txn by callback gets a new token too"
            return isinstance(answer, TxnResult)

        await eventually(answered, "etcd answers again")
        await asyncio.to_thread(own_etcd_server.restart)

        async def watched() -> bool:
            watch = watching(client, b"/mine/", b"/mine0", revision)
            try:
                await anext(watch)
                return len((await anext(watch)).events) > 0
            except EtcdUnknown:
                return False
            finally:
                await watch.aclose()

        await eventually(watched, "a watch gets a new token too")


def make_certificates(folder: Path) -> None:
    """ca.pem, server.pem/.key for 127.0.0.1 and client.pem/.key, with the openssl program."""
    openssl = find_program("openssl", "make test installs it where it may use apt")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test ca")
    for name in ("server", "client"):
        run("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / "names").write_text(
            "subjectAltName=IP:127.0.0.1,DNS:etcd.test\nextendedKeyUsage=serverAuth,clientAuth\n"
        )
        signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        run("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signing)


class TlsEtcdServer(EtcdServer):
    """etcd that wants TLS with client certificates."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._arguments = (
            f"--listen-client-urls=https://127.0.0.1:{self.port}",
            f"--advertise-client-urls=https://127.0.0.1:{self.port}",
            f"--cert-file={folder / 'server.pem'}",
            f"--key-file={folder / 'server.key'}",
            f"--trusted-ca-file={folder / 'ca.pem'}",
            "--client-cert-auth",
        )

    def serves(self) -> bool:
        """The test polls by itself, with a client certificate."""
        return True


@pytest.mark.real
async def test_tls(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    ca, cert, key = (str(tmp_path / name) for name in ("ca.pem", "client.pem", "client.key"))
    with TlsEtcdServer(tmp_path) as server:
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
        for files in ((ca,), ("", cert, key), (ca, cert, key, "other.test")):
            async with connected(https, tls=await asyncio.to_thread(Tls, *files)) as client:
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
        keeper = client.lease_keeper(lambda lease, ttl: answers.put_nowait((lease, ttl)), answer_timeout=0.5)
        keeper.send(1)
        assert await answers.get() == (1, 600)
        own_etcd_server.kill()
        keeper.send(2)
        await asyncio.to_thread(own_etcd_server.start)
        assert await answers.get() == (2, 600)
        # A silent etcd: asked while it is stopped, on a stream that stays open.
        own_etcd_server.pause()
        keeper.send(3)
        with pytest.raises(EtcdUnknown):
            await client.range(Get(KEY), 1.5)
        own_etcd_server.resume()
        assert (await answers.get())[0] == 3


@contextlib.contextmanager
def cluster() -> Iterator[list[EtcdServer]]:
    """Three members."""
    ports = [(free_port(), free_port()) for _ in range(3)]
    members = ",".join(f"m{index}=http://127.0.0.1:{peer}" for index, (_, peer) in enumerate(ports))
    servers = [
        EtcdServer(
            f"--name=m{index}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster={members}",
            port=client,
        )
        for index, (client, peer) in enumerate(ports)
    ]
    try:
        for server in servers:
            server.launch()
        for server in servers:
            server.wait_until_serving()
        yield servers
    finally:
        for server in servers:
            server.close()


@pytest.mark.real
async def test_fail_over_and_the_loss_of_the_leader() -> None:
    with cluster() as servers:
        endpoints = [server.endpoint for server in servers]
        async with connected(*endpoints) as client:
            await client.txn(put(), LONG)
            used = next(server for server in servers if server.address == client.endpoint)
            watch = watching(client, KEY, b"", 0)
            await anext(watch)
            used.kill()
            assert isinstance(await until_broken(watch), EtcdUnknown)
            await try_until_it_works(client, put())
            used.start()
            # A member that is alone says so, instead of keeping the watch open in silence.
            alone = next(server for server in servers if server.address == client.endpoint)
            await try_until_it_works(client, put())
            watch = watching(client, KEY, b"", 0)
            await anext(watch)
            alone = next(server for server in servers if server.address == client.endpoint)
            for server in servers:
                if server is not alone:
                    server.kill()
            async with asyncio.timeout(2 * LONG):
                assert isinstance(await until_broken(watch), EtcdUnknown)
            assert alone.alive
            with pytest.raises(EtcdUnknown):
                await client.txn(put(), 2.0)


def _append(number: int) -> Txn:
    """A Txn that may be sent any number of times: it puts its key once."""
    key = b"/log/%d" % number
    return Txn([Compare(key, 0)], [Put(key, b"entry")], [Get(key)])


async def _append_until_known(client: Etcd, number: int) -> int:
    """Send the same Txn again until it is answered, as the log does (rule 2.2); how often it was sent."""
    for attempt in itertools.count(1):
        try:
            await client.txn(_append(number), 1.0)
        except EtcdUnknown:
            continue
        return attempt
    raise AssertionError


@pytest.mark.real
async def test_a_stopped_member_delays_appends_by_one_timeout() -> None:
    """Each Txn whose outcome is unknown is settled by the same Txn at another member, and done once."""
    with cluster() as servers:
        endpoints = [server.endpoint for server in servers]
        async with connected(*endpoints) as client, asyncio.timeout(4 * LONG):
            await client.txn(put(), LONG)
            at = {server.address: server for server in servers}
            leader = (await client.status()).leader
            while (await client.status()).member_id == leader:  # an election is another matter
                client.fail_over()
            stopped = at[client.endpoint]
            watch = watching(client, b"/log/", b"/log0", 0)
            await anext(watch)
            stopped.pause()
            # All that are in flight time out together: the client moves on once, not once for each.
            sent = await asyncio.gather(*(_append_until_known(client, number) for number in range(8)))
            assert sent == [2] * 8
            assert client.endpoint != stopped.address
            stopped.resume()
            # The watch at that member goes on, though Txns of its connection were reset.
            seen: list[bytes] = []
            while len(seen) < 8:
                seen += [event.kv.key for event in (await anext(watch)).events]
            await watch.aclose()
            assert sorted(seen) == [b"/log/%d" % number for number in range(8)]
            # What was sent to the stopped member and was let through late has changed nothing.
            kvs = (await client.range(Get(b"/log/", b"/log0"), LONG)).kvs
            assert [kv.version for kv in kvs] == [1] * 8


@pytest.mark.real
async def test_a_stopped_leader_delays_appends_by_an_election() -> None:
    with cluster() as servers:
        endpoints = [server.endpoint for server in servers]
        async with connected(*endpoints) as client, asyncio.timeout(4 * LONG):
            await client.txn(put(), LONG)
            at = {server.address: server for server in servers}
            while (status := await client.status()).member_id != status.leader:
                client.fail_over()
            leader = at[client.endpoint]
            leader.pause()
            assert all(await asyncio.gather(*(_append_until_known(client, number) for number in range(8))))
            assert client.endpoint != leader.address
            leader.resume()
            kvs = (await client.range(Get(b"/log/", b"/log0"), LONG)).kvs
            assert [kv.version for kv in kvs] == [1] * 8


async def test_close_ends_what_waits(etcd_server: EtcdServer, transport: str) -> None:
    client = EtcdClient([etcd_server.endpoint], transport=transport)
    watch = watching(client, b"/nothing-happens-here", b"", 0)
    await anext(watch)
    keeper = client.lease_keeper(lambda lease, ttl: None)
    keeper.send(1)
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


async def test_guards_decide(etcd_server: EtcdServer) -> None:
    async with connected(etcd_server.endpoint) as client:
        await client.txn(Txn([], [Delete(b"/guard/", b"/guard0")]), LONG)
        txn = Txn([Compare(b"/guard/a", 0)], [Put(b"/guard/a", b"1")], [Get(b"/guard/a")])
        assert (await client.txn(txn, LONG)).succeeded
        lost = await client.txn(txn, LONG)
        assert not lost.succeeded
        assert lost.responses[0] is not None


async def test_a_web_proxy_in_the_environment_is_none_of_ours(
    etcd_server: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with connected(etcd_server.endpoint) as client:
        await client.txn(put(), LONG)


class _Garbled:
    """A channel whose member answers everything with bytes that are no message."""

    def __init__(self, host: str, port: int, tls: Tls | None) -> None:
        self.address = f"{host}:{port}"

    def begin(
        self,
        path: str,
        request: bytes,
        timeout: float,
        metadata: Metadata,
        on_answer: Callable[[bytes | RpcError], None],
    ) -> Request:
        on_answer(b"\0")
        return asyncio.get_running_loop().create_future()

    async def stream(self, path: str, metadata: Metadata = ()) -> ByteStream:
        raise RpcError("no streams")

    async def close(self) -> None:
        """Nothing is open."""


async def test_an_answer_that_is_no_message_is_an_unknown_outcome() -> None:
    """Found by fuzzing: DecodeError came out of each of these, and `begin_txn` never called back."""
    client = EtcdClient(["http://one:2379", "http://two:2379"], connect=_Garbled)
    asks: list[Callable[[], Awaitable[object]]] = [
        lambda: client.txn(put(), LONG),
        lambda: client.range(Get(b"a"), LONG),
        lambda: client.lease_grant(1, 5),
        lambda: client.lease_revoke(1),
        client.status,
    ]
    for ask in asks:
        before = client.endpoint
        with pytest.raises(EtcdUnknown):
            await ask()
        assert client.endpoint != before  # another member may do better
    answers: list[object] = []
    client.begin_txn(put(), LONG, answers.append)
    assert [type(answer) for answer in answers] == [EtcdUnknown]
    await client.close()
