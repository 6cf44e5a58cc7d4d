"""Hosts: a session after the other, of which only the last may change anything."""

import asyncio

import pytest

from codec.client import create
from codec.constants import ErrorCode
from examples.member import Member
from examples.runner import forever
from examples.steps import Step
from examples.world import Connecting, World
from lab.client.meter import Meter
from lab.client.session import Address, ConnectionLost, MultiFailed, Session
from lab.servers import ZketcdServer
from lab.servers.waiting import eventually


class Settling(Member):
    settled = 0

    async def settle(self, step: Step) -> None:
        del step
        self.settled += 1


async def test_a_session_fences_the_one_before_it_off(zketcd_server: ZketcdServer) -> None:
    addresses = [Address("127.0.0.1", zketcd_server.port)]
    session = await Session.open(addresses[0])
    await session.call(create("/host"))
    member = Settling(World(addresses, Meter(), Connecting(), 0.1), "host", 0, "/host")
    async with asyncio.TaskGroup() as group:
        holding = group.create_task(forever(member.hold))
        first = await member.session()
        fence = member.fence
        await first.multi(create("/one"), fence)
        first.drop()

        async def has_another() -> bool:
            return (await member.session()) is not first

        await eventually(has_another, "another session", 60.0)
        second = await member.session()
        with pytest.raises(ConnectionLost):
            member.still(Step(first))
        member.still(Step(second))
        with pytest.raises(MultiFailed) as failed:
            await session.multi(create("/two"), fence)  # as if the first one's came late
        assert (failed.value.failed, failed.value.code) == (1, ErrorCode.BAD_VERSION)
        await second.multi(create("/two"), member.fence)
        assert member.settled == 2
        holding.cancel()
    await member.close()
    await session.close()
