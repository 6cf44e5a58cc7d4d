"""The lease keeper's own logic, on streams that a test plays."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from proxy.etcd import rpc_pb2 as pb
from proxy.etcd.leases import LeaseKeeper
from proxy.etcd.model import EtcdUnknown

Answers = list[tuple[int, int]]


class PlayedStream:
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
    """A keeper that runs, and the streams it opens."""

    def __init__(self, on_alive: Callable[[int, int], None], answer_timeout: float = 60.0) -> None:
        self.opened: asyncio.Queue[PlayedStream] = asyncio.Queue()
        self.keeper = LeaseKeeper(self._open, on_alive, answer_timeout)

    async def _open(self) -> PlayedStream:
        stream = PlayedStream()
        self.opened.put_nowait(stream)
        return stream


@contextlib.asynccontextmanager
async def running(played: Played) -> AsyncIterator[LeaseKeeper]:
    """Run the keeper until the block ends."""
    task = asyncio.get_running_loop().create_task(played.keeper.run())
    try:
        async with asyncio.timeout(20):
            yield played.keeper
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_no_stream_before_there_is_something_to_send() -> None:
    played = Played(lambda lease, ttl: None)
    async with running(played) as keeper:
        await asyncio.sleep(0)
        assert played.opened.empty()
        keeper.send(1)
        stream = await played.opened.get()
        assert await stream.sent.get() == 1
    assert stream.closed


async def test_what_a_broken_stream_left_unanswered_is_sent_again() -> None:
    answers: Answers = []
    answered = asyncio.Event()

    def on_alive(lease: int, ttl: int) -> None:
        answers.append((lease, ttl))
        answered.set()

    played = Played(on_alive)
    async with running(played) as keeper:
        for lease in (1, 2, 2, 3):
            keeper.send(lease)
        stream = await played.opened.get()
        assert [await stream.sent.get() for _ in range(3)] == [1, 2, 3]
        stream.answer(2, 0)
        await answered.wait()
        stream.answers.put_nowait(EtcdUnknown("broken"))
        another = await played.opened.get()
        assert stream.closed
        assert [await another.sent.get() for _ in range(2)] == [1, 3]
        assert answers == [(2, 0)]
        # An answered lease may be asked for again.
        keeper.send(2)
        assert await another.sent.get() == 2


async def test_a_handler_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    answers: asyncio.Queue[int] = asyncio.Queue()

    def on_alive(lease: int, ttl: int) -> None:
        if lease == 1:
            raise RuntimeError("a bug in one session")
        answers.put_nowait(lease)

    played = Played(on_alive)
    async with running(played) as keeper:
        keeper.send(1)
        keeper.send(2)
        stream = await played.opened.get()
        stream.answer(1, 5)
        stream.answer(2, 5)
        assert await answers.get() == 2
    assert "a bug in one session" in caplog.text


async def test_silence_is_taken_for_a_broken_stream() -> None:
    played = Played(lambda lease, ttl: None, answer_timeout=0.05)
    async with running(played) as keeper:
        keeper.send(1)
        stream = await played.opened.get()
        another = await played.opened.get()
        assert stream.distrusted
        assert stream.closed
        assert await another.sent.get() == 1


async def test_an_answer_that_is_no_message_breaks_the_stream_and_not_the_keeper() -> None:
    """Found by fuzzing: the keeper ended, and with it every lease."""
    alive: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    played = Played(lambda lease, ttl: alive.put_nowait((lease, ttl)))
    async with running(played) as keeper:
        keeper.send(7)
        broken = await played.opened.get()
        await broken.sent.get()
        broken.answers.put_nowait(b"\0")
        stream = await played.opened.get()
        assert await stream.sent.get() == 7
        stream.answer(7, 5)
        assert await alive.get() == (7, 5)
