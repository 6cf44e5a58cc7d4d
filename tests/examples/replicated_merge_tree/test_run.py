"""The program on zketcd: a run as it is, and runs in which another client destroys something."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from codec.client import children, create, delete
from examples.invariants import Violation
from examples.program import Findings, Surroundings
from examples.replicated_merge_tree.run import Shape, run
from examples.world import Connecting
from lab.client.meter import Meter
from lab.client.session import Address, Session
from lab.servers import ZketcdServer
from lab.servers.waiting import eventually

Destroy = Callable[[Session, str], Awaitable[None]]


async def run_on(server: ZketcdServer, shape: Shape, destroy: Destroy | None, root: str) -> Findings:
    """One short run; `destroy` does something to a table with another session."""
    address = Address("127.0.0.1", server.port)
    session = await Session.open(address)
    await session.call(create(root))
    table = f"{root}/clickhouse/tables/01/events-1"
    meanwhile = partial(destroy, session, table) if destroy is not None else None
    try:
        return await run(
            Surroundings([address], root, Meter()),
            shape,
            Connecting(patience_s=60.0 if destroy is None else 3.0),
            seed=3,
            meanwhile=meanwhile,
        )
    finally:
        await session.close()


async def test_a_run(zketcd_server: ZketcdServer) -> None:
    found = await run_on(zketcd_server, Shape(hosts=3, replicas=2, tables=2, seconds=1.0), None, "/run")
    for step in ("insert", "copy of the log", "fetch", "DDL, all hosts", "DDL, each host"):
        assert found.facts[f"{step}: done"] > 0
        assert found.facts[f"{step}: requests for one"] >= 1
    assert found.steps > 0
    assert 2 <= found.facts["insert: requests for one"] < 4


async def _a_part_is_deleted(session: Session, table: str) -> None:
    parts = f"{table}/replicas/replica-00/parts"

    async def deleted() -> bool:
        names = (await session.call(children(parts))).names
        if names:
            await session.call(delete(f"{parts}/{max(names)}"))
        return bool(names)

    await eventually(deleted, "a part", 60.0)


async def _a_node_is_left(session: Session, table: str) -> None:
    await session.call(create(f"{table}/replicas/replica-00/queue/left"))


async def _a_block_is_forgotten(session: Session, table: str) -> None:
    async def deleted() -> bool:
        names = (await session.call(children(f"{table}/blocks"))).names
        if names:
            await session.call(delete(f"{table}/blocks/{max(names)}"))
        return bool(names)

    await eventually(deleted, "a block", 60.0)


@pytest.mark.parametrize(
    ("destroy", "invariants"),
    [
        (_a_part_is_deleted, {"parts", "rest"}),  # rest: the other replica could not fetch it any more
        (_a_node_is_left, {"leaked"}),
        (_a_block_is_forgotten, {"deduplication"}),
    ],
)
async def test_what_somebody_else_destroys_is_noticed(
    zketcd_server: ZketcdServer, destroy: Destroy, invariants: set[str]
) -> None:
    with pytest.raises(Violation) as found:
        await run_on(zketcd_server, Shape(hosts=2, seconds=0.2), destroy, f"/run{destroy.__name__}")
    assert found.value.invariant in invariants, found.value
