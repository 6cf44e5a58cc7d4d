"""Connect requests: new sessions, sessions that go on, and those that cannot."""

import asyncio
from collections.abc import Callable, Sequence
from unittest import mock

import pytest

from codec.jute import Acl
from codec.packets import ConnectRequest
from proxy.handshake import Handshake
from proxy.sessions import PASSWORD_BYTES, Session, Sessions, hash_of, lease_ttl
from tests.fakes.etcd import Fate
from tests.proxy.naive import SetData
from tests.proxy.shell import Shell, shells, until
from tests.proxy.world import INCARNATION, KEYS

_NEW = ConnectRequest(0, 0, 5000, 0, bytes(16), False)


class Guest:
    """A connection that wants a session."""

    session_id = 0

    def __init__(self) -> None:
        self.session: Session | None = None
        self.password = b""
        self.refused = self.closed = self.is_closed = False
        self.is_held_up = False

    def established(self, session: Session, password: bytes) -> None:
        self.session = session
        self.password = password
        session.connection = self

    def refuse(self) -> None:
        self.refused = True

    def close(self) -> None:
        self.closed = True

    def notify(self, kind: int, path: str, zxid: int, acl: Sequence[Acl]) -> None:
        raise AssertionError("nobody watches here")

    @property
    def outcome(self) -> str:
        """What became of the guest."""
        if self.session is not None:
            return "established"
        return "refused" if self.refused else "closed" if self.closed else "nothing"


class Clock:
    def time(self) -> float:
        return 77.0

    def call_later(self, delay: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay, callback)


def _host(shell: Shell, incarnation: str = INCARNATION) -> tuple[Handshake, Sessions]:
    sessions = Sessions(1000, 10000)
    return Handshake(shell.mirror, shell.committer, shell.client, sessions, incarnation, Clock()), sessions


async def _greet(handshake: Handshake, request: ConnectRequest) -> Guest:
    guest = Guest()
    await handshake.greet(guest, request)
    return guest


@pytest.mark.parametrize(("wanted", "timeout"), [(5000, 5000), (1, 1000), (99999, 10000)])
async def test_a_new_session(wanted: int, timeout: int) -> None:
    async with shells() as (store, (shell,)):
        handshake, sessions = _host(shell)
        guest = await _greet(handshake, _NEW._replace(timeout_ms=wanted))
        assert guest.session is not None
        assert (guest.session.timeout_ms, guest.session.heard) == (timeout, 77.0)
        assert len(guest.password) == PASSWORD_BYTES
        assert sessions.get(guest.session.id) is guest.session
        record = shell.mirror.sessions[guest.session.id].value
        assert record == (hash_of(guest.password), timeout, INCARNATION)
        assert store.lease_time_to_live(guest.session.id).granted_ttl == lease_ttl(timeout)
        assert store.lease_time_to_live(guest.session.id).keys == [KEYS.session(guest.session.id)]


async def test_an_id_that_is_taken_is_drawn_again() -> None:
    async with shells() as (_, (shell,)):
        handshake, _ = _host(shell)
        with mock.patch("proxy.handshake.secrets.randbits", side_effect=[0, 1, 99]):
            guest = await _greet(handshake, _NEW)
        assert guest.session is not None
        assert guest.session.id == 100


async def test_a_client_that_left_meanwhile_leaves_a_session_that_runs_out() -> None:
    async with shells() as (_, (shell,)):
        handshake, sessions = _host(shell)
        guest = Guest()
        guest.is_closed = True
        await handshake.greet(guest, _NEW)
        assert guest.session is None
        assert len(sessions) == 1


async def test_a_session_goes_on_with_its_password() -> None:
    async with shells() as (_, (shell,)):
        handshake, sessions = _host(shell)
        first = await _greet(handshake, _NEW)
        assert first.session is not None
        again = ConnectRequest(0, shell.mirror.zxid, 5000, first.session.id, first.password, False)
        second = await _greet(handshake, again)
        assert second.session is first.session
        assert second.password == first.password
        assert first.closed
        assert len(sessions) == 1


@pytest.mark.parametrize("password", [b"wrong", b"", None, bytes(16)])
async def test_a_wrong_password_is_refused_and_drops_the_older_connection(password: bytes | None) -> None:
    async with shells() as (_, (shell,)):
        handshake, sessions = _host(shell)
        first = await _greet(handshake, _NEW)
        assert first.session is not None
        second = await _greet(handshake, ConnectRequest(0, 0, 5000, first.session.id, password, False))
        assert second.outcome == "refused"
        assert first.closed
        assert sessions.get(first.session.id) is first.session
        assert shell.mirror.sessions[first.session.id].value.password_hash == hash_of(first.password)


async def test_a_session_that_is_gone_is_refused() -> None:
    async with shells() as (store, (shell,)):
        handshake, _ = _host(shell)
        first = await _greet(handshake, _NEW)
        assert first.session is not None
        session_id = first.session.id
        store.lease_revoke(session_id)
        await until(lambda: session_id not in shell.mirror.sessions)
        again = await _greet(handshake, ConnectRequest(0, 0, 5000, session_id, first.password, False))
        assert again.outcome == "refused"
        assert (
            await _greet(handshake, ConnectRequest(0, 0, 5000, 4711, bytes(16), False))
        ).outcome == "refused"


async def test_a_session_moves_to_another_proxy_even_if_that_one_has_not_heard_of_it() -> None:
    async with shells(2) as (_, (here, there)):
        handshake, _ = _host(here)
        first = await _greet(handshake, _NEW)
        assert first.session is not None
        there.following.clear()
        moved = ConnectRequest(0, 0, 5000, first.session.id, first.password, False)
        other, sessions = _host(there, "another")
        guest = Guest()
        task = there.tasks.start(other.greet(guest, moved), "greet")
        await until(lambda: not there.client.waiting)
        there.following.set()
        await task
        assert guest.outcome == "established"
        assert sessions.get(first.session.id) is guest.session
        session_id = first.session.id
        await until(lambda: here.mirror.sessions[session_id].value.owner == "another")


async def test_a_client_that_has_seen_more_waits_until_the_mirror_has_too() -> None:
    async with shells(2) as (_, (here, there)):
        here.following.clear()
        there.submit(5, SetData("/a", b"new"))
        await there.settle()
        seen = there.mirror.zxid
        assert here.mirror.zxid < seen
        handshake, _ = _host(here)
        guest = Guest()
        task = here.tasks.start(handshake.greet(guest, _NEW._replace(last_zxid_seen=seen)), "greet")
        await until(lambda: here.committer.outstanding)
        assert guest.outcome == "nothing"
        here.following.set()
        await task
        assert guest.outcome == "established"
        assert here.mirror.zxid > seen


async def test_a_client_that_has_seen_what_never_was_is_sent_away() -> None:
    async with shells() as (_, (shell,)):
        handshake, _ = _host(shell)
        guest = await _greet(handshake, _NEW._replace(last_zxid_seen=1 << 40))
        assert guest.outcome == "closed"


async def test_without_etcd_there_is_no_session() -> None:
    async with shells() as (_, (shell,)):
        handshake, sessions = _host(shell)
        shell.client.unreachable = True
        assert (await _greet(handshake, _NEW)).outcome == "closed"
        assert len(sessions) == 0


async def test_a_full_etcd_opens_no_session() -> None:
    async with shells() as (_, (shell,)):
        handshake, sessions = _host(shell)
        shell.client.fates.append(Fate.NO_SPACE)
        assert (await _greet(handshake, _NEW)).outcome == "closed"
        assert len(sessions) == 0
