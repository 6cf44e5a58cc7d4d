"""How a token is got: which password etcd is asked with, how often, and what is said."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.authenticator import Authenticator
from proxy.etcd.model import EtcdRefused, EtcdUnknown, RefusalKind
from proxy.support.environment import HOST
from tests.proxy.log.proxies import until

_OLD, _NEW = "hunter2secret", "hunter3secret"
_WORDS = "etcdserver: authentication failed, invalid user ID or password"


class Authority:
    """An etcd whose user has a password, and a client of its."""

    def __init__(self, file: Path) -> None:
        self.password = _OLD
        self.file = file
        self.asked: list[tuple[float, str]] = []
        self.hashes = 0.0  # seconds for each password
        self.authenticator = Authenticator("tenant", "", str(file), HOST.clock)
        file.write_text(f"{_OLD}\n")

    @property
    def token(self) -> str:
        return self.authenticator.credentials.token

    async def renew(self, stale: str = "", timeout: float = 20.0) -> None:
        await self.authenticator.renew(stale, timeout, self._ask)

    async def _ask(self, request: bytes) -> str:
        given = pb.AuthenticateRequest.FromString(request)
        assert given.name == "tenant"
        self.asked.append((time.monotonic(), given.password))
        await asyncio.sleep(self.hashes)
        if not self.password:
            return ""
        if given.password != self.password:
            raise EtcdRefused(RefusalKind.PERMISSION, _WORDS)
        return f"{len(self.asked)}.{given.password}"


@pytest.fixture
async def authority(tmp_path: Path) -> AsyncIterator[Authority]:
    authority = Authority(tmp_path / "password")
    yield authority
    await authority.authenticator.close()


async def test_the_file_is_read_for_each_token(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await authority.renew()
    assert (authority.token, caplog.messages) == (f"1.{_OLD}", [])
    authority.file.write_text(_NEW)
    authority.password = _NEW
    await authority.renew(stale=authority.token)
    assert authority.token == f"2.{_NEW}"
    assert caplog.messages == [f"etcd accepts the password of user tenant in {authority.file}"]
    await authority.renew(stale="1.old")
    assert len(authority.asked) == 2, "there is a newer token than that one"


async def test_a_password_that_never_was_right_is_refused_at_once(authority: Authority) -> None:
    authority.password = _NEW
    with pytest.raises(EtcdRefused, match="authentication failed"):
        await authority.renew()


async def test_the_file_is_late(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    await authority.renew()
    stale, authority.password = authority.token, _NEW
    waiting = [asyncio.ensure_future(authority.renew(stale)) for _ in range(9)]
    with pytest.raises(
        EtcdUnknown, match=r"etcd refuses the password of user tenant in .*\(etcdserver: auth"
    ):
        await authority.renew(stale, timeout=0.4)
    assert len(authority.asked) == 2, "an etcd with bcrypt needs 0.1 s of a processor for each"
    authority.file.write_text(_NEW)
    began = time.monotonic()
    await asyncio.gather(*waiting)
    assert time.monotonic() - began < 0.9
    assert [password for _, password in authority.asked] == [_OLD, _OLD, _NEW]
    assert [line.rpartition(": ")[2] for line in caplog.messages] == [
        "trying again",
        f"etcd accepts the password of user tenant in {authority.file}",
    ]
    assert "hunter" not in caplog.text


async def test_authentication_is_turned_on_with_another_password(authority: Authority) -> None:
    authority.password = ""
    await authority.renew()
    assert not authority.authenticator.credentials.incomplete
    authority.password = _NEW
    with pytest.raises(EtcdUnknown, match="etcd refuses the password"):
        await authority.renew(timeout=0.2)
    authority.file.write_text(_NEW)
    await authority.renew()
    assert authority.token.endswith(_NEW)


async def test_etcd_is_late(authority: Authority) -> None:
    await authority.renew()
    authority.file.write_text(_NEW)
    waiting = asyncio.ensure_future(authority.renew(authority.token))
    await asyncio.sleep(0.3)
    authority.password = _NEW
    await waiting
    (first, _), (second, _) = authority.asked[1:]
    assert second - first > 0.9


async def test_a_file_that_is_gone_for_a_moment(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    await authority.renew()
    authority.file.unlink()
    with pytest.raises(EtcdUnknown, match="password: No such file or directory"):
        await authority.renew(authority.token, timeout=0.1)
    assert not authority.token
    authority.file.write_text(_OLD)
    await authority.renew(stale="1.old")
    assert authority.token == f"2.{_OLD}"
    assert (
        f"--etcd-password-file {authority.file}: No such file or directory: trying again" in caplog.messages
    )


async def test_an_etcd_that_needs_longer_for_a_hash_than_requests_wait(authority: Authority) -> None:
    """A request that gives up must not make etcd begin again."""
    authority.hashes = 0.5
    waiting = [asyncio.ensure_future(authority.renew(timeout=0.2)) for _ in range(3)]
    await asyncio.sleep(0.1)
    later = asyncio.ensure_future(authority.renew(timeout=2))
    for each in waiting:
        with pytest.raises(EtcdUnknown, match="etcd gave no token in 0"):
            await each
    await later
    assert authority.token == f"1.{_OLD}"
    assert len(authority.asked) == 1


async def test_requests_under_way_end_with_the_client(authority: Authority) -> None:
    authority.hashes = 60
    waiting = asyncio.ensure_future(authority.renew())
    await asyncio.sleep(0.1)
    await authority.authenticator.close()
    with pytest.raises(EtcdUnknown):
        await waiting


async def test_another_obstacle_is_news(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    """An operator who mends one mistake by another looks at the log."""
    await authority.renew()
    waiting = asyncio.ensure_future(authority.renew(authority.token))
    authority.password = _NEW
    for count, content in enumerate((_OLD, "", "a\nb"), 1):
        authority.file.write_text(content)
        await until(lambda: len(caplog.messages) == count)  # noqa: B023
    authority.file.write_text(_NEW)
    await waiting
    assert [line.partition("password")[2].removesuffix(": trying again") for line in caplog.messages] == [
        f" of user tenant in {authority.file} ({_WORDS})",
        f"-file {authority.file}: it is empty",
        f"-file {authority.file}: it has more than one line",
    ]
    authority.password = "fourth"
    with pytest.raises(EtcdUnknown):
        await authority.renew(authority.token, timeout=0.2)
    assert caplog.messages[-1].startswith("etcd refuses the password"), "it was accepted in between"
