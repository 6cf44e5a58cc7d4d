"""The program on zketcd: a run without faults, and one in which another client takes a mark away."""

from collections.abc import Awaitable, Callable

import pytest

from codec.client import children, create, delete
from examples.invariants import Violation
from examples.program import Findings, Surroundings
from examples.world import Connecting
from examples.zero_copy.host import Settings
from examples.zero_copy.run import run
from lab.client.meter import Meter
from lab.client.session import Address, Session
from lab.servers import ZketcdServer
from lab.servers.waiting import eventually

_SHARED = "/run/table/zero_copy_s3/shared"


async def run_on(
    server: ZketcdServer, meanwhile: Callable[[], Awaitable[None]] | None = None, timeout_s: float = 60.0
) -> Findings:
    """One short run of three hosts."""
    return await run(
        Surroundings([Address("127.0.0.1", server.port)], "/run", Meter()),
        hosts=3,
        seconds=1.0,
        seed=3,
        settings=Settings(Connecting(timeout_s=timeout_s)),
        meanwhile=meanwhile,
    )


async def test_a_run(zketcd_server: ZketcdServer) -> None:
    session = await Session.open(Address("127.0.0.1", zketcd_server.port))
    await session.call(create("/run"))
    await session.close()
    found = await run_on(zketcd_server)
    for step in ("insert", "fetch", "merge", "unmark"):
        assert found.facts[f"{step}: done"] > 0
    assert found.facts["data written"] > found.facts["data deleted"] > 0
    assert found.facts["insert: requests for one"] == 1


async def test_data_that_lose_a_mark_are_noticed(zketcd_server: ZketcdServer) -> None:
    session = await Session.open(Address("127.0.0.1", zketcd_server.port))
    await session.call(create("/run"))

    async def take_marks_away() -> None:
        """Of all data that are there: it is not known which will be used to the end."""

        async def done() -> bool:
            taken = False
            for part in (await session.call(children(_SHARED))).names:
                for identity in (await session.call(children(f"{_SHARED}/{part}"))).names:
                    path = f"{_SHARED}/{part}/{identity}"
                    for mark in (await session.call(children(path))).names[:1]:
                        await session.call(delete(f"{path}/{mark}"))
                        taken = True
            return taken

        await eventually(done, "a mark", 60.0)

    try:
        with pytest.raises(Violation) as found:
            await run_on(zketcd_server, take_marks_away)
    finally:
        await session.close()
    assert found.value.invariant in ("marked", "deleted-once", "leaked")
