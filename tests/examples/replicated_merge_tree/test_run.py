"""The program on zketcd: runs with and without losses, and runs in which somebody else destroys something."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from examples.invariants import Violation
from examples.program import Findings, Surroundings
from examples.replicated_merge_tree.run import Shape, run
from examples.replicated_merge_tree.world import Settings
from examples.world import Connecting
from lab.client.meter import Meter
from lab.client.requests import children, create, delete, set_data
from lab.client.session import Address, Session
from lab.servers import ZketcdServer
from lab.servers.waiting import eventually

_SETTINGS = Settings(
    Connecting(patience_s=60.0),
    old_parts_s=0.5,
    cleanup_s=0.5,
    window=20,
    logs_to_keep=10,
)


Destroy = Callable[[Session, str], Awaitable[None]]


async def run_on(
    server: ZketcdServer,
    shape: Shape,
    destroy: Destroy | None = None,
    root: str = "/run",
    settings: Settings = _SETTINGS,
) -> Findings:
    """One short run; `destroy` does something to a table with another session."""
    address = Address("127.0.0.1", server.port)
    session = await Session.open(address)
    await session.call(create(root))
    table = f"{root}/clickhouse/tables/01/events-1"
    try:
        return await run(
            Surroundings([address], root, Meter()),
            shape,
            settings,
            seed=3,
            meanwhile=partial(destroy, session, table) if destroy is not None else None,
        )
    finally:
        await session.close()


async def test_a_run(zketcd_server: ZketcdServer) -> None:
    # A drop is the fourth change: there is time for it, also on a busy machine.
    settings = _SETTINGS._replace(changes_s=0.2)
    found = await run_on(zketcd_server, Shape(hosts=2, seconds=2.0), settings=settings)
    for step in ("insert", "fetch", "merge", "mutate", "mutation", "drop partition", "DDL on all hosts"):
        assert found.facts[f"{step}: done"] > 0
        assert found.facts[f"{step}: requests for one"] >= 1
    assert found.steps > 0
    assert 2 <= found.facts["insert: requests for one"] < 4
    assert found.facts["parts given up"] == 0


async def test_a_run_with_two_tables_and_all_kinds_of_losses(zketcd_server: ZketcdServer) -> None:
    shape = Shape(hosts=3, replicas=2, tables=2, writers=1, rate=40.0, seconds=0.5, losses=4)
    soon_lost = Connecting(session_timeout_ms=4_000, patience_s=60.0)
    found = await run_on(zketcd_server, shape, settings=_SETTINGS._replace(connecting=soon_lost))
    for step in ("clone of a replica", "part check", "search for a lost part"):
        assert found.facts[f"{step}: done"] > 0
    assert found.facts["parts given up"] > 0
    assert found.facts["session: done"] > 3, "a host has lost its session"


async def _a_part_is_deleted(session: Session, table: str) -> None:
    parts = f"{table}/replicas/replica-00/parts"

    async def deleted() -> bool:
        names = (await session.call(children(parts))).names
        if names:
            await session.call(delete(f"{parts}/{max(names)}"))
        return bool(names)

    await eventually(deleted, "a part", 60.0)


async def _a_node_is_left(session: Session, table: str) -> None:
    await session.call(create(f"{table}/temp/left"))


async def _a_replica_is_marked(session: Session, table: str) -> None:
    await session.call(set_data(f"{table}/replicas/replica-00/is_lost", b"1"))


async def _a_lost_part_is_counted(session: Session, table: str) -> None:
    await session.call(set_data(f"{table}/lost_part_count", b"1"))


async def test_what_somebody_else_destroys_is_noticed(zketcd_server: ZketcdServer) -> None:
    destroyers: list[tuple[Destroy, set[str]]] = [
        (
            _a_part_is_deleted,
            {"parts", "lost"},
        ),  # lost: the other replica gave it up
        (_a_node_is_left, {"leaked"}),
        (_a_replica_is_marked, {"lost-replica"}),
        (_a_lost_part_is_counted, {"lost"}),
    ]
    for number, (destroy, invariants) in enumerate(destroyers):
        with pytest.raises(Violation) as found:
            await run_on(zketcd_server, Shape(hosts=2, seconds=0.2), destroy, f"/run{number}")
        assert found.value.invariant in invariants, found.value
