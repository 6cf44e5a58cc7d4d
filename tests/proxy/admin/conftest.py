"""Clients of the whole servers in these tests are closed at their end."""

from collections.abc import AsyncIterator

import pytest

from tests.proxy.test_server import Client


@pytest.fixture(autouse=True)
async def _clients_are_closed() -> AsyncIterator[None]:
    yield
    while Client.opened:
        await Client.opened.pop().close()
