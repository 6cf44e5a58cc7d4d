"""etcd with authentication: tokens that run out or are forgotten, a role for one prefix, wrong passwords."""

import asyncio
import base64
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from cli.connection import tree_in
from lab.client.blocking import CHANGED, EPHEMERAL, Client, events_of
from lab.servers import EtcdServer, StartFailed, ZketcdServer, wait_until
from lab.servers.etcd import VERSIONS
from lab.servers.operator import ask
from lab.servers.ports import free_port
from proxy.etcd.access import Access
from proxy.etcd.client import EtcdClient
from proxy.log.seal import seal
from schema.keys import Keyspace
from schema.record import Seal
from tests.faults.conftest import Start
from tests.faults.writers import Writers
from tests.proxy.etcd import admin
from tests.proxy.log.proxies import Proxy, answered, until
from zketcd.__main__ import main

_TOKEN_TTL_S = 1
_PREFIX = "/tenant"
_RANGE = b"/tenant/", b"/tenant0"
_DATABASE = "zketcd_etcd_db_in_use_bytes"


@contextmanager
def _served(*arguments: str, version: str = "") -> Iterator[EtcdServer]:
    """An etcd where a user may use one prefix."""
    with EtcdServer("--bcrypt-cost=4", *arguments, version=version) as server:
        admin.enable_authentication(server.endpoint, "tenant", "secret", *_RANGE)
        yield server


@pytest.fixture
def etcd() -> Iterator[EtcdServer]:
    """An etcd where a user may use one prefix."""
    with _served() as server:
        yield server


@pytest.fixture
def forgetful_etcd() -> Iterator[EtcdServer]:
    """The same, and unused tokens end soon: on a busy machine also those of a proxy that lives."""
    with _served(f"--auth-token-ttl={_TOKEN_TTL_S}") as server:
        yield server


@pytest.mark.parametrize("version", VERSIONS)
def test_a_user_of_one_prefix_needs_no_other_right(
    start: Start, version: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From 3.5.28 to 3.5.31 etcd tells its status to root alone."""
    admin_port = free_port()
    options = {"prefix": _PREFIX, "etcd_user": "tenant", "etcd_password": "secret"}
    with _served(version=version) as etcd:
        proxy = start(etcd, admin_listen=f"127.0.0.1:{admin_port}", **options)
        with Client(proxy.port) as client:
            client.create("/a")
            client.sync()
        wait_until(lambda: _metric(admin_port, _DATABASE) > 0, "etcd's size")
        monkeypatch.setenv("ZKETCD_ETCD_PASSWORD", "secret")
        command = ["check", "--etcd", etcd.endpoint, "--prefix", _PREFIX, "--etcd-user", "tenant"]
        main([*command, "--listen", f"127.0.0.1:{free_port()}"])
        checked = capsys.readouterr().out
        for found in (f"etcd {version}", "it has a leader", "of 2048 MiB", "may be read and written"):
            assert found in checked


@pytest.mark.parametrize("version", VERSIONS)
def test_a_user_of_one_prefix_sees_that_etcd_is_full(
    start: Start, version: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another program has filled it: no append of the proxy has been refused."""
    admin_port = free_port()
    options = {"prefix": _PREFIX, "etcd_user": "tenant", "etcd_password": "secret"}
    with _served("--quota-backend-bytes=4194304", version=version) as etcd:
        start(etcd, admin_listen=f"127.0.0.1:{admin_port}", **options)
        root = admin.post(etcd.endpoint, "auth/authenticate", {"name": "root", "password": "root"})["token"]
        value = base64.b64encode(bytes(1_000_000)).decode()

        def is_full() -> bool:
            put = {"key": base64.b64encode(os.urandom(8)).decode(), "value": value}
            try:
                admin.post(etcd.endpoint, "kv/put", put, root)
            except urllib.error.HTTPError:
                return True
            return False

        wait_until(is_full, "etcd is full", interval=0)
        for name in ("zketcd_etcd_alarms", "zketcd_etcd_no_space"):
            wait_until(partial(_is_set, admin_port, name), name, timeout=60)
        monkeypatch.setenv("ZKETCD_ETCD_PASSWORD", "secret")
        assert main(["sizes", "--etcd", etcd.endpoint, "--prefix", _PREFIX, "--etcd-user", "tenant"]) == 0
        assert re.search(r"etcd's database: \d+ [kM]B, in use", capsys.readouterr().out)


def _is_set(admin_port: int, name: str) -> bool:
    return _metric(admin_port, name) == 1


def _metric(admin_port: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/metrics", timeout=10) as response:
        lines = response.read().decode().splitlines()
    return next((float(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0.0)


def test_tokens_that_run_out_are_renewed(start: Start, forgetful_etcd: EtcdServer) -> None:
    etcd = forgetful_etcd
    proxies = [start(etcd, prefix=_PREFIX, etcd_user="tenant", etcd_password="secret") for _ in range(2)]
    with Client(proxies[0].port) as first, Client(proxies[1].port) as second:
        first.create("/a")
        second.sync()
        second.stat("/a", watch=True)
        for turn in range(2):
            idle = time.monotonic()
            # etcd looks for old tokens once a second.
            wait_until(lambda: time.monotonic() > idle + _TOKEN_TTL_S + 1.5, "the end of the tokens")  # noqa: B023
            with Client(proxies[turn].port) as third:
                third.create("/b", b"", EPHEMERAL)
                first.write("/a", b"1", turn)
                third.close()
            first.sync()
            assert first.stat("/b") is None
        assert events_of(second, 1) == [(CHANGED, "/a")]


def test_an_etcd_that_has_forgotten_all_tokens(start: Start, etcd: EtcdServer) -> None:
    proxies = [start(etcd, prefix=_PREFIX, etcd_user="tenant", etcd_password="secret") for _ in range(2)]
    with Writers(*(proxy.port for proxy in proxies)) as writers:
        for _ in range(2):
            writers.progress()
            etcd.kill()
            etcd.start()
        writers.progress()
        writers.verify()


class Password:
    """The password of etcd's user, in etcd and in the file that proxies read."""

    def __init__(self, etcd: EtcdServer, file: Path) -> None:
        self._etcd = etcd
        self.file = file
        file.write_text("secret\n")
        file.chmod(0o600)

    def change_file(self, password: str) -> None:
        """As Kubernetes does: another file gets the name."""
        other = self.file.with_suffix(".new")
        other.write_text(password)
        other.chmod(0o600)
        other.rename(self.file)

    def change_etcd(self, password: str) -> None:
        """etcd forgets the user's tokens."""
        self._as_root("auth/user/changepw", {"name": "tenant", "password": password})

    def revoke_role(self) -> None:
        """The user's password is right, and every request is refused."""
        self._as_root("auth/user/revoke", {"name": "tenant", "role": "tenant"})

    def return_role(self) -> None:
        """Undo `revoke_role`."""
        self._as_root("auth/user/grant", {"user": "tenant", "role": "tenant"})

    def forbid_writing(self) -> None:
        """Reads and keep-alives still work."""
        admin.grant(self._etcd.endpoint, *_RANGE, self._root_token(), write=False)

    def _as_root(self, path: str, body: dict[str, str]) -> None:
        admin.post(self._etcd.endpoint, path, body, self._root_token())

    def _root_token(self) -> str:
        root = {"name": "root", "password": "root"}
        token: str = admin.post(self._etcd.endpoint, "auth/authenticate", root)["token"]
        return token


@pytest.fixture
def password(etcd: EtcdServer, tmp_path: Path) -> Password:
    return Password(etcd, tmp_path / "password")


@pytest.fixture
def proxies(start: Start, etcd: EtcdServer, password: Password) -> list[ZketcdServer]:
    """Two that read the password from the file."""
    access = {"etcd_user": "tenant", "etcd_password_file": password.file}
    return [start(etcd, prefix=_PREFIX, snapshot_log_requests=200, **access) for _ in range(2)]


def _said(proxies: list[ZketcdServer], what: str) -> bool:
    return all(what in proxy.log_text() for proxy in proxies)


def _snapshots(proxies: list[ZketcdServer]) -> int:
    return sum(proxy.log_text().count(" snapshot: {") for proxy in proxies)


def test_a_password_that_changes_first_in_etcd(proxies: list[ZketcdServer], password: Password) -> None:
    refused, accepted = (
        f"etcd {verb} the password of user tenant in {password.file}" for verb in ("refuses", "accepts")
    )
    with Writers(*(proxy.port for proxy in proxies)) as writers:
        writers.progress()
        password.change_etcd("second")
        wait_until(lambda: _said(proxies, refused), "the proxies miss the new password")
        password.change_file("second")
        writers.progress()
        wait_until(lambda: _said(proxies, accepted), "each proxy has a token")
        # The child processes that write snapshots read it, too.
        before = _snapshots(proxies)
        wait_until(lambda: _snapshots(proxies) > before, "a snapshot")
        writers.verify()
    assert not any("is over" in proxy.log_text() for proxy in proxies)


def _keep_alives(etcd: EtcdServer) -> float:
    return etcd.metric("grpc_server_msg_received_total", grpc_method="LeaseKeepAlive")


@pytest.mark.parametrize(
    ("refuse", "reason"),
    [
        (partial(Password.change_etcd, password="second"), "etcd does not say what is new"),
        (Password.revoke_role, "etcd does not say what is new"),
        (Password.forbid_writing, "etcd refuses entries"),
    ],
)
def test_a_proxy_that_etcd_refuses_does_not_hold_its_sessions(
    start: Start, etcd: EtcdServer, password: Password, refuse: Callable[[Password], None], reason: str
) -> None:
    """It serves no client, and another proxy ends the sessions of its clients that are gone."""
    options = {"prefix": _PREFIX, "max_staleness": 2, "proxy_lease": 2}
    admin_port = free_port()
    refused = start(
        etcd,
        etcd_user="tenant",
        etcd_password_file=password.file,
        admin_listen=f"127.0.0.1:{admin_port}",
        **options,
    )
    other = start(etcd, etcd_user="root", etcd_password="root", **options)
    with Client(refused.port, timeout_ms=2000) as gone, Client(other.port) as waiting:
        gone.create("/lock", b"", EPHEMERAL)
        waiting.sync()
        wait_until(lambda: _keep_alives(etcd) > 4, "the keep-alives of the leases have begun")
        refuse(password)
        gone.drop()
        wait_until(lambda: waiting.stat("/lock") is None, "the end of the session")
    message = f"closing all connections: {reason}: "
    wait_until(lambda: ask(admin_port, "/ready")[0] == 503, "the refused one is not ready")
    wait_until(lambda: message in refused.log_text(), "a message")
    assert refused.log_text().count(message) == 1


@pytest.mark.real
async def test_a_proxy_that_may_not_load_its_tree_anew_does_so_when_it_may_again(
    etcd: EtcdServer, password: Password, caplog: pytest.LogCaptureFixture
) -> None:
    client = EtcdClient([etcd.endpoint], user="tenant", password="secret")
    proxy = await Proxy(client, _PREFIX).start()
    await asyncio.to_thread(password.revoke_role)
    proxy.log.follower.distrust()
    await until(lambda: "cannot catch up with the log yet: etcdserver: permission denied" in caplog.text)
    await asyncio.to_thread(password.return_role)
    await until(lambda: proxy.log.stats.reloads == 1)
    await answered([proxy.open(1), proxy.create(1, "/x")])
    await proxy.stop()
    await client.close()


def test_a_proxy_with_a_fixed_password_goes_on_when_it_is_right_again(
    start: Start, etcd: EtcdServer, password: Password
) -> None:
    """It does not end, and asks etcd once a second."""
    proxy = start(etcd, prefix=_PREFIX, etcd_user="tenant", etcd_password="secret")
    with Writers(proxy.port) as writers:
        writers.progress()
        password.change_etcd("second")
        wait_until(lambda: _said([proxy], "etcd refuses the password of user tenant (etcds"), "a message")
        password.change_etcd("secret")
        writers.progress()
        writers.verify()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"etcd_password": "wrong"}, "authentication failed, invalid user ID or password"),
        ({"etcd_user": "nobody"}, "authentication failed, invalid user ID or password"),
        ({"prefix": "/foreign"}, "permission denied"),
    ],
)
def test_who_may_not_is_told_so(start: Start, etcd: EtcdServer, options: dict[str, str], said: str) -> None:
    allowed = {"prefix": _PREFIX, "etcd_user": "tenant", "etcd_password": "secret"}
    denied = f"etcd denies access to the keys of {options.get('prefix', _PREFIX)}: etcdserver: {said}"
    with pytest.raises(StartFailed, match=f"(?ms)ended with status 1:\n.*^zketcd: {denied}"):
        start(etcd, **(allowed | options))


def test_a_tree_moves_between_etcds_with_users_of_their_own(
    start: Start, etcd: EtcdServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each side is reached with the user of its own file: to follow, call off, promote, seal and list."""
    with EtcdServer("--bcrypt-cost=4") as other:
        admin.enable_authentication(other.endpoint, "south", "other", b"/south/", b"/south0")
        north, south = tmp_path / "north.toml", tmp_path / "south.toml"
        for file, words in (
            (north, (etcd.endpoint, _PREFIX, "tenant", "secret")),
            (south, (other.endpoint, "/south", "south", "other")),
        ):
            names = ("etcd", "prefix", "etcd-user", "etcd-password")
            lines = (f"{name} = {json.dumps(word)}" for name, word in zip(names, words, strict=True))
            file.write_text("\n".join(("[zketcd]", *lines)))
        follow = ["follow", f"config:{north}", "--etcd", other.endpoint, "--prefix", "/south"]
        follow += ["--etcd-user", "south", "--etcd-password", "other"]
        proxy = start(etcd, prefix=_PREFIX, etcd_user="tenant", etcd_password="secret")
        with Client(proxy.port) as client:
            client.create("/a")
        assert main([*follow, "--until-level"]) == 0
        assert main([*follow, "--check"]) == 0

        asyncio.run(_sealed(*tree_in(str(north)), *tree_in(str(south))))
        assert proxy.wait() == 1
        capsys.readouterr()
        assert main(["unseal", "--config", str(north)]) == 1
        assert "use --moved-to" in capsys.readouterr().err
        assert main(["unseal", "--config", str(north), "--moved-to", str(tmp_path / "none")]) == 1
        assert main(["unseal", "--config", str(north), "--moved-to", str(south)]) == 0

        proxy = start(etcd, prefix=_PREFIX, etcd_user="tenant", etcd_password="secret")
        with Client(proxy.port) as client:
            client.create("/late")
        assert main([*follow, "--finish", "--source-lost"]) == 2
        assert "answers: --finish without --source-lost loses nothing" in capsys.readouterr().err
        assert main([*follow, "--finish", "--source-lost", "--force"]) == 0
        assert proxy.wait() == 1
        capsys.readouterr()
        assert main(["lost", *follow[1:]]) == 0
        assert [json.loads(line)["path"] for line in capsys.readouterr().out.splitlines()] == ["/late"]


async def _sealed(here: Access, prefix: str, there: Access, copy: str) -> None:
    """Seal a tree for another one."""
    source, target = here.client(here.tls()), there.client(there.tls())
    try:
        cluster_id = (await target.status(10)).cluster_id
        await seal(source, Keyspace(prefix), Seal(",".join(there.etcd), copy, cluster_id, 1))
    finally:
        await source.close()
        await target.close()
