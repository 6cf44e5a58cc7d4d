"""Clients of the whole servers in these tests are closed at their end."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.console.stage import Stage, staged
from tests.proxy.admin.conftest import _clients_are_closed as _clients_are_closed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    async with staged() as made:
        yield made
