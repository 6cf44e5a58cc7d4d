"""etcd with authentication: tokens that run out or are forgotten, a role for one prefix, wrong passwords."""

import time
from collections.abc import Iterator

import pytest

from lab.client.blocking import CHANGED, EPHEMERAL, Client, events_of
from lab.servers import EtcdServer, StartFailed, wait_until
from tests.faults.conftest import Start
from tests.faults.writers import Writers
from tests.proxy.etcd import admin

_TOKEN_TTL_S = 1
_PREFIX = "/tenant"


@pytest.fixture
def etcd() -> Iterator[EtcdServer]:
    """An etcd where tokens live shortly, and a user may use one prefix."""
    with EtcdServer(f"--auth-token-ttl={_TOKEN_TTL_S}", "--bcrypt-cost=4") as server:
        admin.enable_authentication(server.endpoint, "tenant", "secret", b"/tenant/", b"/tenant0")
        yield server


def test_tokens_that_run_out_are_renewed(start: Start, etcd: EtcdServer) -> None:
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
