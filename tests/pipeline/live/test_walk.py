"""A walk over a running ZooKeeper sees what any client sees, and reports that the tree changed under it."""

import asyncio
import struct

import pytest

from lab.oracle.client import Client
from lab.oracle.requests import Create, SetData
from lab.servers import ZooKeeperServer, free_port
from pipeline.addresses import Identity
from pipeline.live.walk import Walk, WalkFailed, node_count
from pipeline.table import ZnodeRow
from tests.pipeline.ensembles import view

SUPER_USER = Identity("digest", b"super:test")


async def walked(walk: Walk) -> dict[str, ZnodeRow]:
    return {row.path: row async for page in walk.rows() for row in page}


def test_every_node_with_its_counter(live_server: ZooKeeperServer) -> None:
    walk = Walk([("127.0.0.1", free_port()), ("127.0.0.1", live_server.port)], [SUPER_USER])
    rows = asyncio.run(walked(walk))
    seen = view(live_server.port)
    assert rows.keys() == seen.keys()
    for path, row in rows.items():
        node = seen[path]
        assert row.data == node.data
        assert (row.acl or ((31, "world", "anyone"),)) == node.acl
        assert (row.czxid, row.mzxid, row.pzxid) == (node.stat.czxid, node.stat.mzxid, node.stat.pzxid)
        assert 2 * row.created - len(node.children) == node.stat.cversion
        assert (row.ctime, row.mtime, row.version, row.aversion, row.owner) == (
            node.stat.ctime,
            node.stat.mtime,
            node.stat.version,
            node.stat.aversion,
            node.stat.ephemeral_owner,
        )
    assert not walk.changed
    assert walk.last_zxid >= walk.newest


async def test_a_change_under_the_walk_is_told(live_server: ZooKeeperServer) -> None:
    walk = Walk([("127.0.0.1", live_server.port)], [SUPER_USER], page=10)
    pages = walk.rows()
    await anext(pages)
    assert not walk.changed
    # No more than some hundred nodes have been asked for: most of these are still to come.
    client = Client(live_server.port)
    client.do(*(SetData(f"/wide/{number:04}", b"new", -1) for number in range(400)))
    client.close()
    async for _ in pages:
        pass
    assert walk.changed


def test_what_may_not_be_read_is_told(live_server: ZooKeeperServer) -> None:
    client = Client(live_server.port)
    client.do(Create("/secret", b"", acls=((8, "digest", "nobody:x"),)))
    client.close()
    with pytest.raises(WalkFailed, match="/secret cannot be read: NO_AUTH"):
        asyncio.run(walked(Walk([("127.0.0.1", live_server.port)])))
    with pytest.raises(WalkFailed, match="does not accept the identity"):
        asyncio.run(walked(Walk([("127.0.0.1", live_server.port)], [Identity("unheard-of", b"x")])))


def test_the_number_of_nodes_is_that_of_the_first_server_that_answers(live_server: ZooKeeperServer) -> None:
    found = node_count([("127.0.0.1", free_port()), ("127.0.0.1", live_server.port)])
    assert found is not None
    assert found > 10


def test_nobody_there() -> None:
    nobody = [("127.0.0.1", free_port())]
    assert node_count(nobody) is None
    with pytest.raises(WalkFailed, match="no server answers"):
        asyncio.run(walked(Walk(nobody)))


_WELCOME = struct.pack(">iiiqi", 36, 0, 30_000, 5, 16) + bytes(16)
_NO_STAT = struct.pack(">iiqii", 20, 2, 5, 0, -1)  # getData's: null data, and nothing behind it


@pytest.mark.parametrize(
    "answers",
    [
        b"\0\0\0\0",
        b"\0\0\0\4abcd",
        _WELCOME + b"\0\0\0\3abc",
        _WELCOME + struct.pack(">iiqi", 21, 1, 5, 0) + b"\0\0\0\1/" + 3 * _NO_STAT,
    ],
)
async def test_a_server_of_something_else(answers: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        writer.write(answers)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        with pytest.raises(WalkFailed, match=r"bytes|Stat"):
            await walked(Walk([server.sockets[0].getsockname()[:2]]))
