"""Asynchronous generators as plain iterators, which Spark needs."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import TypeVar

_T = TypeVar("_T")


def plain(items: AsyncGenerator[_T]) -> Iterator[_T]:
    """The items, on an event loop of their own. None of them may be None.

    A caller that wants no more of them, for instance since its disk is full, closes what they have opened.
    """
    with asyncio.Runner() as runner:
        try:
            while (item := runner.run(_next(items))) is not None:
                yield item
        finally:
            runner.run(items.aclose())


async def _next(items: AsyncGenerator[_T]) -> _T | None:
    return await anext(items, None)
