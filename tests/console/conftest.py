"""Clients of the whole servers in these tests are closed at their end, and so are the tabs of the browser."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.console.stage import Stage, staged
from tests.proxy.admin.conftest import _clients_are_closed as _clients_are_closed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _stage() -> AsyncIterator[Stage]:
    async with staged() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def stage(_stage: Stage) -> AsyncIterator[Stage]:
    yield _stage
    await _stage.browser.close_pages()
