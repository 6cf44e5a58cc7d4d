"""How a token is got: which password etcd is asked with, how often, and what is said."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lab.fakes.clock import FakeClock
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.authenticator import Authenticator
from proxy.etcd.model import EtcdRefused, EtcdUnknown, RefusalKind
from tests.proxy.log.proxies import until

_OLD, _NEW = "hunter2secret", "hunter3secret"
_WORDS = "etcdserver: authentication failed, invalid user ID or password"


class Authority:
    """An etcd whose user has a password, and a client of its, whose clock stands still."""

    def __init__(self, file: Path) -> None:
        self.password = _OLD
        self.file = file
        self.asked: list[str] = []  # passwords
        self.hashed = asyncio.Event()  # etcd has the hash of the password
        self.hashed.set()
        self.clock = FakeClock(1000.0)
        self.authenticator = Authenticator("tenant", "", str(file), self.clock)
        self.write(f"{_OLD}\n")

    def write(self, password: str) -> None:
        """Replace the file, which another thread may be reading."""
        new = self.file.with_suffix(".new")
        new.write_text(password)
        new.replace(self.file)

    @property
    def token(self) -> str:
        return self.authenticator.credentials.token

    async def renew(self, stale: str = "", timeout: float = 20.0) -> None:
        await self.authenticator.renew(stale, timeout, self._ask)

    async def _ask(self, request: bytes) -> str:
        given = pb.AuthenticateRequest.FromString(request)
        assert given.name == "tenant"
        self.asked.append(given.password)
        await self.hashed.wait()
        if not self.password:
            return ""
        if given.password != self.password:
            raise EtcdRefused(RefusalKind.PERMISSION, _WORDS)
        return f"{len(self.asked)}.{given.password}"

    async def looks(self) -> None:
        """Wait until the file was looked at again: each look at a refused password asks the clock."""
        before = self.clock.looks
        await until(lambda: self.clock.looks >= before + 6)

    async def obstacle(self, stale: str = "") -> str:
        """Why there is no token, as a request hears it that gives up."""
        waiting = asyncio.ensure_future(self.renew(stale))
        await until(lambda: bool(self.authenticator._obstacle) or waiting.done())
        with pytest.raises(EtcdUnknown) as unknown:
            await self.renew(stale, timeout=0.0)
        waiting.cancel()
        return unknown.value.message


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
    authority.write(_NEW)
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
    said = await authority.obstacle(stale)
    assert re.match(r"etcd refuses the password of user tenant in .*\(etcdserver: auth", said)
    await authority.looks()
    assert len(authority.asked) == 2, "an etcd with bcrypt needs 0.1 s of a processor for each"
    authority.write(_NEW)
    await asyncio.gather(*waiting)  # at once: the time to ask again for the old one has not come
    assert authority.asked == [_OLD, _OLD, _NEW]
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
    assert (await authority.obstacle()).startswith("etcd refuses the password")
    authority.write(_NEW)
    await authority.renew()
    assert authority.token.endswith(_NEW)


async def test_etcd_is_late(authority: Authority) -> None:
    await authority.renew()
    authority.write(_NEW)
    waiting = asyncio.ensure_future(authority.renew(authority.token))
    await until(lambda: authority.asked[1:] == [_NEW])
    authority.password = _NEW
    authority.clock.now += 0.9
    await authority.looks()
    assert len(authority.asked) == 2
    authority.clock.now += 0.2
    await waiting
    assert authority.asked[1:] == [_NEW, _NEW]


async def test_a_file_that_is_gone_for_a_moment(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    await authority.renew()
    authority.file.unlink()
    said = await authority.obstacle(authority.token)
    assert said.endswith("password: No such file or directory")
    assert not authority.token
    authority.write(_OLD)
    await authority.renew(stale="1.old")
    assert authority.token == f"2.{_OLD}"
    assert (
        f"--etcd-password-file {authority.file}: No such file or directory: trying again" in caplog.messages
    )


async def test_an_etcd_that_needs_longer_for_a_hash_than_requests_wait(authority: Authority) -> None:
    """A request that gives up must not make etcd begin again."""
    authority.hashed.clear()
    waiting = [asyncio.ensure_future(authority.renew(timeout=0.2)) for _ in range(3)]
    await until(lambda: bool(authority.asked))
    later = asyncio.ensure_future(authority.renew())
    for each in waiting:
        with pytest.raises(EtcdUnknown, match="etcd gave no token in 0"):
            await each
    authority.hashed.set()
    await later
    assert authority.token == f"1.{_OLD}"
    assert len(authority.asked) == 1


async def test_requests_under_way_end_with_the_client(authority: Authority) -> None:
    authority.hashed.clear()
    waiting = asyncio.ensure_future(authority.renew())
    await until(lambda: bool(authority.asked))
    await authority.authenticator.close()
    with pytest.raises(EtcdUnknown):
        await waiting


async def test_another_obstacle_is_news(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    """An operator who mends one mistake by another looks at the log."""
    await authority.renew()
    waiting = asyncio.ensure_future(authority.renew(authority.token))
    authority.password = _NEW
    for count, content in enumerate((_OLD, "", "a\nb"), 1):
        authority.write(content)
        await until(lambda: len(caplog.messages) == count)  # noqa: B023
    authority.write(_NEW)
    await waiting
    assert [line.partition("password")[2].removesuffix(": trying again") for line in caplog.messages] == [
        f" of user tenant in {authority.file} ({_WORDS})",
        f"-file {authority.file}: it is empty",
        f"-file {authority.file}: it has more than one line",
    ]
    authority.password = "fourth"
    await authority.obstacle(authority.token)
    assert caplog.messages[-1].startswith("etcd refuses the password"), "it was accepted in between"
