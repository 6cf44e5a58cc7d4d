"""The lease keeper's own logic, on streams that a test plays."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest

from lab.fakes.clock import FakeClock
from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.interface import Etcd
from proxy.etcd.leases import LeaseHolder, LeaseKeeper
from proxy.etcd.model import EtcdUnknown
from proxy.etcd.rpc import MemberStream
from tests.proxy.log.proxies import until


class PlayedStream(MemberStream):
    """A stream whose other end is the test."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[int] = asyncio.Queue()
        self.answers: asyncio.Queue[bytes | EtcdUnknown] = asyncio.Queue()
        self.distrusted = False
        self.closed = False

    def write(self, request: bytes) -> None:
        self.sent.put_nowait(pb.LeaseKeepAliveRequest.FromString(request).id)

    async def listen(self, on_message: Callable[[bytes], None]) -> None:
        while True:
            answer = await self.answers.get()
            if isinstance(answer, EtcdUnknown):
                raise answer
            on_message(answer)

    def distrust(self) -> None:
        self.distrusted = True

    def close(self) -> None:
        self.closed = True

    def answer(self, lease_id: int, ttl: int) -> None:
        response = pb.LeaseKeepAliveResponse(id=lease_id, ttl=ttl)
        self.answers.put_nowait(response.SerializeToString())


class Played:
    """A keeper that runs, the streams it opens, and what it says of leases; it fails for lease 13."""

    def __init__(self, answer_timeout: float = 60.0) -> None:
        self.opened: asyncio.Queue[PlayedStream] = asyncio.Queue()
        self.alive: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self.keeper = LeaseKeeper(self._open, self._on_alive, answer_timeout)

    async def _open(self) -> PlayedStream:
        stream = PlayedStream()
        self.opened.put_nowait(stream)
        return stream

    def _on_alive(self, lease: int, ttl: int) -> None:
        if lease == 13:
            raise RuntimeError("a bug in one session")
        self.alive.put_nowait((lease, ttl))


@contextlib.asynccontextmanager
async def running(answer_timeout: float = 60.0) -> AsyncIterator[Played]:
    """Run a keeper until the block ends."""
    played = Played(answer_timeout)
    task = asyncio.get_running_loop().create_task(played.keeper.run())
    try:
        async with asyncio.timeout(20):
            yield played
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_no_stream_before_there_is_something_to_send() -> None:
    async with running() as played:
        await asyncio.sleep(0)
        assert played.opened.empty()
        played.keeper.send(1)
        stream = await played.opened.get()
        assert await stream.sent.get() == 1
    assert stream.closed


async def test_what_a_broken_stream_left_unanswered_is_sent_again() -> None:
    async with running() as played:
        for lease in (1, 2, 2, 3):
            played.keeper.send(lease)
        stream = await played.opened.get()
        assert [await stream.sent.get() for _ in range(3)] == [1, 2, 3]
        stream.answer(2, 0)
        assert await played.alive.get() == (2, 0)
        stream.answers.put_nowait(EtcdUnknown("broken"))
        another = await played.opened.get()
        assert stream.closed
        assert [await another.sent.get() for _ in range(2)] == [1, 3]
        assert played.alive.empty()
        # An answered lease may be asked for again.
        played.keeper.send(2)
        assert await another.sent.get() == 2


async def test_a_handler_that_fails_ends_the_keeper() -> None:
    """Its owner, and so the process, ends with it."""
    played = Played()
    keeping = asyncio.get_running_loop().create_task(played.keeper.run())
    played.keeper.send(13)
    (await played.opened.get()).answer(13, 5)
    with pytest.raises(RuntimeError, match="a bug"):
        await asyncio.wait_for(keeping, 20)


async def test_silence_is_taken_for_a_broken_stream() -> None:
    async with running(answer_timeout=0.05) as played:
        played.keeper.send(1)
        stream = await played.opened.get()
        another = await played.opened.get()
        assert stream.distrusted
        assert stream.closed
        assert await another.sent.get() == 1


async def test_an_answer_that_is_no_message_breaks_the_stream_and_not_the_keeper() -> None:
    """Found by fuzzing: the keeper ended, and with it every lease."""
    async with running() as played:
        played.keeper.send(7)
        broken = await played.opened.get()
        await broken.sent.get()
        broken.answers.put_nowait(b"\0")
        stream = await played.opened.get()
        assert await stream.sent.get() == 7
        stream.answer(7, 5)
        assert await played.alive.get() == (7, 5)


async def test_an_outage_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    tries = 0

    async def refuse() -> PlayedStream:
        nonlocal tries
        tries += 1
        raise EtcdUnknown("connection refused")

    keeper = LeaseKeeper(refuse, lambda _lease, _ttl: None, 1.0)
    keeper.send(1)
    running = asyncio.get_running_loop().create_task(keeper.run())
    await until(lambda: tries > 2)
    running.cancel()
    assert [line.partition(": ")[2] for line in caplog.messages] == ["connection refused"]


class Granting:
    """An etcd that grants and revokes, and answers keep-alives when the test does."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.revoked: list[int] = []
        self.answer: Callable[[int, int], None]

    def lease_keeper(self, on_alive: Callable[[int, int], None]) -> Callable[[int], None]:
        self.answer = on_alive
        return self.asked.append

    async def lease_grant(self, lease: int, ttl: int, timeout: float) -> int:
        return ttl

    async def lease_revoke(self, lease: int, timeout: float) -> None:
        self.revoked.append(lease)


@pytest.mark.parametrize("answered_at", [14.0, 16.0])
async def test_a_late_answer_may_be_about_the_lease_of_another_process(
    monkeypatch: pytest.MonkeyPatch, answered_at: float
) -> None:
    """The stream sends again what was not answered, and the id may be granted to another one by then."""
    monkeypatch.setattr("proxy.etcd.leases._KEEP_ALIVES", math.inf)
    etcd, clock = Granting(), FakeClock()
    async with LeaseHolder(cast(Etcd, etcd), clock).held(7, 15, is_shared=True) as lost:
        await until(lambda: etcd.asked == [7])
        etcd.answer(7, 15)
        clock.now = 5.0
        await until(lambda: etcd.asked == [7, 7])
        clock.now = answered_at
        etcd.answer(7, 15)
        clock.now = 17.0
        for _ in range(3):
            await asyncio.sleep(0)
        assert lost.done() is (answered_at > 15)
    assert etcd.revoked == ([] if answered_at > 15 else [7])


@pytest.mark.parametrize("ttl", [15, 0])
async def test_a_lease_of_ones_own_lives_until_etcd_says_that_it_has_ended(
    monkeypatch: pytest.MonkeyPatch, ttl: int
) -> None:
    """An election prolongs it, so that it may outlive an outage that is longer than its time."""
    monkeypatch.setattr("proxy.etcd.leases._KEEP_ALIVES", math.inf)
    etcd, clock = Granting(), FakeClock()
    async with LeaseHolder(cast(Etcd, etcd), clock).held(7, 15, is_shared=False) as lost:
        await until(lambda: etcd.asked == [7])
        clock.now = 60.0
        etcd.answer(7, ttl)
        await until(lambda: etcd.asked == [7, 7] if ttl else lost.done())
    assert etcd.revoked == ([7] if ttl else [])
