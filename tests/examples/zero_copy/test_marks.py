"""Marks, with a connection that is lost after each of the requests of a step."""

import itertools
from typing import Any, TypeVar

import pytest

from examples.steps import Step
from examples.zero_copy.bucket import Bucket
from examples.zero_copy.marks import Marks
from examples.zero_copy.paths import ZeroCopyPaths
from lab.client.requests import Request, check, children, create, exists, multi
from lab.client.session import Address, ConnectionLost, MultiFailed, Session
from lab.servers import ZketcdServer

T = TypeVar("T")
FENCE = check("/")
PATHS = ZeroCopyPaths("/t")


class Cut(Step):
    """The answer to request number `last` does not arrive."""

    def __init__(self, session: Session, last: int) -> None:
        super().__init__(session)
        self.last = last

    async def call(self, request: Request[T]) -> T:
        answer = await super().call(request)
        self._count()
        return answer

    async def multi(self, *parts: Request[Any]) -> list[Any]:
        answer = await super().multi(*parts)
        self._count()
        return answer

    def _count(self) -> None:
        if self.requests > self.last:
            raise ConnectionLost("cut")


@pytest.fixture
async def session(zketcd_server: ZketcdServer) -> Session:
    found = await Session.open(Address("127.0.0.1", zketcd_server.port))
    await found.call(multi([create(path) for path in PATHS.every()]))
    return found


async def below(session: Session, path: str) -> list[str]:
    return (await session.call(children(path))).names


async def test_data_are_deleted_once_wherever_the_connection_is_lost(session: Session) -> None:
    for last in itertools.count():
        bucket = Bucket()
        marks = Marks(PATHS, bucket, "r1")
        bucket.write("x", frozenset({"row"}))
        await session.call(multi(marks.creation("part", "x", first=True)))
        bucket.marked("x", "r1")
        cut = Cut(session, last)
        try:
            await marks.unmark(cut, "part", "x", FENCE)
        except ConnectionLost:
            await marks.unmark(Step(session), "part", "x", FENCE)
        assert bucket.deleted == 1
        assert await below(session, PATHS.shared) == []
        assert await below(session, PATHS.deleting) == []
        if cut.requests <= last:
            break
    assert last > 3, "every request of the step was the last one once"
    await session.close()


async def test_a_mark_keeps_the_data(session: Session) -> None:
    bucket = Bucket()
    first, second = (Marks(PATHS, bucket, name) for name in ("r1", "r2"))
    bucket.write("x", frozenset({"row"}))
    await session.call(multi(first.creation("part", "x", first=True)))
    bucket.marked("x", "r1")
    step = Step(session)
    assert await second.borrow(step, "part", "x")
    assert not await second.is_marked(step, "part", "x")
    await first.unmark(step, "part", "x", FENCE)
    assert bucket.deleted == 0
    await second.keep(step, "part", "x", FENCE)
    assert await second.is_marked(step, "part", "x")
    bucket.marked("x", "r2")
    assert await second.borrow(step, "part", "x"), "it lasts already"
    await second.unmark(step, "part", "x", FENCE)
    assert bucket.deleted == 1
    assert not await second.borrow(step, "part", "x"), "no mark of data that are gone"
    with pytest.raises(MultiFailed):
        await second.keep(step, "part", "x", FENCE)
    assert await session.call(exists(PATHS.part("part"))) is None
    await session.close()
