"""Real ZooKeeper under the clients of the torture: its histories pass the checker.

Else the checker asks for more than ZooKeeper promises. proof/torture does the same to zketcd.
"""

import asyncio

import pytest

from lab.servers.waiting import eventually
from proof.history import History, check
from proof.history.records import Event, Invoked
from proof.simulation.clients import Client
from proof.torture.real import RealAddress, RealClock
from tests.compat.conftest import real_zookeeper

pytestmark = pytest.mark.real

_CLIENTS = 5
_OPERATIONS = 1_000
_TIMEOUT_MS = 6_000


async def recorded(port: int) -> History:
    """What several clients see until their sessions are closed."""
    clock, history = RealClock(1), History()
    errors: list[str] = []
    clock.on_error = errors.append
    async with asyncio.TaskGroup() as group:
        address, loop = RealAddress("zookeeper", port, group), asyncio.get_running_loop()
        clients = [
            Client(clock, loop, f"client{number}", [address], history, _TIMEOUT_MS)
            for number in range(_CLIENTS)
        ]
        for client in clients:
            client.think = 0.005
            group.create_task(client.run())

        async def enough() -> bool:
            return sum(client.operations for client in clients) > _OPERATIONS

        await eventually(enough, "requests", 60)
        for client in clients:
            client.retire()
            client.urge()

        async def closed() -> bool:
            return not any(client.session for client in clients)

        await eventually(closed, "the ends of the sessions", 60)
        for client in clients:
            client.stopped = True
    assert errors == []
    return history


async def test_what_real_zookeeper_shows_is_right() -> None:
    with real_zookeeper() as server:
        history = await recorded(server.port)
    assert check(history) == []
    assert sum(isinstance(record, Event) for record in history.records) > 50
    kinds = {type(record.request).__name__ for record in history.records if isinstance(record, Invoked)}
    assert {"Create", "Delete", "SetData", "Multi", "Sync", "GetData", "AddWatch", "CloseSession"} <= kinds
