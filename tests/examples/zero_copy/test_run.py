"""The program on ZooKeeper and zketcd: good runs, and runs with a wrong replica or a mark taken away."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from codec.client import Request, children, create, delete
from codec.constants import CreateMode
from examples.tree import delete_tree
from examples.zero_copy.host import Host, Settings, World
from examples.zero_copy.marks import Marks
from examples.zero_copy.run import Findings, leading, run
from examples.zero_copy.steps import Step
from examples.zero_copy.storage import Violation
from examples.zero_copy.surroundings import Connecting, Surroundings
from lab.client.meter import Meter
from lab.client.session import Address, Session
from lab.servers.waiting import eventually

pytestmark = pytest.mark.real

_WITHOUT_MERGES = 1_000
"""Parts; with so many to merge at once no part is merged or dropped, so each is used to the end."""


@pytest.fixture(params=["zketcd", "zookeeper"])
def address(request: pytest.FixtureRequest) -> Address:
    """A server's."""
    return Address("127.0.0.1", request.getfixturevalue(f"{request.param}_server").port)


async def run_on(
    address: Address,
    meanwhile: Callable[[World, Session], Awaitable[None]],
    kind: Callable[[World, int], Host] = Host,
    **settings: Any,
) -> Findings:
    """One short run of four hosts, until `meanwhile` is over."""
    worlds: list[World] = []

    def host(world: World, number: int) -> Host:
        worlds.append(world)
        return kind(world, number)

    session = await Session.open(address)
    root = await session.call(create("/zero-copy-", mode=CreateMode.PERSISTENT_SEQUENTIAL))
    try:
        return await run(
            Surroundings([address], root, Meter()),
            hosts=4,
            seconds=0.5,
            seed=3,
            settings=Settings(Connecting(timeout_s=60.0), **settings),
            meanwhile=lambda: meanwhile(worlds[0], session),
            kind=host,
        )
    finally:
        await delete_tree(session, root)
        await session.close()


class Dying(Marks):
    """The host's first fetches die: its session is lost when the temporary directory is marked."""

    deaths = 2

    async def hold(self, step: Step, *which: Any) -> bool:
        held = await super().hold(step, *which)
        if held and self.deaths:
            self.deaths -= 1
            step.session.drop()
        return held


class DyingHost(Host):
    """Its first fetches die."""

    marks_of: type[Marks] = Dying

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.marks = self.marks_of(world.paths, world.storage, self.name)


@pytest.mark.parametrize("hybrid", [False, True])
async def test_a_run(address: Address, hybrid: bool) -> None:
    steps = ["insert", "fetch", "merge", "unmark", "cleaning", *(["copy", "move"] if hybrid else [])]

    async def all_steps(world: World, session: Session) -> None:
        async def done() -> bool:
            return all(world.steps.done[step] for step in steps) and world.storage.deleted > 0

        await eventually(done, f"{steps} and a deletion", 60.0)

    found = await run_on(address, all_steps, DyingHost, hybrid=hybrid, buckets=1 + hybrid)
    assert found.facts["data written"] > found.facts["data deleted"] > 0
    assert found.facts["insert: requests for one"] == 1


async def test_data_that_lose_a_mark_are_noticed(address: Address) -> None:
    async def take_a_mark_away(world: World, session: Session) -> None:
        shared = world.paths.shared

        async def done() -> bool:
            for part in (await session.call(children(shared))).names:
                (identity,) = (await session.call(children(f"{shared}/{part}"))).names
                path = f"{shared}/{part}/{identity}/{part}"
                await session.call(delete(f"{path}/{(await session.call(children(path))).names[0]}"))
                return True
            return False

        await eventually(done, "a mark", 60.0)

    with pytest.raises(Violation) as found:
        await run_on(address, take_a_mark_away, to_merge=_WITHOUT_MERGES)
    assert found.value.invariant == "marked"


class OneLevel(Dying):
    """It cannot distinguish the mark of a fetch that died from that of the part."""

    async def unmark(
        self, step: Step, part: str, identity: str, fence: Request[None], directory: str = ""
    ) -> None:
        async def there() -> bool:
            return await self.is_marked(step, part, identity)

        if directory:
            await eventually(there, "the next fetch", 60.0)
        await super().unmark(step, part, identity, fence)


class CleansWrongly(DyingHost):
    """It takes away the mark of the part."""

    marks_of = OneLevel


async def test_a_replica_that_cleans_wrongly_is_found(address: Address) -> None:
    """What the data themselves show is in test_storage.py."""

    async def a_part_everywhere(world: World, session: Session) -> None:
        async def done() -> bool:
            return all(host.parts for host in world.hosts.values())

        await eventually(done, "a part in S3 for each host", 60.0)

    with pytest.raises(Violation) as found:
        await run_on(address, a_part_everywhere, CleansWrongly, hybrid=True, to_merge=_WITHOUT_MERGES)
    assert found.value.invariant == "tmp-fetch", found.value


def test_the_first_violation_of_many_errors() -> None:
    one, two = Violation("one", "is broken"), Violation("two", "is broken too")
    assert leading(ExceptionGroup("", [OSError(), ExceptionGroup("", [OSError(), one]), two])) is one
    other = OSError()
    assert leading(ExceptionGroup("", [ExceptionGroup("", [other]), OSError()])) is other
