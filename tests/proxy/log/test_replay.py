"""Applying a catch-up in slices, up to a position or a number of entries."""

import asyncio
from unittest import mock

from codec import client as zk
from proxy.log import slices
from proxy.log.follow.catch_up import Caught, read_missed
from proxy.log.load.replay import Place, Replay
from proxy.state import capture
from proxy.state.machine import Machine
from schema.entry import Entry, Request
from tests.proxy.log.trees import Tree, asked, created, pages_of


async def make() -> tuple[Tree, Caught]:
    tree = await Tree().make("a")
    session = tree.session("a")
    await tree.send("a", [created(session, f"/{number}") for number in range(100)])
    await tree.send("a", [created(session, "/late")], number=5)
    await tree.send("a", [], number=3)
    await tree.send("a", [], number=4)
    await tree.send("a", [created(session, "/never")], number=7)
    return tree, await read_missed(tree.etcd, tree.keys, {}, 0)


async def test_others_have_the_loop_meanwhile() -> None:
    tree, caught = await make()
    machine = capture.new_machine(1)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.get_running_loop().create_task(other())
    applied: list[int] = []
    with mock.patch.object(slices, "SLICE", 0):
        await Replay(tree.keys, machine, caught, applied.append).run(caught.revision)
    task.cancel()
    assert turns > 100
    assert sum(applied) == 5
    assert pages_of(machine) == pages_of(tree.ran())


async def test_a_replay_may_stop_and_go_on() -> None:
    tree, caught = await make()
    machine = capture.new_machine(1)
    replay = Replay(tree.keys, machine, caught, lambda _: None)
    for entry in caught.entries:
        await replay.run(entry.mod_revision)
        assert pages_of(machine) == pages_of(tree.ran(entry.mod_revision))
    assert [tree.keys.parse(kv.key).number for kv in replay.rest()] == [7]
    assert replay.requests == 102
    assert replay.bytes > 200


async def test_a_multi_counts_as_its_parts() -> None:
    """By its few bytes a snapshot would be due after hours of replay."""
    tree = await Tree().make("a")
    await tree.create("a", "/x")
    multi = asked(tree.session("a"), zk.multi([zk.set_data("/x", b"") for _ in range(1000)]))
    await tree.send("a", [multi])
    await tree.send("a", [multi])
    caught = await read_missed(tree.etcd, tree.keys, {}, 0)
    replay = Replay(tree.keys, capture.new_machine(1), caught, lambda _: None)
    await replay.run(caught.revision)
    assert replay.requests == 2004
    assert replay.bytes < 2000


async def test_somebody_else_may_execute_the_requests() -> None:
    tree, caught = await make()
    machine = capture.new_machine(1)
    places: list[Place] = []

    def execute(machine: Machine, entry: Entry, request: Request, place: Place) -> None:
        assert entry.requests[place.request] is request
        places.append(place)
        machine.execute(request)

    await Replay(tree.keys, machine, caught, lambda _: None, execute).run(caught.revision)
    assert pages_of(machine) == pages_of(tree.ran())
    assert [place[1:] for place in places] == [
        ("a", 1, 0),
        *(("a", 2, request) for request in range(100)),
        ("a", 5, 0),
    ]
    positions = [entry.mod_revision for entry in caught.entries]
    assert [place.position for place in places] == [positions[0], *[positions[1]] * 100, positions[2]]
