"""The program on zketcd: a run without faults, and runs in which somebody else destroys something."""

from collections.abc import Awaitable, Callable

import pytest

from examples.client import Address, Session
from examples.invariants import Violation
from examples.member import Connecting
from examples.meter import Meter
from examples.program import Findings, Surroundings
from examples.replicated_merge_tree.host import Settings
from examples.replicated_merge_tree.run import run
from examples.requests import children, create, delete
from tests.harness import ZketcdServer
from tests.harness.waiting import eventually

_REPLICA = "/run/clickhouse/tables/01/events/replicas/replica-00"


async def run_on(
    server: ZketcdServer, meanwhile: Callable[[Session], Awaitable[None]] | None = None
) -> Findings:
    """One short run of two hosts; `meanwhile` does something with another session."""
    address = Address("127.0.0.1", server.port)
    session = await Session.open(address)
    await session.call(create("/run"))

    async def interfere() -> None:
        assert meanwhile is not None
        await meanwhile(session)

    try:
        return await run(
            Surroundings([address], "/run", Meter()),
            hosts=2,
            writers=2,
            seconds=2.0,
            seed=3,
            settings=Settings(Connecting(patience_s=60.0), old_parts_s=0.5, cleanup_s=0.5, window=20),
            meanwhile=interfere if meanwhile is not None else None,
        )
    finally:
        await session.close()


async def test_a_run(zketcd_server: ZketcdServer) -> None:
    found = await run_on(zketcd_server)
    for step in ("insert", "fetch", "merge", "mutate", "mutation", "drop partition", "DDL on all hosts"):
        assert found.facts[f"{step}: done"] > 0
        assert found.facts[f"{step}: requests for one"] >= 1
    assert found.steps > 0
    assert 2 <= found.facts["insert: requests for one"] < 4


async def test_a_part_that_disappears_is_noticed(zketcd_server: ZketcdServer) -> None:
    async def destroy(session: Session) -> None:
        async def deleted() -> bool:
            names = (await session.call(children(f"{_REPLICA}/parts"))).names
            if names:
                await session.call(delete(f"{_REPLICA}/parts/{max(names)}"))
            return bool(names)

        await eventually(deleted, "a part", 60.0)

    with pytest.raises(Violation) as found:
        await run_on(zketcd_server, destroy)
    assert found.value.invariant == "parts"
