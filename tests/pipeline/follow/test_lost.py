"""A copy that is completed without its source, and what is done when the source is back."""

import asyncio
import contextlib
import json
import re
from unittest import mock

import pytest

from codec import client as zk
from codec.constants import CreateMode
from codec.jute import Acl
from lab.fakes.clock import FakeClock
from lab.fakes.etcd import FakeEtcdClient
from lab.servers.waiting import eventually
from pipeline.errors import Failure
from pipeline.etcd.limits import Limits
from pipeline.follow import retrying as retrying_module
from pipeline.follow import target
from pipeline.follow.copying import follow
from pipeline.follow.from_etcd import InEtcd
from pipeline.follow.lost import list_lost, promote, seal_source
from pipeline.follow.options import Options
from pipeline.follow.retrying import retrying
from pipeline.follow.source import OtherSource
from pipeline.follow.target import position_of
from proxy.etcd.model import Get
from proxy.log.load import start
from proxy.log.record import TreeSealed
from schema.entry import Kind, Request, encode_level
from schema.record import Seal
from schema.zxids import epoch_at, next_epoch
from tests.pipeline.follow.running import Stopped, at_each_txn
from tests.pipeline.follow.test_copying import KEYS, World
from tests.proxy.log.trees import CLOCK, Tree, asked, created

WHERE = Seal("http://two", "/copy", 2, 0)


@pytest.fixture
async def world() -> World:
    """A copy that is level, and a source that goes on."""
    world = World()
    world.etcd.store.cluster_id = 2
    await world.tree.make("a")
    session = world.tree.session("a")
    await world.tree.send("a", [created(session, "/mine", flags=1)])
    await world.write()
    await world.level()
    return world


async def listed(world: World) -> list[dict[str, object]]:
    lines: list[str] = []
    await list_lost(world.source, world.etcd, KEYS, lines.append)
    return [json.loads(line) for line in lines]


async def test_the_copy_goes_on_without_the_source(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    session = world.tree.session("a")
    await world.write(1)
    await world.tree.send(
        "a",
        [
            asked(session, zk.set_data("/n1", b"\xff", -1)),
            asked(session, zk.set_data("/none", b"refused", -1)),
            created(session, "/mine/x"),
            created(session, "/e", b"text", flags=1),
            asked(session, zk.delete("/n2")),
            asked(session, zk.set_acl("/n3", (Acl(1, "world", "anyone"),), -1)),
        ],
    )
    await promote(world.etcd, KEYS, Limits(), clock=FakeClock(1.8e9))
    told = capsys.readouterr().out
    assert re.match(
        r"etcd://one/t is lost: its last change here has zxid 0x7, of 20\S+Z, after 7 entries", told
    )
    machine = (await start.load_as_of(world.etcd, KEYS)).machine
    assert (machine.zxid, machine.sessions) == (next_epoch(epoch_at(1.8e9)), {})
    finished = f"finished: zxids go on at 0x{machine.zxid:x}\n"
    assert f"sessions: 1 ended, with their ephemerals\n{finished}" in told
    assert "/n5" in machine.tree.nodes
    assert not {"/mine", "/n6", "/e"} & machine.tree.nodes.keys()
    await promote(world.etcd, KEYS, Limits())  # it is already
    assert capsys.readouterr().out == finished

    assert [each["path"] for each in await listed(world)] == ["/n6", "/n1", "/e", "/n2", "/n3"]
    assert "is not sealed: there may be more" in capsys.readouterr().err
    position = await position_of(world.etcd, KEYS)
    assert position is not None
    assert position.origin is not None
    await seal_source(world.client, world.tree.keys, "one", position.origin, WHERE)
    assert "one is sealed at position" in capsys.readouterr().out
    with pytest.raises(TreeSealed):
        await start.load_as_of(world.client, world.tree.keys)
    made, changed, ephemeral, gone, acl = await listed(world)
    assert not capsys.readouterr().err
    assert made == {
        "zxid": 8,
        "time": CLOCK,
        "operation": "CREATE",
        "session": f"0x{session:x}",
        "change": "created",
        "path": "/n6",
        "version_before": None,
        "version_after": 0,
        "data": "6",
        "data_base64": None,
        "acl": [[31, "world", "anyone"]],
        "ephemeral": False,
        "container": False,
        "ttl": 0,
    }
    assert (changed["change"], changed["data"], changed["data_base64"]) == ("set", None, "/w==")
    assert (ephemeral["zxid"], ephemeral["ephemeral"]) == (12, True)
    assert (gone["change"], gone["version_after"]) == ("deleted", None)
    assert (acl["change"], acl["acl"]) == ("setACL", [[1, "world", "anyone"]])


async def test_a_container_is_named(world: World) -> None:
    session = world.tree.session("a")
    await world.tree.send("a", [asked(session, zk.create("/container", b"", CreateMode.CONTAINER))])
    await promote(world.etcd, KEYS, Limits())
    (made,) = await listed(world)
    assert [made[each] for each in ("path", "container", "ttl", "ephemeral")] == [
        "/container",
        True,
        0,
        False,
    ]


async def test_a_running_follower_is_stopped(world: World) -> None:
    running = asyncio.create_task(follow(world.source, world.etcd, KEYS, Options()))
    await world.write(1)

    async def reached() -> bool:
        position = await position_of(world.etcd, KEYS)
        return position is not None and position.zxid == 8

    await eventually(reached, "it follows", 60)
    await promote(FakeEtcdClient(world.etcd.store), KEYS, Limits())
    await world.write(1)
    with pytest.raises(Failure, match="has taken /copy over"):
        await asyncio.wait_for(running, 60)
    assert "/n7" not in (await start.load_as_of(world.etcd, KEYS)).machine.tree.nodes


async def test_the_sources_proxies_stop_before_the_copy_is_served(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A follower that a supervisor starts again meanwhile does not take the copy over."""
    signing = asyncio.create_task(follow(world.source, world.etcd, KEYS, Options(standby_within=7)))

    async def signed() -> bool:
        return bool((await world.client.range(Get(world.tree.keys.heard), 1)).kvs)

    await eventually(signed, "it has signed", 60)
    await target.resume(world.etcd, KEYS)
    with pytest.raises(Failure, match="has taken /copy over"):
        await asyncio.wait_for(signing, 60)
    waits: list[float] = []
    sleep = asyncio.sleep

    async def wait(seconds: float) -> None:
        if seconds < 1 or waits:
            return await sleep(0)
        waits.append(seconds)
        with pytest.raises(
            Failure, match="is being completed without its source: run --finish --source-lost"
        ):
            await follow(world.source, world.etcd, KEYS, Options(standby_within=5))
        raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", wait)
    with pytest.raises(asyncio.CancelledError):
        await promote(world.etcd, KEYS, Limits())
    assert 8 <= waits[0] < 9
    assert "waiting 8 s, until the source's proxies do not answer any more" in capsys.readouterr().err
    position = await position_of(world.etcd, KEYS)
    assert position is not None
    assert not position.finished
    await promote(world.etcd, KEYS, Limits())
    assert "finished: zxids go on at" in capsys.readouterr().out


@pytest.mark.parametrize("counts", [False, True])
async def test_killed_at_any_txn(counts: bool) -> None:
    for killed_in in at_each_txn(counts=counts, more_than=2):
        world = World()
        await world.tree.make("a")
        await world.write()
        await world.level()
        with contextlib.suppress(Stopped):
            await promote(killed_in(world.etcd.store), KEYS, Limits())
        await promote(world.etcd, KEYS, Limits())
        machine = (await start.load_as_of(world.etcd, KEYS)).machine
        assert (machine.zxid & 0xFFFFFFFF, len(machine.tree.nodes)) == (0, 9)


async def test_more_ephemerals_than_an_entry_holds(world: World) -> None:
    session = world.tree.session("a")
    names = [f"/{'e' * 50}{number:x}{number * 7919:x}" for number in range(200)]
    await world.tree.send("a", [created(session, name, flags=1) for name in names])
    await world.level()
    await promote(world.etcd, KEYS, Limits(max_request_bytes=5000))
    machine = (await start.load_as_of(world.etcd, KEYS)).machine
    assert (len(machine.tree.nodes), machine.sessions) == (9, {})


async def test_the_source_is_sealed_when_it_is_back(world: World) -> None:
    world.client.unreachable = True
    await promote(world.etcd, KEYS, Limits())
    position = await position_of(world.etcd, KEYS)
    assert position is not None
    assert position.origin is not None
    back = retrying(world.client, "the source's etcd")
    with mock.patch.object(retrying_module, "RETRY", 0.001):
        sealing = asyncio.create_task(seal_source(back, world.tree.keys, "one", position.origin, WHERE))
        await asyncio.sleep(0.05)
        assert not sealing.done()
        world.client.unreachable = False
        await asyncio.wait_for(sealing, 60)
    world.client.store.cluster_id = 9
    with pytest.raises(OtherSource, match="it is not sealed"):
        await seal_source(world.client, world.tree.keys, "one", position.origin, WHERE)


async def test_another_tree_of_the_sources_etcd_is_not_sealed(world: World) -> None:
    """That night somebody types its prefix."""
    other = Tree(world.client, "/billing")
    await other.make("b")
    is_other = "has the prefix /billing, and the copy has followed /t"
    with pytest.raises(OtherSource, match=f"{is_other}: nothing was changed"):
        await promote(world.etcd, KEYS, Limits(), other.keys)
    position = await promote(world.etcd, KEYS, Limits(), world.tree.keys)
    assert position.origin is not None
    with pytest.raises(OtherSource, match=f"{is_other}: it is not sealed"):
        await seal_source(world.client, other.keys, "etcd://one/billing", position.origin, WHERE)
    assert (await other.record()).seal is None
    with pytest.raises(OtherSource, match=is_other):
        await list_lost(InEtcd("etcd://one/billing", world.client, other.keys), world.etcd, KEYS, print)


async def test_what_is_refused(world: World) -> None:
    with pytest.raises(Failure, match="is no copy of another zketcd that is complete"):
        await listed(world)
    with pytest.raises(Failure, match="/t does not follow another zketcd"):
        await promote(world.client, world.tree.keys, Limits())
    await promote(world.etcd, KEYS, Limits())
    for _ in range(3):
        await world.write(40)
        await world.tree.snapshot("a")
    with pytest.raises(Failure, match="does not have all since then: "):
        await listed(world)


async def test_nothing_is_lost_in_a_move(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    await follow(world.source, world.etcd, KEYS, Options(finish=True, address=WHERE.etcd))
    assert await listed(world) == []
    assert "etcd://one/t has no change that /copy lacks" in capsys.readouterr().err
    position = await promote(world.etcd, KEYS, Limits())
    assert position.origin is not None
    await seal_source(world.client, world.tree.keys, "one", position.origin, WHERE)
    told = capsys.readouterr()
    assert "one is sealed at position" in told.out
    assert "not sealed yet" not in told.err


async def test_a_level_of_a_later_release(world: World) -> None:
    await promote(world.etcd, KEYS, Limits())
    await world.tree.send("a", [Request(Kind.LEVEL, 0, 0, (), encode_level(99))])
    with pytest.raises(Failure, match=r"etcd://one/t: .* start a newer release"):
        await listed(world)
