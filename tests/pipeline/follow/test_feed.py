"""Readers of the feed of changes that go on in a copy."""

from typing import Any

import pytest

from archive.past.feed import Gone
from codec import client as zk
from codec.jute import Acl
from pipeline.etcd.limits import Limits
from pipeline.follow.copying import follow
from pipeline.follow.lost import promote
from pipeline.follow.options import Options
from pipeline.follow.target import position_of
from tests.archive.test_feed import lines_in
from tests.pipeline.follow.test_copying import KEYS, World
from tests.proxy.log.trees import asked


@pytest.fixture
async def world() -> World:
    """A copy that is level."""
    world = World()
    world.etcd.store.cluster_id = 2
    await world.tree.make("a")
    await world.write(2)
    await world.level()
    return world


async def finish(world: World) -> None:
    """Move the tree on purpose."""
    options = Options(finish=True, timeout=60.0, answer_within=0.0)
    await follow(world.source, world.etcd, KEYS, options)


async def source_lines(world: World, since: int, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    return (await lines_in(world.client, "/t", f"0x{since:x}", monkeypatch))[0]


async def test_a_reader_goes_on_within_a_multi(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world.tree.ran().zxid
    parts = [zk.create(path, b"") for path in ("/z", "/a", "/m")]
    await world.tree.send("a", [asked(world.tree.session("a"), zk.multi(parts))])
    there = await source_lines(world, before, monkeypatch)
    assert [line["path"] for line in there] == ["/z", "/a", "/m"]
    await world.level()
    await finish(world)
    for done, line in enumerate(there, 1):
        here, _ = await lines_in(world.etcd, "/copy", line["id"], monkeypatch)
        missing = {line["path"] for line in there[done:]}
        assert missing <= {line["path"] for line in here if line["change"] == "created"}
        # Also a reader that breaks off here again, behind whichever line.
        for behind, again in enumerate(here, 1):
            rest, _ = await lines_in(world.etcd, "/copy", again["id"], monkeypatch)
            assert rest[len(rest) - len(here) + behind :] == here[behind:]


async def test_who_has_read_what_is_lost_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    last = world.tree.ran().zxid
    await world.write(3)
    lines = await source_lines(world, last, monkeypatch)
    epoch = (await promote(world.etcd, KEYS, Limits())).zxid
    for line in lines:
        with pytest.raises(Gone, match=f"all that its source had: .* behind 0x{last:x} is undone") as gone:
            await lines_in(world.etcd, "/copy", line["id"], monkeypatch)
        assert gone.value.oldest == epoch
    for since in (last, epoch):  # before what is lost, and after it
        assert await lines_in(world.etcd, "/copy", f"0x{since:x}", monkeypatch) == ([], "")


async def test_a_reader_goes_on_in_a_copy_that_still_follows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = (await position_of(world.etcd, KEYS)).zxid  # type: ignore[union-attr]
    await world.write(2)
    await world.level()
    lines, end = await lines_in(world.etcd, "/copy", f"0x{begin:x}", monkeypatch)
    assert ([line["path"] for line in lines if line["change"] == "created"], end) == (["/n3", "/n4"], "")
    with pytest.raises(Gone, match=f"the log reaches back to 0x{begin:x}, and not to 0x1") as gone:
        await lines_in(world.etcd, "/copy", "0x1", monkeypatch)
    assert gone.value.oldest == begin


async def test_what_has_become_of_each_node_is_shown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many requests of the source are one entry of the copy."""
    begin = (await position_of(world.etcd, KEYS)).zxid  # type: ignore[union-attr]
    session = world.tree.session("a")
    readable = (Acl(31, "world", "anyone"), Acl(1, "ip", "1.1.1.1"))
    requests = [
        zk.set_acl("/n1", (Acl(1, "world", "anyone"),), -1),
        zk.set_acl("/n1", readable, -1),
        zk.set_acl("/n2", (Acl(31, "world", "anyone"),), -1),  # as it was
        zk.create("/gone", b""),
        zk.delete("/gone"),
        zk.set_data("/n2", b"a", -1),
        zk.set_data("/n2", b"b", -1),
    ]
    await world.tree.send("a", [asked(session, request) for request in requests])
    await world.level()
    lines, _ = await lines_in(world.etcd, "/copy", f"0x{begin:x}", monkeypatch)
    shown = [(line["path"], line["change"], line["version_after"], line["data"]) for line in lines]
    assert shown == [("/n2", "set", 1, "b"), ("/n1", "setACL", 1, None), ("/n2", "set", 2, "b")]
