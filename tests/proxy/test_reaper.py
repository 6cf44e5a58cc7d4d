"""The reaper on the fake etcd: who does the work, and what it does when a deletion is refused."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

import pytest

from proxy.reaper import Pace, Reaper
from tests.fakes.etcd import Fate
from tests.proxy.naive import Asked, Create, CreateMortal, Delete
from tests.proxy.shell import Shell, shells, until
from tests.proxy.world import INCARNATION

_QUICK = Pace(check_interval=5, max_per_minute=600_000, max_never_used=0)
_DUE = (CreateMortal("/a/c"), Create("/a/c/x"), Delete("/a/c/x"), CreateMortal("/a/t", ttl=1))
_NOT_DUE = (
    CreateMortal("/a/new"),
    CreateMortal("/a/full"),
    Create("/a/full/x"),
    CreateMortal("/a/l", 1 << 30),
)


@asynccontextmanager
async def reaping(
    *asked: Asked,
    pace: Pace = _QUICK,
    proxies: int = 1,
    fates: Sequence[Fate] = (),
    rivals: Collection[str] = (),
) -> AsyncIterator[list[Shell]]:
    """Proxies that reap, each for itself, and what the first has been asked for before."""
    async with shells(proxies) as (_, made):
        for one in asked:
            made[0].submit(1, one)
        await made[0].settle()
        last = asked[-1].path  # type: ignore[union-attr]
        await until(lambda: all(last in shell.mirror.tree.nodes for shell in made))
        made[0].client.fates.extend(fates)
        made[0].mirror.proxies.update(rivals)
        for shell in made:
            reaper = Reaper(shell.mirror, shell.committer, INCARNATION, pace)
            shell.tasks.start(reaper.run(), "reap")
        yield made


def _children(shell: Shell) -> set[str]:
    return set(shell.mirror.tree.nodes["/a"].children or ())


@pytest.mark.parametrize("proxies", [1, 2])
async def test_what_is_due_goes_and_the_rest_stays(proxies: int) -> None:
    """Of two that both take themselves for the one in charge, one finds the nodes gone."""
    async with reaping(*_DUE, *_NOT_DUE, proxies=proxies) as made:
        for shell in made:
            await until(lambda shell=shell: _children(shell) == {"new", "full", "l"})  # type: ignore[misc]
            await shell.settle()


@pytest.mark.parametrize(
    ("living", "in_charge"),
    [
        ((), True),  # not registered yet, since etcd is full
        ((INCARNATION,), True),
        ((INCARNATION, "ffff"), True),
        ((INCARNATION, "0000"), False),
    ],
)
async def test_the_smallest_incarnation_that_lives_does_the_work(
    living: tuple[str, ...], in_charge: bool
) -> None:
    async with shells() as (_, (shell,)):
        shell.mirror.proxies |= set(living)
        assert Reaper(shell.mirror, shell.committer, INCARNATION, _QUICK).is_in_charge is in_charge


async def test_who_comes_to_be_in_charge_takes_over() -> None:
    async with reaping(*_DUE, *_NOT_DUE, rivals={"0000"}) as (shell,):
        assert _children(shell) > {"c", "t"}
        shell.mirror.proxies.remove("0000")
        await until(lambda: _children(shell) == {"new", "full", "l"})


async def test_a_container_that_is_never_used_goes_where_that_is_asked_for() -> None:
    async with reaping(*_NOT_DUE, pace=_QUICK._replace(max_never_used=1)) as (shell,):
        await until(lambda: _children(shell) == {"full", "l"})


async def test_where_etcd_refuses_the_next_look_tries_again(caplog: pytest.LogCaptureFixture) -> None:
    async with reaping(*_DUE, *_NOT_DUE, fates=[Fate.NO_SPACE]) as (shell,):
        await until(lambda: _children(shell) == {"new", "full", "l"})
    assert "cannot delete /a/" in caplog.text
